//! `VMware` vSphere: `VSphereCluster` and `VSphereMachineTemplate`.

use serde_json::{Value, json};

use super::{Kinds, Missing, Provider, beside, block, credential, put};
use crate::{
    object::Object,
    observe::Inputs,
    spec::{Faults, Pool, Raw, TenantSpec},
};

/// Settings of vSphere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vsphere {
    server: String,
    datacenter: String,
    datastore: String,
    network: String,
    resource_pool: Option<String>,
    folder: Option<String>,
    template: Option<String>,
    thumbprint: Option<String>,
}

impl Vsphere {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let block = block("vsphere", raw.provider.spec.vsphere.as_ref(), faults)?;
        Some(Self {
            server: block.server.clone(),
            datacenter: block.datacenter.clone(),
            datastore: block.datastore.clone(),
            network: block.network.clone(),
            resource_pool: block.resource_pool.clone(),
            folder: block.folder.clone(),
            template: block.template.clone(),
            thumbprint: block.thumbprint.clone(),
        })
    }
}

fn secret_name(spec: &TenantSpec) -> String {
    format!("{}-vsphere-creds", spec.identity.cluster())
}

impl Provider for Vsphere {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1beta1",
            cluster: "VSphereCluster",
            template: "VSphereMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, spec: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        let mut cluster = json!({
            "server": self.server,
            "identityRef": { "kind": "Secret", "name": secret_name(spec) },
        });
        put(&mut cluster, "thumbprint", self.thumbprint.clone());
        Ok(cluster)
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let mut spec = json!({
            // A linked clone would ignore the size of the disk.
            "cloneMode": "fullClone",
            "server": self.server,
            "datacenter": self.datacenter,
            "datastore": self.datastore,
            "network": { "devices": [{ "networkName": self.network, "dhcp4": true }] },
            "numCPUs": pool.machine.cpu,
            "memoryMiB": pool.machine.memory_mib(),
            "diskGiB": pool.machine.disk_gib(),
            "os": "Linux",
        });
        put(&mut spec, "template", image);
        put(&mut spec, "resourcePool", self.resource_pool.clone());
        put(&mut spec, "folder", self.folder.clone());
        put(&mut spec, "thumbprint", self.thumbprint.clone());
        Ok(spec)
    }

    /// The provider takes over the Secret of a cluster, so every cluster has its own.
    fn credentials(&self, spec: &TenantSpec, inputs: &Inputs) -> Result<Vec<Object>, Missing> {
        let data = [
            ("username", credential(inputs, "username")?.to_owned()),
            ("password", credential(inputs, "password")?.to_owned()),
        ];
        Ok(vec![beside(&spec.identity, &secret_name(spec), &data)])
    }

    fn keys(&self) -> &'static [&'static str] {
        &["username", "password"]
    }

    fn image(&self) -> Option<&str> {
        self.template.as_deref()
    }
}
