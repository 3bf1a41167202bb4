//! The cache folder: where everything lies, what in it can be trusted, and how something gets into it.
//!
//! Nothing is trusted without a receipt that matches, and a receipt is written only after the files it describes are
//! on disk. It does not know where artifacts come from.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    manifest::{Artifact, Component, Kind},
    receipt::{Depth, Origin, Receipt, files_below},
};

/// Name of the folders in which artifacts are prepared; what is left of them after a crash is swept away.
const STAGE_PREFIX: &str = ".staging-";

/// The cache folder could not be used.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} {path:?} in the toolchain cache")]
pub struct CacheError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Adds to an I/O error what was to be done, and to which file.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError {
        action,
        path,
        source,
    }
}

/// What the cache has of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// All of it, and its receipt matches.
    Trusted(Receipt),
    /// Nothing.
    Missing,
    /// Something that must not be used, and why.
    Untrusted(String),
}

/// The cache folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What only building needs: Go's caches and unfinished downloads.
    pub(crate) fn build_folder(&self) -> PathBuf {
        self.root.join("build")
    }

    pub(crate) fn lock_folder(&self) -> PathBuf {
        self.root.join("locks")
    }

    fn folder(&self, component: &Component) -> PathBuf {
        self.root
            .join(&component.name)
            .join(component.version.to_string())
    }

    /// Where an artifact is once it is installed.
    pub(crate) fn path(&self, component: &Component, artifact: &Artifact) -> PathBuf {
        let folder = self.folder(component);
        match &artifact.kind {
            Kind::Binary { .. } => folder.join("bin").join(&artifact.name),
            Kind::Tree { .. } => folder.join("share").join(&artifact.name),
        }
    }

    fn receipt_path(&self, component: &Component, artifact: &Artifact) -> PathBuf {
        self.folder(component)
            .join("receipts")
            .join(format!("{}.json", artifact.name))
    }

    /// Whether an artifact can be used.
    pub(crate) fn check(&self, component: &Component, artifact: &Artifact, depth: Depth) -> Held {
        let path = self.path(component, artifact);
        let text = match fs::read(self.receipt_path(component, artifact)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if path.symlink_metadata().is_ok() {
                    Held::Untrusted("its installation was not finished".to_owned())
                } else {
                    Held::Missing
                };
            }
            Err(error) => return Held::Untrusted(format!("its receipt cannot be read: {error}")),
        };
        match serde_json::from_slice::<Receipt>(&text) {
            Err(_) => Held::Untrusted("its receipt is damaged".to_owned()),
            Ok(receipt) => match receipt.difference(&path, depth) {
                Some(reason) => Held::Untrusted(reason),
                None => Held::Trusted(receipt),
            },
        }
    }

    /// Withdraws the trust in an artifact, so that the next installation replaces it.
    pub(crate) fn distrust(
        &self,
        component: &Component,
        artifact: &Artifact,
    ) -> Result<(), CacheError> {
        let receipt = self.receipt_path(component, artifact);
        match fs::remove_file(&receipt) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &receipt)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// An empty folder to prepare artifacts of a component in, on the same file system as their final place.
    ///
    /// Call it with the component's lock held: it removes what killed installations left behind.
    pub(crate) fn stage(&self, component: &Component) -> Result<TempDir, CacheError> {
        let folder = self.folder(component);
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        for entry in fs::read_dir(&folder).map_err(failed("read", &folder))? {
            let entry = entry.map_err(failed("read", &folder))?;
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(STAGE_PREFIX)
            {
                fs::remove_dir_all(entry.path()).map_err(failed("remove", &entry.path()))?;
            }
        }
        tempfile::Builder::new()
            .prefix(STAGE_PREFIX)
            .tempdir_in(&folder)
            .map_err(failed("create a folder in", &folder))
    }

    /// Moves a prepared artifact to its place and writes its receipt, in an order that a crash at any point leaves
    /// either the old state, nothing, or something that is not trusted.
    pub(crate) fn commit(
        &self,
        component: &Component,
        artifact: &Artifact,
        staged: &Path,
        origin: Origin,
    ) -> Result<Receipt, CacheError> {
        let target = self.path(component, artifact);
        let receipt_path = self.receipt_path(component, artifact);
        let folder = parent(&target);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        if !matches!(origin, Origin::Path { .. }) {
            sync_files(staged)?;
        }
        self.distrust(component, artifact)?;
        if target.is_dir() && !target.is_symlink() {
            fs::remove_dir_all(&target).map_err(failed("remove", &target))?;
        }
        fs::rename(staged, &target).map_err(failed("put in place", &target))?;
        sync_folder(folder)?;
        let receipt = Receipt::describe(&target, origin).map_err(failed("read", &target))?;
        write_receipt(&receipt_path, &receipt)?;
        Ok(receipt)
    }
}

fn parent(path: &Path) -> &Path {
    path.parent()
        .expect("everything in the cache lies below its root")
}

