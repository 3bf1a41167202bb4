//! The one layer of an image: a tar archive that is the same for the same files.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
};

use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::recipe::Recipe;

/// Writes the layer. No time, no owner and no order of this machine gets into it.
pub(crate) fn write(recipe: &Recipe, out: impl Write) -> io::Result<()> {
    let mut archive = Archive {
        builder: Builder::new(out),
        folders: BTreeSet::new(),
    };
    archive.folder("tmp", 0o1777)?;
    for file in &recipe.files {
        let target = file.target.trim_start_matches('/');
        let mut content = fs::File::open(&file.source).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", file.source.display()))
        })?;
        let metadata = content.metadata()?;
        let executable = metadata.permissions().mode() & 0o111 != 0;
        archive.parents(target)?;
        let mut header = header(EntryType::Regular, if executable { 0o755 } else { 0o644 });
        header.set_size(metadata.len());
        archive
            .builder
            .append_data(&mut header, target, &mut content)?;
    }
    for (place, to) in &recipe.links {
        let place = place.trim_start_matches('/');
        archive.parents(place)?;
        let mut header = header(EntryType::Symlink, 0o777);
        header.set_size(0);
        archive.builder.append_link(&mut header, place, to)?;
    }
    archive.builder.into_inner()?.flush()
}

struct Archive<W: Write> {
    builder: Builder<W>,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    fn folder(&mut self, path: &str, mode: u32) -> io::Result<()> {
        if !self.folders.insert(path.to_owned()) {
            return Ok(());
        }
        let mut header = header(EntryType::Directory, mode);
        header.set_size(0);
        self.builder
            .append_data(&mut header, format!("{path}/"), io::empty())
    }

    fn parents(&mut self, target: &str) -> io::Result<()> {
        for (at, _) in target.match_indices('/') {
            if let Some(folder) = target.get(..at) {
                self.folder(folder, 0o755)?;
            }
        }
        Ok(())
    }
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Passes everything on, and knows the digest and the size of it in the end.
pub(crate) struct Hashing<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Hashing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    pub(crate) fn end(self) -> (W, String, u64) {
        (self.inner, hex(&self.hash.finalize()), self.size)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
