//! `KubeadmConfigTemplate`: what machines with cloud-init and kubeadm are told.

use serde::Serialize;

use super::{BOOTSTRAP, Kind, Resource};

/// What machines with cloud-init and kubeadm are told.
pub type KubeadmConfigTemplate = Resource<KubeadmTemplateSpec>;

/// The template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KubeadmTemplateSpec {
    /// The template.
    pub template: KubeadmTemplate,
}

/// The template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KubeadmTemplate {
    /// What a machine is told.
    pub spec: KubeadmSpec,
}

/// What a machine is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmSpec {
    /// How it joins.
    pub join_configuration: Join,
    /// Files that are written first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// Commands before it joins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_kubeadm_commands: Vec<String>,
    /// People who may sign in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// Where it gets the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntp: Option<Ntp>,
}

/// How a machine joins. The token and the address come from the bootstrap provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Join {
    /// How its Node is registered.
    pub node_registration: NodeRegistration,
}

/// How a Node is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRegistration {
    /// Its name; left out, the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When images are pulled.
    pub image_pull_policy: &'static str,
    /// Flags of the kubelet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kubelet_extra_args: Vec<Named>,
    /// Taints of the Node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Checks of kubeadm that may fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore_preflight_errors: Vec<&'static str>,
}

/// A flag and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The flag, without dashes.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What it does.
    pub effect: &'static str,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// Where.
    pub path: String,
    /// Who may do what with it, in octal.
    pub permissions: String,
    /// Whose it is.
    pub owner: &'static str,
    /// What is in it.
    pub content: String,
}

/// Somebody who may sign in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Name.
    pub name: &'static str,
    /// What they may do as somebody else.
    pub sudo: &'static str,
    /// Their keys.
    pub ssh_authorized_keys: Vec<String>,
}

/// Where a machine gets the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ntp {
    /// Whether it asks.
    pub enabled: bool,
    /// Whom it asks.
    pub servers: Vec<String>,
}

impl Kind for KubeadmTemplateSpec {
    const GROUP: &'static str = BOOTSTRAP;
    const KIND: &'static str = "KubeadmConfigTemplate";
    const PLURAL: &'static str = "kubeadmconfigtemplates";
}
