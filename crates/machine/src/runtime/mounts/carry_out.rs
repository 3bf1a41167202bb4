//! Carries out what was planned, with the calls of the kernel.

use std::{ffi::CString, fs, os::unix::fs::symlink, path::Path};

use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount,
};

use super::{super::Error, Action};

/// Carries the plan out, in a mount namespace of its own.
pub(crate) fn carry_out(actions: &[Action]) -> Result<(), Error> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .map_err(Error::kernel("keep mounts from the host"))?;
    actions.iter().try_for_each(carry_out_one)
}

fn carry_out_one(action: &Action) -> Result<(), Error> {
    let mounting = |target: &Path, result: rustix::io::Result<()>| {
        result.map_err(|error| Error::file("mount", target)(error.into()))
    };
    match action {
        Action::Folder(path) => fs::create_dir_all(path).map_err(Error::file("make", path)),
        Action::Text { path, text } => {
            use std::os::unix::fs::PermissionsExt as _;
            fs::write(path, text).map_err(Error::file("write", path))?;
            let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(path, permissions).map_err(Error::file("write", path))
        }
        Action::Link { path, target } => match symlink(target, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(Error::file("link", path)),
        },
        Action::Bind {
            source,
            target,
            read_only,
        } => {
            mounting(target, mount_bind(source, target))?;
            if *read_only {
                let flags = MountFlags::BIND | MountFlags::RDONLY;
                mounting(target, mount_remount(target, flags, ""))?;
            }
            Ok(())
        }
        Action::FileSystem {
            kind,
            target,
            options,
        } => {
            let data = CString::new(options.as_str()).unwrap_or_default();
            let flags = MountFlags::empty();
            mounting(target, mount(*kind, target, *kind, flags, data.as_c_str()))
        }
    }
}
