//! Where machines come from: one file per provider, each with its settings, what it needs, and its objects.
//!
//! The kinds are those of the provider's own project, as dynamic data: only what is written is known. The API
//! server of a tenant is hosted, so every provider is told that the control plane is none of its business, each in
//! its own way.

use butler_api::{
    butler::provider_config::HarvesterMachines, common::InfrastructureProvider, names as api,
};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    core::INFRASTRUCTURE,
    names::Identity,
    object::{Foreign, Object},
    observe::Inputs,
    spec::{Faults, Pool, Raw, TenantSpec},
};

mod aws;
mod azure;
mod gcp;
mod harvester;
mod kubevirt;
mod local;
mod nutanix;
mod proxmox;
mod sizes;
mod vsphere;

pub use aws::Aws;
pub use azure::Azure;
pub use gcp::Gcp;
pub use harvester::Harvester;
pub use kubevirt::Kubevirt;
pub use local::Local;
pub use nutanix::Nutanix;
pub use proxmox::Proxmox;
pub use vsphere::Vsphere;

/// A Secret with credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a provider still needs before its objects can be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    /// A key of the credentials.
    #[error(
        "the credentials of the provider have no key {0}: add it to the Secret that its ProviderConfig names"
    )]
    Credential(&'static str),
    /// Addresses for machines.
    #[error("no addresses were allocated for the machines yet: {0}")]
    Addresses(String),
    /// An image.
    #[error(
        "pool {0} has no image: name one in machineTemplate.os.imageRef of the pool, or in the ProviderConfig"
    )]
    Image(String),
}

/// The names of a provider's kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Version of its group.
    pub version: &'static str,
    /// What all machines share.
    pub cluster: &'static str,
    /// What machines are made from.
    pub template: &'static str,
    /// As whom machines are made, where that is an object of its own.
    pub identity: Option<&'static str>,
}

impl Kinds {
    /// All that are written, so that whoever reads or permits them forgets none.
    pub fn all(self) -> impl Iterator<Item = &'static str> {
        let Self {
            version: _,
            cluster,
            template,
            identity,
        } = self;
        [Some(cluster), Some(template), identity]
            .into_iter()
            .flatten()
    }
}

/// What a provider can do.
trait Provider {
    /// The names of its kinds.
    fn kinds(&self) -> Kinds;

    /// What all machines share.
    fn cluster(&self, spec: &TenantSpec, inputs: &Inputs) -> Result<Value, Missing>;

    /// What one machine of a pool is.
    fn machine(
        &self,
        spec: &TenantSpec,
        pool: &Pool,
        image: Option<&str>,
    ) -> Result<Value, Missing>;

    /// Credentials that have to stand beside the cluster.
    fn credentials(&self, _: &TenantSpec, _: &Inputs) -> Result<Vec<Object>, Missing> {
        Ok(Vec::new())
    }

    /// What its credentials have to hold for that.
    fn keys(&self) -> &'static [&'static str] {
        &[]
    }

    /// The image of machines that name none.
    fn image(&self) -> Option<&str> {
        None
    }

    /// Whether machines need an image of the provider.
    fn needs_image(&self) -> bool {
        true
    }

    /// What is wrong with a pool on this provider.
    fn check(&self, _: &Pool, _: &mut Faults) {}
}

/// A provider and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Infrastructure {
    /// This machine.
    Local(Local),
    /// Harvester, by its own Cluster API provider.
    Harvester(Harvester),
    /// Harvester, by the Cluster API provider of `KubeVirt`.
    Kubevirt(Kubevirt),
    /// Nutanix AHV.
    Nutanix(Nutanix),
    /// Proxmox VE.
    Proxmox(Proxmox),
    /// `VMware` vSphere.
    Vsphere(Vsphere),
    /// Amazon Web Services.
    Aws(Aws),
    /// Microsoft Azure.
    Azure(Azure),
    /// Google Cloud.
    Gcp(Gcp),
}

