//! What is written down about an installed artifact, and whether the files still match it.
//!
//! A receipt is the last thing an installation writes: files without one were never finished.

use std::{
    fmt::{self, Write as _},
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Where an artifact came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Origin {
    /// A program of the machine, linked.
    Path {
        /// The program.
        path: PathBuf,
    },
    /// An official release, or a mirror's copy of it.
    Download {
        /// The file.
        url: String,
    },
    /// Built from source.
    GoBuild {
        /// The Go package.
        package: String,
    },
    /// Files of a Go module.
    GoModule {
        /// The module.
        module: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path } => write!(f, "{}", path.display()),
            Self::Download { url } => write!(f, "{url}"),
            Self::GoBuild { .. } => write!(f, "go build"),
            Self::GoModule { .. } => write!(f, "go module"),
        }
    }
}

/// One file as it was when it was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Relative to the artifact; empty where the artifact is a file.
    path: PathBuf,
    size: u64,
    /// Time of the last change, in nanoseconds.
    changed: i128,
    sha256: String,
}

/// The proof that an artifact was installed completely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) origin: Origin,
    files: Vec<FileRecord>,
}

/// How closely files are compared with their receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Size and time of the last change.
    Quick,
    /// The whole content too.
    Full,
}

impl Receipt {
    /// Describes the file or folder at `path`, as it is now.
    pub(crate) fn describe(path: &Path, origin: Origin) -> io::Result<Self> {
        let mut files = Vec::new();
        for file in files_below(path)? {
            let whole = path.join(&file);
            let whole = if file.as_os_str().is_empty() {
                path
            } else {
                &whole
            };
            let metadata = fs::metadata(whole)?;
            files.push(FileRecord {
                size: metadata.len(),
                changed: changed(&metadata),
                sha256: sha256(whole)?,
                path: file,
            });
        }
        Ok(Self { origin, files })
    }

    /// All bytes of it.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// What at `path` differs from this receipt, if anything.
    pub(crate) fn difference(&self, path: &Path, depth: Depth) -> Option<String> {
        if self.files.is_empty() {
            return Some("its receipt lists no file".to_owned());
        }
        self.files
            .iter()
            .find_map(|record| record.difference(path, depth))
    }
}

impl FileRecord {
    fn difference(&self, root: &Path, depth: Depth) -> Option<String> {
        let joined = root.join(&self.path);
        let path = if self.path.as_os_str().is_empty() {
            root
        } else {
            &joined
        };
        let shown = path.display();
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Some(format!("{shown} is gone"));
            }
            Err(error) => return Some(format!("{shown} cannot be looked at: {error}")),
        };
        if metadata.len() != self.size {
            return Some(format!(
                "{shown} has {} bytes instead of {}",
                metadata.len(),
                self.size
            ));
        }
        if changed(&metadata) != self.changed {
            return Some(format!("{shown} was changed after its installation"));
        }
        if depth == Depth::Quick {
            return None;
        }
        match sha256(path) {
            Ok(sum) if sum == self.sha256 => None,
            Ok(_) => Some(format!("the content of {shown} is not what was installed")),
            Err(error) => Some(format!("{shown} cannot be read: {error}")),
        }
    }
}

fn changed(metadata: &fs::Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// The files at or below `root`, relative to it and sorted; one empty path where `root` is a file itself.
pub(crate) fn files_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        let whole = root.join(&relative);
        if fs::metadata(if relative.as_os_str().is_empty() {
            root
        } else {
            &whole
        })?
        .is_dir()
        {
            for entry in fs::read_dir(&whole)? {
                open.push(relative.join(entry?.file_name()));
            }
        } else {
            found.push(relative);
        }
    }
    found.sort();
    Ok(found)
}

/// The SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else {
            break;
        };
        hasher.update(part);
    }
    Ok(hexadecimal(&hasher.finalize()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::GoBuild {
            package: "p".into(),
        }
    }

    #[test]
    fn an_untouched_file_matches_its_receipt() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::write(&file, "content").unwrap();
        let receipt = Receipt::describe(&file, origin()).unwrap();
        assert_eq!(receipt.size(), 7);
        assert_eq!(receipt.difference(&file, Depth::Full), None);
    }

    #[test]
    fn a_flipped_byte_with_the_old_time_is_found_by_the_full_check_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::write(&file, "content").unwrap();
        let receipt = Receipt::describe(&file, origin()).unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "cOntent").unwrap();
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(time)
            .unwrap();
        assert_eq!(receipt.difference(&file, Depth::Quick), None);
        assert!(
            receipt
                .difference(&file, Depth::Full)
                .unwrap()
                .contains("content")
        );
    }

    #[test]
    fn a_folder_is_described_file_by_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/one"), "1").unwrap();
        fs::write(folder.path().join("two"), "22").unwrap();
        let receipt = Receipt::describe(folder.path(), origin()).unwrap();
        assert_eq!(receipt.size(), 3);
        assert_eq!(receipt.difference(folder.path(), Depth::Full), None);
        fs::remove_file(folder.path().join("a/b/one")).unwrap();
        assert!(
            receipt
                .difference(folder.path(), Depth::Quick)
                .unwrap()
                .contains("gone")
        );
    }
}
