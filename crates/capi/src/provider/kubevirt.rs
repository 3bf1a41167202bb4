//! Harvester, by the Cluster API provider of `KubeVirt`: `KubevirtCluster` and `KubevirtMachineTemplate`.

use butler_api::names;
use serde_json::{Value, json};

use super::{Kinds, Missing, Provider, harvester::Harvester};
use crate::{
    observe::Inputs,
    spec::{Faults, Pool, Raw, TenantSpec},
};

/// Settings of Harvester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubevirt(Harvester);

impl Kubevirt {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        Harvester::shared(raw, faults).map(Self)
    }

    fn secret(&self) -> Value {
        let secret = &self.0.secret;
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "name": secret.name,
            "namespace": secret.namespace,
        })
    }

    /// Harvester makes a class for every image, named after it.
    fn storage_class(&self, image: &str) -> String {
        let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
        let own = self.0.storage_class.clone();
        own.unwrap_or_else(|| format!("longhorn-{name}"))
    }
}

impl Provider for Kubevirt {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1alpha1",
            cluster: "KubevirtCluster",
            template: "KubevirtMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, _: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        Ok(json!({
            "infraClusterSecretRef": self.secret(),
            "controlPlaneServiceTemplate": { "spec": { "type": "ClusterIP" } },
        }))
    }

    fn machine(
        &self,
        spec: &TenantSpec,
        pool: &Pool,
        image: Option<&str>,
    ) -> Result<Value, Missing> {
        let image = image.ok_or_else(|| Missing::Image(pool.name.clone()))?;
        let memory = pool.machine.memory.to_string();
        let cpu = pool.machine.cpu;
        let labels = json!({
            "harvesterhci.io/creator": "harvester",
            names::MANAGED_BY: names::BUTLER,
            names::TENANT: spec.identity.cluster(),
            names::POOL: pool.name,
        });
        let disk = format!("{}-disk", spec.identity.pool(&pool.name));
        let vm = json!({
            "runStrategy": "Always",
            "dataVolumeTemplates": [{
                "metadata": {
                    "name": disk,
                    "annotations": { "harvesterhci.io/imageId": image },
                },
                "spec": {
                    "source": { "blank": {} },
                    "storage": {
                        "storageClassName": self.storage_class(image),
                        "accessModes": ["ReadWriteMany"],
                        "volumeMode": "Block",
                        "resources": { "requests": { "storage": pool.machine.disk.to_string() } },
                    },
                },
            }],
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "domain": {
                        "machine": { "type": "q35" },
                        "cpu": { "cores": cpu, "sockets": 1, "threads": 1 },
                        "resources": {
                            "requests": { "memory": memory },
                            "limits": { "memory": memory, "cpu": cpu.to_string() },
                        },
                        "devices": {
                            "disks": [{ "name": "rootdisk", "disk": { "bus": "virtio" } }],
                            "interfaces": [{ "name": "default", "bridge": {} }],
                        },
                    },
                    "networks": [{ "name": "default", "multus": { "networkName": self.0.network } }],
                    "volumes": [{ "name": "rootdisk", "dataVolume": { "name": disk } }],
                },
            },
        });
        Ok(json!({
            "infraClusterSecretRef": self.secret(),
            "virtualMachineTemplate": {
                "metadata": { "namespace": self.0.namespace, "labels": labels },
                "spec": vm,
            },
        }))
    }

    fn image(&self) -> Option<&str> {
        self.0.image.as_deref()
    }
}
