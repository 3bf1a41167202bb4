//! Locks between processes that share one cache folder.
//!
//! The kernel drops them with their holder, so a killed installer blocks nobody. Lock files are never removed: a
//! waiter would keep the lock of a file that another process no longer sees.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// How many builds may run at the same time, over all processes.
const BUILDS: usize = 2;

/// A lock file could not be used.
#[derive(Debug, thiserror::Error)]
#[error("could not lock {path:?}")]
pub struct LockError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Holds a lock until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the lock called `name`; `waiting` is called first if somebody else holds it.
pub(crate) async fn acquire(
    folder: &Path,
    name: &str,
    waiting: impl FnOnce(),
) -> Result<Lock, LockError> {
    let path = folder.join(format!("{name}.lock"));
    if let Some(lock) = try_path(&path)? {
        return Ok(lock);
    }
    waiting();
    wait_for(path).await
}

/// Takes one of the places for builds; `waiting` is called first if all are taken.
pub(crate) async fn acquire_build(
    folder: &Path,
    seed: usize,
    waiting: impl FnOnce(),
) -> Result<Lock, LockError> {
    for number in 0..BUILDS {
        if let Some(lock) = try_path(&build_path(folder, number))? {
            return Ok(lock);
        }
    }
    waiting();
    // Waiters spread over the places, so that each place that becomes free finds one.
    wait_for(build_path(folder, seed % BUILDS)).await
}

/// Takes every place for builds, or none if one is taken.
pub(crate) fn try_all_builds(folder: &Path) -> Result<Option<Vec<Lock>>, LockError> {
    (0..BUILDS)
        .map(|number| try_path(&build_path(folder, number)))
        .collect()
}

fn build_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("build-{number}.lock"))
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

fn try_path(path: &Path) -> Result<Option<Lock>, LockError> {
    let failed = |source| LockError {
        path: path.to_owned(),
        source,
    };
    let file = open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

async fn wait_for(path: PathBuf) -> Result<Lock, LockError> {
    let shown = path.clone();
    let locked = tokio::task::spawn_blocking(move || {
        let file = open(&path)?;
        file.lock()?;
        Ok(file)
    })
    .await
    .unwrap_or_else(|ended| Err(io::Error::other(ended)));
    match locked {
        Ok(file) => Ok(Lock { _file: file }),
        Err(source) => Err(LockError {
            path: shown,
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_had_by_one_and_then_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let first = acquire(folder.path(), "etcd", || panic!("nobody holds it"))
            .await
            .unwrap();
        let mut waited = false;
        let second = acquire(folder.path(), "etcd", || {
            waited = true;
            drop(first);
        });
        second.await.unwrap();
        assert!(waited);
    }

    #[tokio::test]
    async fn two_builds_run_and_the_third_waits() {
        let folder = tempfile::tempdir().unwrap();
        let mut held = Vec::new();
        for seed in 0..2 {
            held.push(
                acquire_build(folder.path(), seed, || panic!("a place is free"))
                    .await
                    .unwrap(),
            );
        }
        assert!(try_all_builds(folder.path()).unwrap().is_none());
        let mut waited = false;
        let third = acquire_build(folder.path(), 2, || {
            waited = true;
            held.clear();
        });
        drop(third.await.unwrap());
        assert!(waited);
        assert_eq!(
            try_all_builds(folder.path())
                .unwrap()
                .map(|locks| locks.len()),
            Some(2)
        );
    }
}
