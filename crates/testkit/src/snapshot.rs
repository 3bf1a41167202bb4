//! The data of an etcd that already holds every custom resource definition, kept in the user's cache.
//!
//! Installing the definitions takes the API server seconds; copying a few megabytes takes none. A snapshot is
//! named after everything that went into it and gets that name only when it is complete, so a wrong or a
//! half-written one is never used.

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    binaries::Binaries,
    definitions::{self, Served},
    host::Boot,
    server::Error,
};

/// How many snapshots stay in the cache: branches with different definitions take turns.
const KEPT: usize = 3;
const SERVED: &str = "served.json";
const DATA: &str = "etcd";
/// How the name of a snapshot begins that is not complete.
const UNNAMED: &str = ".unnamed-";
/// A snapshot that is not complete after so long was given up by a process that was killed.
const ABANDONED: Duration = Duration::from_hours(1);

/// A complete snapshot; it is not removed while this value lives.
#[derive(Debug)]
pub(crate) struct Snapshot {
    folder: PathBuf,
    /// What a server that starts from it must serve.
    pub(crate) served: Served,
    _in_use: File,
}

impl Snapshot {
    /// The snapshot for these components and definitions, made now if it is not in the cache.
    pub(crate) async fn ensure(binaries: &Binaries) -> Result<Self, Error> {
        let cache = &binaries.cache;
        fs::create_dir_all(cache).map_err(Error::file("create", cache))?;
        let key = definitions::key(binaries)?;
        let folder = cache.join(&key);
        let lock = in_background({
            let path = cache.join(format!("{key}.lock"));
            let folder = folder.clone();
            move || lock(&path, folder.exists())
        })
        .await?;
        if !folder.exists() {
            prepare(binaries, cache, &folder).await?;
            prune(cache, &key);
        }
        let file = folder.join(SERVED);
        let text = fs::read(&file).map_err(Error::file("read", &file))?;
        let served = serde_json::from_slice(&text).map_err(|source| Error::File {
            action: "read",
            file,
            source: source.into(),
        })?;
        Ok(Self {
            folder,
            served,
            _in_use: lock,
        })
    }

    /// Puts a copy of the data where a new etcd will look for it.
    pub(crate) fn copy_to(&self, data: &Path) -> Result<(), Error> {
        copy_folder(&self.folder.join(DATA), data)
    }
}

/// Shared when the snapshot is there, alone when it must be made: whoever waited finds it made.
fn lock(path: &Path, exists: bool) -> Result<File, Error> {
    let file = File::create(path).map_err(Error::file("create", path))?;
    let locked = if exists {
        file.lock_shared()
    } else {
        file.lock()
    };
    locked.map_err(Error::file("lock", path))?;
    Ok(file)
}

async fn prepare(binaries: &Binaries, cache: &Path, folder: &Path) -> Result<(), Error> {
    let all = definitions::all(binaries)?;
    let served = definitions::served(&all);
    let mut boot = Boot::start(binaries, None, false).await?;
    definitions::install(boot.client(), &all).await?;
    // Once with the controllers of Kubernetes: without them `view`, `edit` and `admin` are empty roles.
    boot.start_controller_manager(binaries).await?;
    boot.wait_until_roles_are_filled().await?;
    boot.wait_until_served(&served).await?;
    boot.stop().await?;

    let unnamed = tempfile::Builder::new().prefix(UNNAMED).tempdir_in(cache);
    let unnamed = unnamed.map_err(Error::file("make a folder in", cache))?;
    copy_folder(&boot.data(), &unnamed.path().join(DATA))?;
    let list = serde_json::to_vec(&served).expect("a set of strings is plain data");
    let file = unnamed.path().join(SERVED);
    fs::write(&file, list).map_err(Error::file("write", &file))?;
    match fs::rename(unnamed.path(), folder) {
        // Somebody else was quicker; theirs is the same.
        Err(_) if folder.join(SERVED).exists() => Ok(()),
        renamed => renamed.map_err(Error::file("create", folder)),
    }
}

/// Removes all but the newest snapshots, and none that is in use. Best effort.
fn prune(cache: &Path, key: &str) {
    let long_ago = SystemTime::now() - ABANDONED;
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let modified = modified.unwrap_or(SystemTime::UNIX_EPOCH);
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(UNNAMED) && modified < long_ago {
            let _ = fs::remove_dir_all(entry.path());
        } else if entry.path().join(SERVED).exists() && !name.starts_with(UNNAMED) && name != key {
            found.push((modified, entry.path()));
        }
    }
    found.sort();
    let surplus = (found.len() + 1).saturating_sub(KEPT);
    for (_, folder) in found.into_iter().take(surplus) {
        let lock = folder.with_extension("lock");
        if File::create(&lock).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::file("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::file("list", from))? {
        let entry = entry.map_err(Error::file("list", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_folder(&source, &target)?;
        } else if source
            .extension()
            .is_none_or(|extension| extension != "tmp")
        {
            copy_sparse(&source, &target).map_err(Error::file("copy", &source))?;
        }
    }
    Ok(())
}

/// Copies a file and leaves out its zeros: etcd reserves 64 MB for a log of which it uses little.
fn copy_sparse(from: &Path, to: &Path) -> std::io::Result<()> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut source = File::open(from)?;
    let mut target = File::create(to)?;
    let mut buffer = vec![0; ZEROS.len()];
    loop {
        let count = source.read(&mut buffer)?;
        let read = buffer.get(..count).unwrap_or_default();
        if read.is_empty() {
            break;
        } else if ZEROS.get(..count) == Some(read) {
            target.seek(SeekFrom::Current(i64::try_from(count).unwrap_or_default()))?;
        } else {
            target.write_all(read)?;
        }
    }
    target.set_len(source.metadata()?.len())
}

/// Waits for a lock without stopping the other tasks of this thread.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("locking a file does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_its_zeros_reads_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let mut content = vec![7; 100];
        content.resize(300_000, 0);
        content.extend([9; 5]);
        content.resize(400_000, 0);
        fs::write(&from, &content).unwrap();
        copy_sparse(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), content);
    }
}
