//! `ControlPlane`: a `TenantControlPlane` that was found to be right, as plain data.
//!
//! The schema refuses most mistakes at the API server already, but an object may be older than its schema,
//! and some rules need more than a schema can say. Below [`validate`] nothing checks again. Pure: it knows
//! no client, no clock, and nothing of what exists.

use std::{fmt, str::FromStr};

use butler_api::{
    steward::{
        TenantControlPlane,
        tenant_control_plane::{Addons, WritePermissions, security},
    },
    types::KubeVersion,
};
use thiserror::Error;

pub mod args;
pub mod audit_policy;
pub mod network;
pub mod nodes;
pub mod pods;
pub mod security_settings;

pub use args::{Component, Flag, Flags};
pub use network::{Exposure, Network, San, ServiceSettings};
pub use nodes::{Konnectivity, Kubelet};
pub use pods::{Metadata, Pods, Strategy};
pub use security_settings::{Audit, AuditPolicy, Encryption, EncryptionProvider};

/// The oldest minor release whose flags and files are known here: structured authentication is beta from
/// it on.
pub const OLDEST_MINOR: u16 = 30;
/// The newest minor release that was tried.
pub const NEWEST_MINOR: u16 = 35;

/// What is wrong with a control plane's spec. Waiting does not help; a change of the spec does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// A value that cannot be used.
    #[error("{field} cannot be used: {problem}")]
    Invalid {
        /// Path of the field, from the root of the object.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Something that this release does not do.
    #[error("{field} is not supported by this release: {problem}")]
    NotSupported {
        /// Path of the field, from the root of the object.
        field: String,
        /// What to do instead.
        problem: String,
    },
}

impl SpecError {
    pub(crate) fn invalid(field: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.to_string(),
        }
    }

    /// One word for a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "InvalidSpec",
            Self::NotSupported { .. } => "NotSupported",
        }
    }
}

/// Which object a control plane is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: names can be reused, UIDs cannot.
    pub uid: String,
    /// Generation of the spec.
    pub generation: Option<i64>,
}

/// Where the state is to be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataStoreChoice {
    /// Name of the `DataStore`; none means the platform's default.
    pub name: Option<String>,
    /// The tenant's part of it, where one was chosen.
    pub schema: Option<String>,
    /// The tenant's user, where one was chosen.
    pub username: Option<String>,
    /// Resources and the `DataStore` that they go to instead.
    pub overrides: Vec<(String, String)>,
}

/// Where the images come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Registry and path.
    pub registry: String,
    /// Text after the version in every tag.
    pub tag_suffix: String,
    /// Image of the API server.
    pub api_server: String,
    /// Image of the controller manager.
    pub controller_manager: String,
    /// Image of the scheduler.
    pub scheduler: String,
}

impl Images {
    /// The image of a component at a version.
    pub fn image(&self, name: &str, version: KubeVersion) -> String {
        format!("{}/{name}:{version}{}", self.registry, self.tag_suffix)
    }
}

/// A control plane whose spec was found to be right.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlane {
    /// Which object it is.
    pub identity: Identity,
    /// The release that is wanted; which one runs is decided in [`crate::workload::upgrade`].
    pub version: KubeVersion,
    /// How many pods; 0 is asleep.
    pub replicas: u16,
    /// Kinds of writes that are refused.
    pub write_permissions: WritePermissions,
    /// Where the state is to be kept.
    pub data_store: DataStoreChoice,
    /// Addresses, ports, ranges.
    pub network: Network,
    /// The Service.
    pub service: ServiceSettings,
    /// Where the images come from.
    pub images: Images,
    /// How the pods are run.
    pub pods: Pods,
    /// More flags of the API server.
    pub api_server_flags: Flags,
    /// More flags of the controller manager.
    pub controller_manager_flags: Flags,
    /// More flags of the scheduler.
    pub scheduler_flags: Flags,
    /// What nodes are told about their kubelet.
    pub kubelet: Kubelet,
    /// Admission plugins to turn on, as they were written; see [`crate::workload::admission`].
    pub admission: Vec<String>,
    /// What is recorded.
    pub audit: Option<Audit>,
    /// Who may sign in with tokens.
    pub authentication: Option<security::Authentication>,
    /// How keys and certificates are made.
    pub certificates: security::Certificates,
    /// What is encrypted in the store.
    pub encryption: Option<Encryption>,
    /// The tunnel to nodes.
    pub konnectivity: Option<Konnectivity>,
    /// What is installed in the tenant cluster.
    pub addons: Addons,
}

impl ControlPlane {
    /// Whether some writes are refused.
    pub fn is_write_limited(&self) -> bool {
        let WritePermissions {
            block_creation,
            block_update,
            block_deletion,
        } = self.write_permissions;
        block_creation || block_update || block_deletion
    }

    /// Whether it is asleep.
    pub fn is_asleep(&self) -> bool {
        self.replicas == 0
    }
}