fn sync_files(staged: &Path) -> Result<(), CacheError> {
    for relative in files_below(staged).map_err(failed("read", staged))? {
        let joined = staged.join(&relative);
        let file = if relative.as_os_str().is_empty() {
            staged
        } else {
            &joined
        };
        fs::File::open(file)
            .and_then(|file| file.sync_all())
            .map_err(failed("write out", file))?;
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), CacheError> {
    fs::File::open(folder)
        .and_then(|it| it.sync_all())
        .map_err(failed("write out", folder))
}

fn write_receipt(path: &Path, receipt: &Receipt) -> Result<(), CacheError> {
    let folder = parent(path);
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let mut file =
        tempfile::NamedTempFile::new_in(folder).map_err(failed("create a file in", folder))?;
    serde_json::to_writer_pretty(&mut file, receipt)
        .map_err(io::Error::from)
        .and_then(|()| file.as_file().sync_all())
        .map_err(failed("write", path))?;
    file.persist(path)
        .map_err(|error| failed("write", path)(error.error))?;
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    struct Fixture {
        _folder: TempDir,
        cache: Cache,
        manifest: Manifest,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::new(folder.path().join("toolchain"));
            Self {
                _folder: folder,
                cache,
                manifest: Manifest::builtin(),
            }
        }

        fn kubectl(&self) -> (&Component, &Artifact) {
            self.manifest.find("kubectl", None).unwrap()
        }

        fn install(&self, content: &str) -> PathBuf {
            let (component, artifact) = self.kubectl();
            let stage = self.cache.stage(component).unwrap();
            let staged = stage.path().join("kubectl");
            fs::write(&staged, content).unwrap();
            let origin = Origin::GoBuild {
                package: "p".into(),
            };
            self.cache
                .commit(component, artifact, &staged, origin)
                .unwrap();
            self.cache.path(component, artifact)
        }

        fn check(&self) -> Held {
            let (component, artifact) = self.kubectl();
            self.cache.check(component, artifact, Depth::Quick)
        }
    }

    fn reason(held: Held) -> String {
        match held {
            Held::Untrusted(reason) => reason,
            other => panic!("expected distrust, got {other:?}"),
        }
    }

    #[test]
    fn what_was_installed_is_trusted() {
        let fixture = Fixture::new();
        assert_eq!(fixture.check(), Held::Missing);
        let path = fixture.install("binary");
        assert!(matches!(fixture.check(), Held::Trusted(receipt) if receipt.size() == 6));
        assert_eq!(fs::read_to_string(path).unwrap(), "binary");
    }

    #[test]
    fn a_truncated_binary_is_not_trusted() {
        let fixture = Fixture::new();
        let path = fixture.install("binary");
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(3)
            .unwrap();
        assert!(reason(fixture.check()).contains("3 bytes instead of 6"));
    }

    #[test]
    fn a_binary_without_a_receipt_is_not_trusted() {
        let fixture = Fixture::new();
        fixture.install("binary");
        let (component, artifact) = fixture.kubectl();
        fixture.cache.distrust(component, artifact).unwrap();
        assert!(reason(fixture.check()).contains("not finished"));
    }

    #[test]
    fn a_half_written_receipt_proves_nothing() {
        let fixture = Fixture::new();
        fixture.install("binary");
        let (component, artifact) = fixture.kubectl();
        let receipt = fixture.cache.receipt_path(component, artifact);
        let text = fs::read_to_string(&receipt).unwrap();
        for end in [0, 1, text.len() / 2, text.len() - 2] {
            fs::write(&receipt, text.get(..end).unwrap()).unwrap();
            assert!(reason(fixture.check()).contains("damaged"), "{end} bytes");
        }
    }

    #[test]
    fn a_linked_program_is_no_longer_trusted_when_the_machine_replaces_it() {
        let fixture = Fixture::new();
        let outside = tempfile::tempdir().unwrap();
        let program = outside.path().join("kubectl");
        fs::write(&program, "one").unwrap();
        let (component, artifact) = fixture.kubectl();
        let stage = fixture.cache.stage(component).unwrap();
        let staged = stage.path().join("kubectl");
        std::os::unix::fs::symlink(&program, &staged).unwrap();
        let origin = Origin::Path {
            path: program.clone(),
        };
        fixture
            .cache
            .commit(component, artifact, &staged, origin)
            .unwrap();
        assert!(matches!(fixture.check(), Held::Trusted(_)));
        fs::write(&program, "another").unwrap();
        assert!(reason(fixture.check()).contains("bytes"));
        fs::remove_file(&program).unwrap();
        assert!(reason(fixture.check()).contains("gone"));
    }

    #[test]
    fn leftovers_of_killed_installations_are_swept_away() {
        let fixture = Fixture::new();
        let (component, _) = fixture.kubectl();
        let killed = fixture.cache.stage(component).unwrap().keep();
        fs::write(killed.join("half"), "x").unwrap();
        let stage = fixture.cache.stage(component).unwrap();
        assert!(!killed.exists());
        assert!(stage.path().exists());
    }

    #[test]
    fn a_second_installation_replaces_the_first() {
        let fixture = Fixture::new();
        fixture.install("binary");
        let path = fixture.install("newer binary");
        assert!(matches!(fixture.check(), Held::Trusted(_)));
        assert_eq!(fs::read_to_string(path).unwrap(), "newer binary");
    }
}
