//! Nutanix AHV: `NutanixCluster` and `NutanixMachineTemplate`.

use serde_json::{Value, json};

use super::{Kinds, Missing, Provider, beside, block, credential, put};
use crate::{
    object::Object,
    observe::Inputs,
    spec::{Faults, Pool, Raw, TenantSpec},
};

/// The least memory that the provider accepts.
const LEAST_MEMORY_MIB: u64 = 2048;

/// Settings of Nutanix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nutanix {
    address: String,
    port: i32,
    insecure: bool,
    cluster: String,
    subnet: String,
    image: Option<String>,
}

impl Nutanix {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let block = block("nutanix", raw.provider.spec.nutanix.as_ref(), faults)?;
        let own = raw.cluster.spec.infrastructure_override.as_ref();
        let own = own.and_then(|own| own.nutanix.clone()).unwrap_or_default();
        if own.storage_container_uuid.is_some() {
            faults.add(
                "spec.infrastructureOverride.nutanix.storageContainerUUID",
                "the Cluster API provider of Nutanix puts the disk of a machine where its image lies: choose another image instead",
            );
        }
        let address = block.endpoint.trim_start_matches("https://");
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        Some(Self {
            address: address.to_owned(),
            port: block.port,
            insecure: block.insecure,
            cluster: own
                .cluster_uuid
                .unwrap_or_else(|| block.cluster_uuid.clone()),
            subnet: own.subnet_uuid.unwrap_or_else(|| block.subnet_uuid.clone()),
            image: own.image_uuid.or_else(|| block.image_uuid.clone()),
        })
    }
}

fn secret_name(spec: &TenantSpec) -> String {
    format!("{}-nutanix-creds", spec.identity.cluster())
}

fn by_uuid(uuid: &str) -> Value {
    json!({ "type": "uuid", "uuid": uuid })
}

impl Provider for Nutanix {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1beta1",
            cluster: "NutanixCluster",
            template: "NutanixMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, spec: &TenantSpec, inputs: &Inputs) -> Result<Value, Missing> {
        let mut prism = json!({
            "address": self.address,
            "port": self.port,
            "insecure": self.insecure,
            "credentialRef": { "kind": "Secret", "name": secret_name(spec) },
        });
        let authority = inputs.credentials.get("ca.pem");
        let bundle = authority.map(|pem| json!({ "kind": "String", "data": pem.reveal() }));
        put(&mut prism, "additionalTrustBundle", bundle);
        Ok(json!({ "prismCentral": prism }))
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let mut spec = json!({
            "bootType": "legacy",
            "vcpuSockets": pool.machine.cpu,
            "vcpusPerSocket": 1,
            "memorySize": pool.machine.memory.to_string(),
            "systemDiskSize": pool.machine.disk.to_string(),
            "cluster": by_uuid(&self.cluster),
            "subnet": [by_uuid(&self.subnet)],
        });
        put(&mut spec, "image", image.map(by_uuid));
        Ok(spec)
    }

    /// The provider reads a list of credentials as JSON, from a Secret of the cluster's namespace.
    fn credentials(&self, spec: &TenantSpec, inputs: &Inputs) -> Result<Vec<Object>, Missing> {
        let credentials = json!([{
            "type": "basic_auth",
            "data": { "prismCentral": {
                "username": credential(inputs, "username")?,
                "password": credential(inputs, "password")?,
            } },
        }]);
        let data = [("credentials", credentials.to_string())];
        Ok(vec![beside(&spec.identity, &secret_name(spec), &data)])
    }

    fn keys(&self) -> &'static [&'static str] {
        &["username", "password"]
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn check(&self, pool: &Pool, faults: &mut Faults) {
        if pool.machine.memory_mib() < LEAST_MEMORY_MIB {
            faults.add(
                format!("{}.machineTemplate.memory", pool.field()),
                format!(
                    "{} is too little: Nutanix takes 2Gi or more",
                    pool.machine.memory
                ),
            );
        }
    }
}
