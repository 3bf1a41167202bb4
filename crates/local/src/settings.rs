//! What a platform is made with, and where its things are.

use std::{
    fs,
    io::{self, Write as _},
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use butler_fabric::Layout;
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// What is chosen once, when a platform is made, and kept until it is reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The addresses of machines and load balancers.
    pub layout: Layout,
    /// Pods of the management cluster.
    pub pods: Ipv4Net,
    /// Services of the management cluster.
    pub services: Ipv4Net,
    /// Kubernetes of the management cluster.
    pub kubernetes: String,
}

impl Settings {
    /// The address of the management cluster's machine.
    pub fn management(&self) -> Ipv4Addr {
        let mut machines = self.layout.machine_addresses();
        machines
            .nth(8)
            .expect("a layout has more than nine addresses for machines")
    }

    /// The Service address of the tenants' store. It is asked for by address, because not everybody who uses it has the
    /// management cluster's names: controllers may run on the host. Small ones are for those who choose.
    pub fn tenant_store(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.services.network().to_bits() + 20)
    }

    /// Where nodes pull images from.
    pub fn registry(&self) -> String {
        format!("http://{}:{REGISTRY_PORT}", self.layout.services())
    }
}

/// The port of the registry.
pub const REGISTRY_PORT: u16 = 5000;
/// The management cluster's machine.
pub const MANAGEMENT: &str = "butler-management";

/// Where the things of a platform are. There is one platform on a host.
#[derive(Clone, Debug)]
pub struct Paths {
    /// What outlives a restart of the host: disks of machines, the registry's images, logs.
    pub state: PathBuf,
    /// What does not: namespaces, locks.
    pub run: PathBuf,
    /// What is only there to be quicker the next time.
    pub cache: PathBuf,
}

impl Paths {
    /// The usual places; the cache is the toolchain's.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            state: "/var/lib/butler".into(),
            run: "/run/butler".into(),
            cache: cache.into(),
        }
    }

    /// The settings of the platform that is there.
    pub fn settings(&self) -> PathBuf {
        self.state.join("settings.json")
    }

    /// The administrator's kubeconfig of the management cluster.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("admin.conf")
    }

    /// The agent's kubeconfig of the management cluster, as the infrastructure provider.
    pub fn provider_kubeconfig(&self) -> PathBuf {
        self.state.join("provider.conf")
    }

    /// The agent's kubeconfig of the management cluster, as the one who makes the network.
    pub fn agent_kubeconfig(&self) -> PathBuf {
        self.state.join("agent.conf")
    }

    /// The kubeconfig of a controller that runs on the host.
    pub fn controller_kubeconfig(&self, part: &str) -> PathBuf {
        self.state.join(format!("{part}.conf"))
    }

    /// The program of controllers that run on the host.
    pub fn controllers(&self) -> PathBuf {
        self.state.join("butler")
    }

    /// The Helm of controllers that run on the host.
    pub fn helm(&self) -> PathBuf {
        self.state.join("helm")
    }

    /// The folder that Helm works in there.
    pub fn helm_folder(&self) -> PathBuf {
        self.state.join("charts")
    }

    /// The program that the agent and machines run.
    pub fn program(&self) -> PathBuf {
        self.state.join("butleradm")
    }

    /// The folder of tenants' machines.
    pub fn workers(&self) -> PathBuf {
        self.state.join("workers")
    }

    /// The folder of the network's namespaces.
    pub fn network(&self) -> PathBuf {
        self.run.join("net")
    }

    /// The folder of a machine.
    pub fn machine(&self, id: &str) -> PathBuf {
        self.state.join("machines").join(id)
    }

    /// The log of a part.
    pub fn log(&self, part: &str) -> PathBuf {
        self.state.join("log").join(format!("{part}.log"))
    }

    /// What earlier runs wrote down.
    pub fn load(&self) -> io::Result<Option<Settings>> {
        let path = self.settings();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let settings = serde_json::from_slice(&text).map_err(|error| {
            let path = path.display();
            io::Error::other(format!(
                "{path} is damaged: {error}; `butleradm reset` starts anew"
            ))
        })?;
        Ok(Some(settings))
    }

    /// Writes the settings down.
    pub fn store(&self, settings: &Settings) -> io::Result<()> {
        write(&self.settings(), &serde_json::json!(settings).to_string())
    }
}

/// Writes a file whole or not at all, and only where it differs; missing folders are made.
pub fn write(path: &Path, content: &str) -> io::Result<()> {
    write_as(path, content, 0o644)
}

/// The same, for the owner only.
pub fn write_private(path: &Path, content: &str) -> io::Result<()> {
    write_as(path, content, 0o600)
}

fn write_as(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|held| held == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let mut options = fs::OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(mode);
    options.open(&draft)?.write_all(content.as_bytes())?;
    fs::rename(&draft, path)
}