impl Infrastructure {
    /// The settings of the provider that the cluster uses, with what the cluster wants differently.
    pub(crate) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let provider = &raw.provider.spec;
        check_override(raw, faults);
        match provider.provider {
            InfrastructureProvider::Local => Some(Self::Local(Local::resolve(raw))),
            InfrastructureProvider::Harvester => {
                let block = provider.harvester.as_ref();
                let machines = block.map(|block| block.cluster_api_provider);
                match machines.unwrap_or_default() {
                    HarvesterMachines::Harvester => {
                        Harvester::resolve(raw, faults).map(Self::Harvester)
                    }
                    HarvesterMachines::Kubevirt => {
                        Kubevirt::resolve(raw, faults).map(Self::Kubevirt)
                    }
                }
            }
            InfrastructureProvider::Nutanix => Nutanix::resolve(raw, faults).map(Self::Nutanix),
            InfrastructureProvider::Proxmox => Proxmox::resolve(raw, faults).map(Self::Proxmox),
            InfrastructureProvider::Vsphere => Vsphere::resolve(raw, faults).map(Self::Vsphere),
            InfrastructureProvider::Aws => Aws::resolve(raw, faults).map(Self::Aws),
            InfrastructureProvider::Azure => Azure::resolve(raw, faults).map(Self::Azure),
            InfrastructureProvider::Gcp => Gcp::resolve(raw, faults).map(Self::Gcp),
        }
    }

    fn provider(&self) -> &dyn Provider {
        match self {
            Self::Local(provider) => provider,
            Self::Harvester(provider) => provider,
            Self::Kubevirt(provider) => provider,
            Self::Nutanix(provider) => provider,
            Self::Proxmox(provider) => provider,
            Self::Vsphere(provider) => provider,
            Self::Aws(provider) => provider,
            Self::Azure(provider) => provider,
            Self::Gcp(provider) => provider,
        }
    }

    /// The names of its kinds.
    pub fn kinds(&self) -> Kinds {
        self.provider().kinds()
    }

    /// What all machines of a cluster share.
    pub(crate) fn cluster(&self, spec: &TenantSpec, inputs: &Inputs) -> Result<Object, Missing> {
        let kinds = self.kinds();
        let identity = &spec.identity;
        Ok(foreign(
            kinds.version,
            kinds.cluster,
            identity.metadata(identity.cluster()),
            self.provider().cluster(spec, inputs)?,
        ))
    }

    /// What machines of a pool are made from. New content is a new name.
    pub(crate) fn template(&self, spec: &TenantSpec, pool: &Pool) -> Result<Object, Missing> {
        let kinds = self.kinds();
        let image = pool.image.as_deref();
        let image = image.or_else(|| self.provider().image());
        if image.is_none() && self.provider().needs_image() {
            return Err(Missing::Image(pool.name.clone()));
        }
        let machine = self.provider().machine(spec, pool, image)?;
        let content = json!({ "template": { "spec": machine } });
        let name = spec
            .identity
            .content(&pool.name, &json!([kinds.template, content]));
        let metadata = spec.identity.pool_metadata(&name, &pool.name);
        Ok(foreign(kinds.version, kinds.template, metadata, content))
    }

    /// Credentials that have to stand beside the cluster.
    pub(crate) fn credentials(
        &self,
        spec: &TenantSpec,
        inputs: &Inputs,
    ) -> Result<Vec<Object>, Missing> {
        self.provider().credentials(spec, inputs)
    }

    /// What the credentials of the provider have to hold.
    pub fn keys(&self) -> &'static [&'static str] {
        self.provider().keys()
    }

    /// What is wrong with a pool on this provider.
    pub(crate) fn check(&self, pool: &Pool, faults: &mut Faults) {
        let provider = self.provider();
        let has_image = pool.image.is_some() || provider.image().is_some();
        if provider.needs_image() && !has_image {
            let rule = if pool.schematic.is_some() {
                "the ProviderConfig names no image for machines, and none is built from a schematicID: get the image from the image factory, bring it to the provider, and name it here or there"
            } else {
                "the ProviderConfig names no image for machines: name one here or there"
            };
            faults.add(
                format!("{}.machineTemplate.os.imageRef", pool.field()),
                rule,
            );
        }
        provider.check(pool, faults);
    }

    /// Whether machines come with everything they need to join, the ids of their Nodes included.
    pub(crate) const fn is_prepared(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Checks of kubeadm that machines may fail: those of the local platform have the cgroups of their host, which
    /// may be of a version that kubeadm would not choose.
    pub(crate) fn tolerated_checks(&self) -> Vec<&'static str> {
        match self {
            Self::Local(_) => vec!["SystemVerification"],
            _ => Vec::new(),
        }
    }

    /// Whether there is a cloud controller manager for the provider, which nodes can wait for. None is installed by
    /// Butler, and a node that waits keeps a taint that nothing tolerates: so only those wait whose user says so.
    pub(crate) const fn has_cloud_controller(&self) -> bool {
        matches!(
            self,
            Self::Vsphere(_) | Self::Aws(_) | Self::Azure(_) | Self::Gcp(_)
        )
    }

    /// The id a kubelet gives its Node, from what cloud-init knows, where nothing else does. Only what the bootstrap
    /// provider writes is a template that cloud-init fills in; other Nodes get their id by [`crate::nodes`].
    pub(crate) const fn provider_id(&self) -> Option<&'static str> {
        match self {
            Self::Proxmox(_) => Some("proxmox://{{ ds.meta_data.instance_id }}"),
            _ => None,
        }
    }

    /// The name of a Node where its host name is not the machine's, filled in by cloud-init like the id. Other operating
    /// systems take the host name that the provider's metadata gives them, and have no other to choose from.
    pub(crate) const fn node_name(&self) -> Option<&'static str> {
        match self {
            Self::Vsphere(_) | Self::Nutanix(_) => Some("{{ ds.meta_data.hostname }}"),
            Self::Aws(_) | Self::Gcp(_) => Some("{{ ds.meta_data.local_hostname }}"),
            _ => None,
        }
    }

    /// The zone of a pool's machines.
    pub(crate) fn zone(&self, pool: &Pool) -> Option<String> {
        let default = match self {
            Self::Gcp(provider) => provider.zone.clone(),
            _ => None,
        };
        pool.zone.clone().or(default)
    }

    /// The first disk of a machine.
    pub(crate) const fn first_disk(&self) -> &'static str {
        match self {
            Self::Harvester(_) | Self::Kubevirt(_) => "/dev/vda",
            Self::Aws(_) => "/dev/nvme0n1",
            _ => "/dev/sda",
        }
    }

    /// Whether the management cluster runs what the API server needs to reach nodes without a tunnel, and kube-proxy
    /// is not replaced by the network addon.
    pub(crate) const fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

