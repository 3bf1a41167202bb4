//! Takes one file out of a compressed archive.

use std::{
    fs::File,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use flate2::bufread::GzDecoder;

/// Why a file could not be taken out of an archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("could not unpack {archive:?}")]
    Unpack {
        archive: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{archive:?} has no file {member:?}")]
    Missing { archive: PathBuf, member: String },
}

/// Writes the content of `member` to the new file `target`.
pub(crate) fn extract(archive: &Path, member: &str, target: &Path) -> Result<(), ArchiveError> {
    let found = copy_member(archive, member, target).map_err(|source| ArchiveError::Unpack {
        archive: archive.to_owned(),
        source,
    })?;
    if found {
        Ok(())
    } else {
        Err(ArchiveError::Missing {
            archive: archive.to_owned(),
            member: member.to_owned(),
        })
    }
}

fn copy_member(archive: &Path, member: &str, target: &Path) -> io::Result<bool> {
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(File::open(archive)?)));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let is_it = entry.header().entry_type().is_file()
            && entry.path()?.strip_prefix("./").unwrap_or(&entry.path()?) == Path::new(member);
        if is_it {
            io::copy(&mut entry, &mut File::create(target)?)?;
            return Ok(true);
        }
    }
    Ok(false)
}
