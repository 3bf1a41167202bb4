//! What an image is made of. Pure data.

use std::path::PathBuf;

use crate::reference::Reference;

/// One image: files of this machine at places in its root, and what is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The names it is known by; at least one.
    pub names: Vec<Reference>,
    /// What is in it.
    pub files: Vec<File>,
    /// Symbolic links: where, and to what.
    pub links: Vec<(String, String)>,
    /// What a container of it starts.
    pub entrypoint: Vec<String>,
    /// The user a container of it runs as; root if there is none.
    pub user: Option<String>,
}

/// One file of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Its absolute path in the image.
    pub target: String,
    /// Where its content is now.
    pub source: PathBuf,
}

impl Recipe {
    /// An image with one program that is also what it starts, as Kubernetes' own images are.
    pub fn program(names: Vec<Reference>, target: &str, source: PathBuf) -> Self {
        Self {
            names,
            files: vec![File {
                target: target.to_owned(),
                source,
            }],
            links: Vec::new(),
            entrypoint: vec![target.to_owned()],
            user: None,
        }
    }

    /// With more files.
    #[must_use]
    pub fn with(mut self, files: impl IntoIterator<Item = File>) -> Self {
        self.files.extend(files);
        self.files.sort();
        self.files.dedup_by(|one, other| one.target == other.target);
        self
    }
}
