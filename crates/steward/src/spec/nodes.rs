//! What nodes are told about their kubelet, and the tunnel that reaches them.

use butler_api::steward::{
    TenantControlPlane,
    tenant_control_plane::kubernetes::{AddressType, CgroupDriver},
};

use super::{
    Component, Flags, Network, SpecError, args,
    network::port,
    pods::{self, Resources},
};

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
    }))
}