/// Reads a `TenantControlPlane`.
pub fn validate(raw: &TenantControlPlane) -> Result<ControlPlane, SpecError> {
    let spec = &raw.spec;
    let plane = &spec.control_plane;
    refuse_what_is_not_built(raw)?;
    let version = version(&spec.kubernetes.version)?;
    let network = network::network(&spec.network_profile)?;
    let konnectivity = nodes::konnectivity(raw, &network)?;
    let audit = security_settings::audit(spec.kubernetes.audit.as_ref())?;
    let encryption = security_settings::encryption(spec.kubernetes.encryption.as_ref())?;
    security_settings::check_authentication(spec.kubernetes.authentication.as_ref())?;
    let context = args::Context {
        audit: audit.is_some(),
        authentication: spec.kubernetes.authentication.is_some(),
        encryption: encryption.is_some(),
        konnectivity: konnectivity.is_some(),
    };
    let extra = plane.deployment.extra_args.clone().unwrap_or_default();
    let controller_manager_flags = args::flags(
        Component::ControllerManager,
        &extra.controller_manager,
        context,
    )?;
    network::check_node_ranges(&network, &controller_manager_flags)?;
    Ok(ControlPlane {
        identity: identity(raw)?,
        version,
        replicas: u16::try_from(plane.deployment.replicas).map_err(|_| {
            let problem = "use 0 for asleep, or a number of pods";
            SpecError::invalid("spec.controlPlane.deployment.replicas", problem)
        })?,
        write_permissions: spec.write_permissions.clone().unwrap_or_default(),
        data_store: data_store(raw),
        service: network::service(spec, &network, konnectivity.as_ref())?,
        network,
        images: images(raw),
        pods: pods::pods(&plane.deployment)?,
        api_server_flags: args::flags(Component::ApiServer, &extra.api_server, context)?,
        controller_manager_flags,
        scheduler_flags: args::flags(Component::Scheduler, &extra.scheduler, context)?,
        kubelet: nodes::kubelet(raw)?,
        admission: spec.kubernetes.admission_controllers.clone(),
        audit,
        authentication: spec.kubernetes.authentication.clone(),
        certificates: spec.kubernetes.certificates.clone().unwrap_or_default(),
        encryption,
        konnectivity,
        addons: spec.addons.clone().unwrap_or_default(),
    })
}

/// Half a feature would be worse than none: an endpoint that nothing serves.
fn refuse_what_is_not_built(raw: &TenantControlPlane) -> Result<(), SpecError> {
    let plane = &raw.spec.control_plane;
    let refuse = |field: &str, problem: &str| {
        Err(SpecError::NotSupported {
            field: field.to_owned(),
            problem: problem.to_owned(),
        })
    };
    let service = "expose the control plane by its Service, and leave this out";
    if plane.ingress.is_some() {
        return refuse("spec.controlPlane.ingress", service);
    }
    if plane.gateway.is_some() {
        return refuse("spec.controlPlane.gateway", service);
    }
    let addons = raw.spec.addons.as_ref();
    if addons.is_some_and(|addons| addons.tcp_proxy.is_some()) {
        let proxy = "nodes reach the control plane by its Service; leave this out";
        return refuse("spec.addons.tcpProxy", proxy);
    }
    Ok(())
}

/// Which object it is; this needs nothing of the spec.
pub(crate) fn identity(raw: &TenantControlPlane) -> Result<Identity, SpecError> {
    let part = |field: &str, value: &Option<String>| {
        let missing = || SpecError::invalid(field, "the object was not read from an API server");
        value.clone().ok_or_else(missing)
    };
    Ok(Identity {
        namespace: part("metadata.namespace", &raw.metadata.namespace)?,
        name: part("metadata.name", &raw.metadata.name)?,
        uid: part("metadata.uid", &raw.metadata.uid)?,
        generation: raw.metadata.generation,
    })
}

/// The reference accepts versions without their `v`.
fn version(text: &str) -> Result<KubeVersion, SpecError> {
    let field = "spec.kubernetes.version";
    let full = if text.starts_with('v') {
        text.to_owned()
    } else {
        format!("v{text}")
    };
    let version = KubeVersion::from_str(&full).map_err(|error| SpecError::invalid(field, error))?;
    if version.major() == 1 && (OLDEST_MINOR..=NEWEST_MINOR).contains(&version.minor()) {
        return Ok(version);
    }
    Err(SpecError::NotSupported {
        field: field.to_owned(),
        problem: format!(
            "{version} is not between v1.{OLDEST_MINOR} and v1.{NEWEST_MINOR}; use a release of these"
        ),
    })
}

/// Where the state is to be kept, also where the rest of the spec cannot be carried out.
pub(crate) fn data_store(raw: &TenantControlPlane) -> DataStoreChoice {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let spec = &raw.spec;
    let overrides = spec.data_store_overrides.iter();
    DataStoreChoice {
        name: given(&spec.data_store),
        schema: given(&spec.data_store_schema),
        username: given(&spec.data_store_username),
        overrides: overrides
            .map(|item| (item.resource.clone(), item.data_store.clone()))
            .collect(),
    }
}

fn images(raw: &TenantControlPlane) -> Images {
    let settings = &raw.spec.control_plane.deployment.registry_settings;
    Images {
        registry: settings.registry.trim_end_matches('/').to_owned(),
        tag_suffix: settings.tag_suffix.clone().unwrap_or_default(),
        api_server: settings.api_server_image.clone(),
        controller_manager: settings.controller_manager_image.clone(),
        scheduler: settings.scheduler_image.clone(),
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
