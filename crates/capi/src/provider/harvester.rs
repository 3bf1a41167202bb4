//! Harvester, by its own Cluster API provider: `HarvesterCluster` and `HarvesterMachineTemplate`.

use serde_json::{Value, json};

use super::{Kinds, Missing, Provider, SecretName, block, put, secret};
use crate::{
    observe::Inputs,
    spec::{Faults, Os, Pool, Raw, TenantSpec},
};

/// Settings of Harvester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harvester {
    pub(super) secret: SecretName,
    pub(super) server: Option<String>,
    pub(super) namespace: String,
    pub(super) network: String,
    pub(super) image: Option<String>,
    pub(super) storage_class: Option<String>,
    key_pair: String,
}

impl Harvester {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let mut settings = Self::shared(raw, faults)?;
        let block = raw.provider.spec.harvester.as_ref();
        let key_pair = block.and_then(|block| block.ssh_key_pair.clone());
        settings.key_pair = faults.need(
            "spec.providerConfigRef",
            key_pair,
            "the ProviderConfig names no harvester.sshKeyPair, which the Cluster API provider of Harvester needs: name one, or set harvester.clusterAPIProvider to kubevirt",
        )?;
        Some(settings)
    }

    /// What both ways to make machines on Harvester need.
    pub(super) fn shared(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let secret = secret(raw, faults);
        let block = block("harvester", raw.provider.spec.harvester.as_ref(), faults)?;
        let own = raw.cluster.spec.infrastructure_override.as_ref();
        let own = own
            .and_then(|own| own.harvester.clone())
            .unwrap_or_default();
        Some(Self {
            secret: secret?,
            server: block.endpoint.clone(),
            namespace: own.namespace.unwrap_or_else(|| block.namespace.clone()),
            network: own
                .network_name
                .unwrap_or_else(|| block.network_name.clone()),
            image: own.image_name.or_else(|| block.image_name.clone()),
            storage_class: block.storage_class_name.clone(),
            key_pair: String::new(),
        })
    }
}

/// The user that an image of an operating system lets in.
fn user(os: &Os) -> &'static str {
    match os {
        Os::Rocky => "rocky",
        Os::Flatcar => "core",
        Os::Kairos => "kairos",
        Os::Bottlerocket => "ec2-user",
        Os::Talos(_) => "talos",
    }
}

impl Provider for Harvester {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1alpha1",
            cluster: "HarvesterCluster",
            template: "HarvesterMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, _: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        let mut spec = json!({
            "targetNamespace": self.namespace,
            "identitySecret": { "namespace": self.secret.namespace, "name": self.secret.name },
            // It wants to be told where a load balancer for the API server would get its address.
            "loadBalancerConfig": { "ipamType": "dhcp" },
        });
        put(&mut spec, "server", self.server.clone());
        Ok(spec)
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let mut volume = json!({
            "volumeType": "image",
            "volumeSize": pool.machine.disk.to_string(),
            "bootOrder": 1,
        });
        put(&mut volume, "imageName", image);
        put(&mut volume, "storageClass", self.storage_class.clone());
        let mut spec = json!({
            "cpu": pool.machine.cpu,
            "memory": pool.machine.memory.to_string(),
            "sshUser": user(&pool.os),
            "sshKeyPair": self.key_pair,
            "volumes": [volume],
            "networks": [self.network],
        });
        put(&mut spec, "failureDomain", pool.zone.clone());
        Ok(spec)
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }
}
