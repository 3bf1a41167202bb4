//! What nodes are told about their kubelet, and the tunnel that reaches them.

use butler_api::{
    steward::{
        TenantControlPlane,
        tenant_control_plane::{
            addons,
            kubernetes::{AddressType, CgroupDriver},
        },
    },
    types::KubeVersion,
};
use serde_json::Value;

use super::{
    Component, Flags, Network, SpecError, args,
    network::port,
    pods::{self, Resources},
};

/// Agents of a Deployment that says no number: one may go while the other works.
const DEFAULT_AGENTS: i32 = 2;

/// What nodes are told about their kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct Kubelet {
    /// Changes to the configuration of kubelets.
    pub patches: json_patch::Patch,
    /// Which address of a node the API server dials, best first.
    pub address_types: Vec<AddressType>,
    /// Cgroup driver.
    pub cgroup_driver: Option<CgroupDriver>,
    /// Whether the patches tell kubelets to have their serving certificates signed by the cluster.
    pub signed_serving: bool,
}

/// The tunnel's end beside the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Konnectivity {
    /// Port that agents dial.
    pub port: u16,
    /// Image without its tag.
    pub image: String,
    /// Tag, where one was chosen.
    pub version: Option<String>,
    /// CPU and memory.
    pub resources: Option<Resources>,
    /// More flags.
    pub flags: Flags,
    /// The other end, in the tenant cluster.
    pub agent: KonnectivityAgent,
}

impl Konnectivity {
    /// Image of the server with its tag.
    pub fn server_image(&self, kubernetes: KubeVersion) -> String {
        tunnel_image(&self.image, self.version.as_deref(), kubernetes)
    }
}

/// The tunnel's end in the tenant cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct KonnectivityAgent {
    /// Image without its tag.
    pub image: String,
    /// Tag, where one was chosen.
    pub version: Option<String>,
    /// Taints they tolerate.
    pub tolerations: Vec<Value>,
    /// More flags, as they were written.
    pub flags: Vec<String>,
    /// Whether they run in their node's network.
    pub host_network: bool,
    /// How many; none means one on each node.
    pub replicas: Option<u16>,
}

impl KonnectivityAgent {
    /// Image with its tag.
    pub fn image(&self, kubernetes: KubeVersion) -> String {
        tunnel_image(&self.image, self.version.as_deref(), kubernetes)
    }
}

/// The newest release of the tunnel that is known to be published; the protocol is older than any of them.
const NEWEST_TUNNEL: u16 = 34;

/// Releases of the tunnel are named after those of Kubernetes.
fn tunnel_image(image: &str, version: Option<&str>, kubernetes: KubeVersion) -> String {
    match version {
        Some(version) => format!("{image}:{version}"),
        None => format!("{image}:v0.{}.0", kubernetes.minor().min(NEWEST_TUNNEL)),
    }
}

/// Reads what kubelets are told.
pub(super) fn kubelet(raw: &TenantControlPlane) -> Result<Kubelet, SpecError> {
    let kubelet = &raw.spec.kubernetes.kubelet;
    let field = "spec.kubernetes.kubelet.configurationJSONPatches";
    let read = |(index, patch)| {
        serde_json::to_value(patch)
            .and_then(serde_json::from_value::<json_patch::PatchOperation>)
            .map_err(|error| SpecError::invalid(format!("{field}[{index}]"), error))
    };
    let patches = kubelet.configuration_json_patches.iter().enumerate();
    let patches = patches.map(read).collect::<Result<Vec<_>, _>>()?;
    let signed = kubelet.configuration_json_patches.iter().rev();
    let mut signed = signed.filter(|patch| patch.path == "/serverTLSBootstrap");
    Ok(Kubelet {
        patches: json_patch::Patch(patches),
        address_types: kubelet.preferred_address_types.clone(),
        cgroup_driver: kubelet.cgroupfs,
        signed_serving: signed
            .next()
            .is_some_and(|patch| patch.value == Some(true.into())),
    })
}

/// Reads the tunnel.
pub(super) fn konnectivity(
    raw: &TenantControlPlane,
    network: &Network,
) -> Result<Option<Konnectivity>, SpecError> {
    let Some(addon) = raw
        .spec
        .addons
        .as_ref()
        .and_then(|addons| addons.konnectivity.as_ref())
    else {
        return Ok(None);
    };
    let server = &addon.server;
    let field = "spec.addons.konnectivity.server";
    let number = port(&format!("{field}.port"), server.port)?;
    if number == network.port {
        let problem = format!("{number} is the port of the API server");
        return Err(SpecError::invalid(format!("{field}.port"), problem));
    }
    let resources = server.resources.as_ref();
    Ok(Some(Konnectivity {
        port: number,
        image: server.image.clone(),
        version: server.version.clone().filter(|version| !version.is_empty()),
        resources: resources
            .map(|resources| pods::resources(&format!("{field}.resources"), resources))
            .transpose()?,
        flags: args::flags(
            Component::Konnectivity,
            &server.extra_args,
            args::Context::default(),
        )?,
        agent: konnectivity_agent(&addon.agent)?,
    }))
}

fn konnectivity_agent(raw: &addons::KonnectivityAgent) -> Result<KonnectivityAgent, SpecError> {
    let field = "spec.addons.konnectivity.agent";
    let number = || {
        u16::try_from(raw.replicas.unwrap_or(DEFAULT_AGENTS))
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| SpecError::invalid(format!("{field}.replicas"), "use 1 or more"))
    };
    Ok(KonnectivityAgent {
        image: raw.image.clone(),
        version: raw.version.clone().filter(|version| !version.is_empty()),
        tolerations: raw.tolerations.clone(),
        flags: raw.extra_args.clone(),
        host_network: raw.host_network,
        replicas: match raw.mode {
            addons::AgentMode::DaemonSet => None,
            addons::AgentMode::Deployment => Some(number()?),
        },
    })
}
