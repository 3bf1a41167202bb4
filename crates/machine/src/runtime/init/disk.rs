//! The disk of a machine that starts for the first time: what it takes over from its host, and its identity.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use super::super::{Error, Folder, MachineSpec, configuration::system_accounts};

/// Files of the host's `/etc` that programs of its `/usr` need.
const TAKEN_OVER: [&str; 7] = [
    "nsswitch.conf",
    "services",
    "protocols",
    "ld.so.cache",
    "login.defs",
    "ca-certificates.conf",
    "ssl/openssl.cnf",
];

/// Fills the disk, unless it was filled before.
pub(super) fn prepare(folder: &Folder, spec: &MachineSpec) -> Result<(), Error> {
    let uuid = folder.state().join("product_uuid");
    // Written last: with it the disk is complete.
    if uuid.exists() {
        return Ok(());
    }
    let root = folder.root();
    let etc = root.join("etc");
    for path in [etc.join("ssl"), root.join("var/lib")] {
        fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
    }
    // As every distribution has it: programs still use the older name.
    let older = root.join("var/run");
    if older.symlink_metadata().is_err() {
        symlink("/run", &older).map_err(Error::file("make", &older))?;
    }
    for name in TAKEN_OVER {
        let source = Path::new("/etc").join(name);
        if source.exists() {
            fs::copy(&source, etc.join(name)).map_err(Error::file("copy", &source))?;
        }
    }
    for name in ["passwd", "group"] {
        let source = Path::new("/etc").join(name);
        let accounts = fs::read_to_string(&source).map_err(Error::file("read", &source))?;
        let target = etc.join(name);
        fs::write(&target, system_accounts(&accounts)).map_err(Error::file("write", &target))?;
    }
    if let Some(store) = &spec.image_store {
        take_over_images(store, &root.join("var/lib"))?;
    }
    let random = Path::new("/proc/sys/kernel/random/uuid");
    let id = fs::read_to_string(random).map_err(Error::file("read", random))?;
    let machine_id = etc.join("machine-id");
    fs::write(&machine_id, id.replace('-', "")).map_err(Error::file("write", &machine_id))?;
    fs::write(&uuid, id).map_err(Error::file("write", &uuid))
}

/// Shares the files of a container store, which are never changed, and copies its databases, which are.
fn take_over_images(store: &Path, parent: &Path) -> Result<(), Error> {
    let target = parent.join("containerd");
    share(store, &target)?;
    let mut open = vec![target];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::file("list", &folder))? {
            let path = entry.map_err(Error::file("list", &folder))?.path();
            let kind = fs::symlink_metadata(&path).map_err(Error::file("look at", &path))?;
            // Layers are large and hold no databases of containerd itself.
            let inside_layer = path.file_name().is_some_and(|name| name == "fs");
            if kind.is_dir() && !inside_layer {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "db") {
                let own = path.with_extension("new");
                fs::copy(&path, &own).map_err(Error::file("copy", &path))?;
                fs::rename(&own, &path).map_err(Error::file("copy", &path))?;
            }
        }
    }
    Ok(())
}

/// Links every file into another tree.
fn share(source: &Path, target: &Path) -> Result<(), Error> {
    let output = Command::new("cp")
        .args(["-al", "--no-target-directory"])
        .args([source, target])
        .env("PATH", "/usr/bin:/bin")
        .output()
        .map_err(Error::file("run", Path::new("cp")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: format!("cp -al {} {}", source.display(), target.display()),
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}
