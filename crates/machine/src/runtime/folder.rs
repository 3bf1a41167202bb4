//! The folder of one machine: its disk, and what the platform remembers of it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Error, MachineSpec, protocol::Outcome};
use crate::bootstrap::Plan;

/// How a machine was broken on purpose. It stays so until somebody resumes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Held {
    /// All its processes stand still.
    Paused,
    /// It has been killed, and must not be started again.
    Killed,
    /// It answers nobody and reaches nobody.
    Partitioned,
}

/// The folder of one machine.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at a path, whether it exists or not.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the machine's root is put together.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// What the machine changes in folders that it shares with its host.
    pub(crate) fn changes(&self) -> PathBuf {
        self.0.join("changes")
    }

    /// What the machine and the platform tell each other; the machine sees it as `/var/lib/butler`.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// What the first process says.
    pub(crate) fn console(&self) -> PathBuf {
        self.0.join("console.log")
    }

    /// Makes the folder, readable for its owner only: there are keys on the disk of a machine.
    pub(crate) fn make(&self) -> Result<(), Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut maker = fs::DirBuilder::new();
        maker.recursive(true).mode(0o700);
        for folder in [self.0.clone(), self.state()] {
            maker
                .create(&folder)
                .map_err(Error::file("make", &folder))?;
        }
        Ok(())
    }

    pub(crate) fn write_spec(&self, spec: &MachineSpec) -> Result<(), Error> {
        write(&self.0.join("spec.json"), spec)
    }

    /// What the machine is made from.
    pub fn read_spec(&self) -> Result<Option<MachineSpec>, Error> {
        read(&self.0.join("spec.json"))
    }

    pub(crate) fn write_plan(&self, plan: &Plan) -> Result<(), Error> {
        write(&self.state().join("bootstrap.json"), plan)
    }

    /// How the bootstrap data ended, if it did.
    pub(crate) fn read_outcome(&self) -> Result<Option<Outcome>, Error> {
        read(&self.state().join("outcome.json"))
    }

    pub(crate) fn hold(&self, held: Held) -> Result<(), Error> {
        write(&self.0.join("held.json"), &held)
    }

    pub(crate) fn release(&self) -> Result<(), Error> {
        let path = self.0.join("held.json");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::file("remove", &path)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn read_held(&self) -> Result<Option<Held>, Error> {
        read(&self.0.join("held.json"))
    }

    /// One at a time starts, breaks or removes a machine; the lock goes with the file.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        let path = self.0.join("lock");
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let file = opened.map_err(Error::file("open", &path))?;
        file.lock().map_err(Error::file("lock", &path))?;
        Ok(file)
    }

    /// The last lines of the console.
    pub(crate) fn last_words(&self) -> String {
        let text = fs::read_to_string(self.console()).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// Writes a file as a whole or not at all, for its owner only.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec(value)
        .map_err(|error| Error::file("write", path)(io::Error::other(error)))?;
    let new = path.with_extension("new");
    let written = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&new, path));
    written.map_err(Error::file("write", path))
}

/// Reads what [`write`] wrote; nothing where there is no such file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    let value = serde_json::from_slice(&text)
        .map_err(|error| Error::file("understand", path)(io::Error::other(error)))?;
    Ok(Some(value))
}
