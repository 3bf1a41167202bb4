//! What the root of a machine depends on besides the machine itself, read from the host once.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::{
    super::{Cgroups, Error},
    PRODUCT_UUID,
};

/// Folders of the host that every machine sees below its own changes: copies would take longer than all the rest.
const SHARED: [&str; 4] = [
    "usr",
    "etc/alternatives",
    "etc/ca-certificates",
    "etc/ssl/certs",
];
/// Folders of the host that are links into `/usr` on most systems.
const TOP: [&str; 5] = ["bin", "sbin", "lib", "lib32", "lib64"];
const DEVICES: [&str; 8] = [
    "null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse",
];

/// What the plan depends on besides the machine itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) cgroups: Cgroups,
    /// Folders of [`SHARED`] that the host has.
    pub(crate) shared: Vec<&'static str>,
    /// Folders at the top of the host, and where they lead if they are links.
    pub(crate) top: Vec<(&'static str, Option<PathBuf>)>,
    /// Devices that the host has.
    pub(crate) devices: Vec<&'static str>,
    /// Whether the host tells the id of its hardware, which must differ between machines.
    pub(crate) has_product_uuid: bool,
    /// The host's `/proc/meminfo`.
    pub(crate) memory: String,
    /// This program.
    pub(crate) program: PathBuf,
    /// How this program is called to play `systemctl`.
    pub(crate) systemctl: String,
}

impl Facts {
    pub(crate) fn gather(cgroups: Cgroups, systemctl: String) -> Result<Self, Error> {
        let top = TOP.into_iter().filter_map(|name| {
            let path = Path::new("/").join(name);
            let about = fs::symlink_metadata(&path).ok()?;
            Some((
                name,
                about
                    .is_symlink()
                    .then(|| fs::read_link(&path).ok())
                    .flatten(),
            ))
        });
        let memory = Path::new("/proc/meminfo");
        Ok(Self {
            cgroups,
            shared: SHARED
                .into_iter()
                .filter(|name| Path::new("/").join(name).exists())
                .collect(),
            top: top.collect(),
            devices: DEVICES
                .into_iter()
                .filter(|name| Path::new("/dev").join(name).exists())
                .collect(),
            has_product_uuid: Path::new(PRODUCT_UUID).exists(),
            memory: fs::read_to_string(memory).map_err(Error::file("read", memory))?,
            // By its path: the link itself leads to a mount of the host, which cannot be bound here.
            program: env::current_exe()
                .map_err(Error::file("find", Path::new("/proc/self/exe")))?,
            systemctl,
        })
    }
}
