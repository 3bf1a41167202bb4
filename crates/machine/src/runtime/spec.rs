//! What a machine is made from. Pure.

use std::{fmt, net::IpAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

/// Names a machine on its host: small letters, digits and dashes, because folders and cgroups are called so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachineId(String);

/// Why a text cannot name a machine.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} cannot name a machine: use 1 to 63 small letters, digits and dashes")]
pub struct InvalidId(String);

impl FromStr for MachineId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let sane = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=63).contains(&text.len()) && text.bytes().all(sane) && !text.starts_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId(text.to_owned()))
        }
    }
}

impl TryFrom<String> for MachineId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<MachineId> for String {
    fn from(id: MachineId) -> Self {
        id.0
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl MachineId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Everything a machine is made from. It is stored with the machine, so that it can be started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Names the machine on its host.
    pub id: MachineId,
    /// The name it gives itself.
    pub hostname: String,
    /// What its Node carries, such as `local://team/demo-x7k2p`.
    pub provider_id: String,
    /// An existing network namespace, such as `/run/netns/x` or `/proc/7/ns/net`.
    pub network_namespace: PathBuf,
    /// The address it has there.
    pub address: IpAddr,
    /// Who answers questions about names.
    pub nameservers: Vec<IpAddr>,
    /// Thousandths of a core it may use.
    pub cpu_milli: Option<u64>,
    /// Bytes of memory it may use.
    pub memory_bytes: Option<u64>,
    /// Where its programs come from.
    pub programs: Programs,
    /// The image that holds a pod's namespaces.
    pub sandbox_image: String,
    /// Where images are pulled from instead.
    pub mirrors: Vec<Mirror>,
    /// A container store to start from, such as one that already holds every image.
    pub image_store: Option<PathBuf>,
}

/// Folders of the host with the programs of a machine; everything else is the host's own `/usr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Programs {
    /// kubelet, kubeadm and kubectl of one version.
    pub kubernetes: PathBuf,
    /// containerd and its shim.
    pub containerd: PathBuf,
    /// The CNI plugins bridge, host-local, loopback and portmap.
    pub cni: PathBuf,
    /// runc, and whatever else is needed and not in the host's `/usr`.
    pub extra: Vec<PathBuf>,
}

/// Where the images of a registry are pulled from instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirror {
    /// Host of the registry, or `_default` for all.
    pub registry: String,
    /// Address of the mirror.
    pub url: String,
    /// Certificate authority of the mirror, as PEM; none for plain HTTP or a public one.
    pub authority: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_safe_as_the_name_of_a_folder() {
        for text in ["a", "demo-x7k2p", "7c0b7a2e-2c31-4f9c-8b0e-111111111111"] {
            assert_eq!(text.parse::<MachineId>().unwrap().as_str(), text);
        }
        for text in ["", "-a", "a/b", "..", "A", "a_b", &"a".repeat(64)] {
            assert!(text.parse::<MachineId>().is_err(), "{text:?}");
        }
    }
}