fn foreign(
    version: &str,
    kind: &str,
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: Value,
) -> Object {
    Object::Infrastructure(Box::new(Foreign {
        api_version: format!("{INFRASTRUCTURE}/{version}"),
        kind: kind.to_owned(),
        metadata,
        spec,
    }))
}

/// An override of another provider is a mistake, not something to ignore.
fn check_override(raw: &Raw<'_>, faults: &mut Faults) {
    let Some(given) = &raw.cluster.spec.infrastructure_override else {
        return;
    };
    let used = raw.provider.spec.provider;
    let blocks = [
        (
            "harvester",
            given.harvester.is_some(),
            InfrastructureProvider::Harvester,
        ),
        (
            "nutanix",
            given.nutanix.is_some(),
            InfrastructureProvider::Nutanix,
        ),
        (
            "proxmox",
            given.proxmox.is_some(),
            InfrastructureProvider::Proxmox,
        ),
        ("gcp", given.gcp.is_some(), InfrastructureProvider::Gcp),
    ];
    for (block, is_given, provider) in blocks {
        if is_given && provider != used {
            faults.add(
                format!("spec.infrastructureOverride.{block}"),
                format!("the cluster's provider is another one: remove the {block} block"),
            );
        }
    }
}

/// The block of a provider's settings.
fn block<'a, T>(name: &str, block: Option<&'a T>, faults: &mut Faults) -> Option<&'a T> {
    let rule = format!("the ProviderConfig has no {name} block with its settings");
    faults.need("spec.providerConfigRef", block, rule)
}

/// The Secret with the provider's credentials.
fn secret(raw: &Raw<'_>, faults: &mut Faults) -> Option<SecretName> {
    let reference = raw.provider.spec.credentials_ref.as_ref();
    let rule = "the ProviderConfig has no credentialsRef";
    let reference = faults.need("spec.providerConfigRef", reference, rule)?;
    let own = raw.provider.metadata.namespace.clone();
    let namespace = reference.namespace.clone().or(own);
    Some(SecretName {
        namespace: namespace.unwrap_or_else(|| api::SYSTEM_NAMESPACE.to_owned()),
        name: reference.name.clone(),
    })
}

/// One value of the credentials.
fn credential<'a>(inputs: &'a Inputs, key: &'static str) -> Result<&'a str, Missing> {
    let value = inputs.credentials.get(key);
    value
        .map(crate::secret::Hidden::reveal)
        .ok_or(Missing::Credential(key))
}

/// A Secret beside the cluster.
fn beside(identity: &Identity, name: &str, data: &[(&str, String)]) -> Object {
    use k8s_openapi::{ByteString, api::core::v1::Secret};
    let data = data.iter().map(|(key, value)| {
        let value = ByteString(value.as_bytes().to_vec());
        ((*key).to_owned(), value)
    });
    Object::Secret(Box::new(Secret {
        metadata: identity.metadata(name),
        type_: Some("Opaque".to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    }))
}

/// A field that is only written when there is something to write.
fn put(fields: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let (Some(value), Some(fields)) = (value, fields.as_object_mut()) {
        fields.insert(key.to_owned(), value.into());
    }
}

/// Machines that a cloud does not sell.
fn sold(is_sold: bool, cloud: &str, pool: &Pool, faults: &mut Faults) {
    if !is_sold {
        faults.add(
            format!("{}.machineTemplate.cpu", pool.field()),
            format!(
                "{cloud} has no machine with {} CPUs and {} of memory among those Butler chooses from: ask for less, or name a type in the ProviderConfig",
                pool.machine.cpu, pool.machine.memory
            ),
        );
    }
}
