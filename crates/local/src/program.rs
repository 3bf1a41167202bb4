//! The platform's own programs: which build one is, and copies that outlive where they were built.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::settings::write;

/// `butler` beside this program. Its tag changes with it, so that nodes never run an older one of the same name.
pub(crate) fn own_binary(program: &Path) -> Option<(PathBuf, String)> {
    let path = program.parent()?.join("butler");
    let tag = tag(&path).ok()?;
    Some((path, tag))
}

/// Copies a program to where it is run. True when another one was there until now, or none.
pub(crate) fn copy_program(program: &Path, target: &Path) -> io::Result<bool> {
    let note = target.with_extension("tag");
    let tag = tag(program)?;
    if target.exists() && fs::read_to_string(&note).is_ok_and(|held| held == tag) {
        return Ok(false);
    }
    let draft = target.with_extension("new");
    fs::copy(program, &draft)?;
    fs::rename(&draft, target)?;
    write(&note, &tag)?;
    Ok(true)
}

/// Tells one build of a program from another.
fn tag(program: &Path) -> io::Result<String> {
    let metadata = fs::metadata(program)?;
    let version = env!("CARGO_PKG_VERSION");
    let (changed, size) = (metadata.mtime(), metadata.len());
    Ok(format!("{version}-{changed:x}-{size:x}"))
}
