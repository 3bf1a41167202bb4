//! Microsoft Azure: `AzureCluster`, `AzureMachineTemplate` and the identity that makes them.

use serde_json::{Value, json};

use super::{
    Kinds, Missing, Provider, SecretName, block, credential, foreign, put, secret,
    sizes::{Family, fit},
};
use crate::{
    object::Object,
    observe::Inputs,
    spec::{Faults, Pool, Raw, TenantSpec},
};

/// Settings of Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Azure {
    secret: SecretName,
    subscription: String,
    resource_group: String,
    location: String,
    network: String,
    subnet: String,
    vm_size: Option<String>,
    image: Option<String>,
}

impl Azure {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let secret = secret(raw, faults);
        let block = block("azure", raw.provider.spec.azure.as_ref(), faults)?;
        let mut need = |name: &str, value: &Option<String>| {
            let rule = format!("the ProviderConfig has no azure.{name}, which machines need");
            faults.need("spec.providerConfigRef", value.clone(), rule)
        };
        let location = need("location", &block.location);
        let network = need("vnetName", &block.vnet_name);
        let subnet = need("subnetName", &block.subnet_name);
        Some(Self {
            secret: secret?,
            subscription: block.subscription_id.clone(),
            resource_group: block.resource_group.clone(),
            location: location?,
            network: network?,
            subnet: subnet?,
            vm_size: block.vm_size.clone(),
            image: block.image_urn.clone(),
        })
    }

    fn vm_size(&self, pool: &Pool) -> Option<String> {
        let own = self.vm_size.clone();
        own.or_else(|| fit(&FAMILIES, pool.machine.cpu, pool.machine.memory_mib()))
    }
}

/// As whom machines are made.
const IDENTITY: &str = "AzureClusterIdentity";

const STEPS: [u32; 7] = [2, 4, 8, 16, 32, 48, 64];

const FAMILIES: [Family; 3] = [
    Family {
        ratio: 2,
        name: |cpu| format!("Standard_F{cpu}s_v2"),
        steps: &STEPS,
    },
    Family {
        ratio: 4,
        name: |cpu| format!("Standard_D{cpu}s_v5"),
        steps: &STEPS,
    },
    Family {
        ratio: 8,
        name: |cpu| format!("Standard_E{cpu}s_v5"),
        steps: &STEPS,
    },
];

/// An image of the marketplace as publisher:offer:sku:version, or the id of one's own.
fn image(text: &str) -> Option<Value> {
    if text.starts_with("/subscriptions/") {
        return Some(json!({ "id": text }));
    }
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [publisher, offer, sku, version] => Some(json!({ "marketplace": {
            "publisher": publisher, "offer": offer, "sku": sku, "version": version,
        } })),
        _ => None,
    }
}

impl Provider for Azure {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1beta1",
            cluster: "AzureCluster",
            template: "AzureMachineTemplate",
            identity: Some(IDENTITY),
        }
    }

    fn cluster(&self, spec: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        let namespace = spec.identity.tenant_namespace();
        Ok(json!({
            "location": self.location,
            "resourceGroup": self.resource_group,
            "subscriptionID": self.subscription,
            "controlPlaneEnabled": false,
            "networkSpec": {
                "vnet": { "name": self.network, "resourceGroup": self.resource_group },
                "subnets": [{ "name": self.subnet, "role": "node" }],
            },
            "identityRef": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": IDENTITY,
                "name": spec.identity.cluster(),
                "namespace": namespace,
            },
        }))
    }

    fn machine(
        &self,
        spec: &TenantSpec,
        pool: &Pool,
        text: Option<&str>,
    ) -> Result<Value, Missing> {
        let image = text.and_then(image);
        let image = image.ok_or_else(|| Missing::Image(pool.name.clone()))?;
        let mut machine = json!({
            "image": image,
            "osDisk": {
                "osType": "Linux",
                "diskSizeGB": pool.machine.disk_gib(),
                "managedDisk": { "storageAccountType": "Premium_LRS" },
            },
            "networkInterfaces": [{ "subnetName": self.subnet, "privateIPConfigs": 1 }],
        });
        put(&mut machine, "vmSize", self.vm_size(pool));
        let keys = spec.nodes.ssh_keys.iter().chain(&pool.ssh_key);
        // Azure makes a key of its own where it is given none, and wants it encoded.
        let key = keys.map(|key| crate::node::encoded(key)).next();
        put(&mut machine, "sshPublicKey", Some(key.unwrap_or_default()));
        Ok(machine)
    }

    /// The identity stands beside the cluster and refers to the Secret of the provider, which is not copied.
    fn credentials(&self, spec: &TenantSpec, inputs: &Inputs) -> Result<Vec<Object>, Missing> {
        let identity = &spec.identity;
        let written = json!({
            "type": "ServicePrincipal",
            "tenantID": credential(inputs, "tenantID")?,
            "clientID": credential(inputs, "clientID")?,
            "clientSecret": { "name": self.secret.name, "namespace": self.secret.namespace },
            "allowedNamespaces": { "list": [identity.tenant_namespace()] },
        });
        let metadata = identity.metadata(identity.cluster());
        let version = self.kinds().version;
        Ok(vec![foreign(version, IDENTITY, metadata, written)])
    }

    fn keys(&self) -> &'static [&'static str] {
        &["tenantID", "clientID"]
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn check(&self, pool: &Pool, faults: &mut Faults) {
        super::sold(self.vm_size(pool).is_some(), "Azure", pool, faults);
        let text = pool.image.as_deref().or(self.image.as_deref());
        if text.is_some_and(|text| image(text).is_none()) {
            faults.add(
                format!("{}.machineTemplate.os.imageRef", pool.field()),
                "on Azure an image is publisher:offer:sku:version, or the id of one's own that starts with /subscriptions/",
            );
        }
    }
}
