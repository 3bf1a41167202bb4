//! Google Cloud: `GCPCluster` and `GCPMachineTemplate`.

use serde_json::{Value, json};

use super::{
    Kinds, Missing, Provider, SecretName, block, put, secret,
    sizes::{Family, fit},
};
use crate::{
    observe::Inputs,
    spec::{Faults, Pool, Raw, TenantSpec},
};

/// Settings of Google Cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gcp {
    secret: SecretName,
    project: String,
    region: String,
    pub(crate) zone: Option<String>,
    network: Option<String>,
    subnetwork: Option<String>,
    machine_type: Option<String>,
    image: Option<String>,
    service_account: Option<String>,
    tags: Vec<String>,
}

impl Gcp {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let secret = secret(raw, faults);
        let block = block("gcp", raw.provider.spec.gcp.as_ref(), faults)?;
        let own = raw.cluster.spec.infrastructure_override.as_ref();
        let own = own.and_then(|own| own.gcp.clone()).unwrap_or_default();
        let project = block.image_project.as_ref().unwrap_or(&block.project_id);
        let path = |folder: &str, name: &str| {
            if name.contains('/') {
                name.to_owned()
            } else {
                format!("projects/{project}/global/images/{folder}{name}")
            }
        };
        let named = own.image.as_ref().or(block.image.as_ref());
        let family = own.image_family.as_ref().or(block.image_family.as_ref());
        let image = named.map(|name| path("", name));
        Some(Self {
            secret: secret?,
            project: block.project_id.clone(),
            region: block.region.clone(),
            zone: own.zone.or_else(|| block.zone.clone()),
            network: block.network.clone(),
            subnetwork: own.subnetwork.or_else(|| block.subnetwork.clone()),
            machine_type: own.machine_type.or_else(|| block.machine_type.clone()),
            image: image.or_else(|| family.map(|name| path("family/", name))),
            service_account: block.service_account.clone(),
            tags: block.tags.clone(),
        })
    }

    fn machine_type(&self, pool: &Pool) -> Option<String> {
        let own = self.machine_type.clone();
        own.or_else(|| fit(&FAMILIES, pool.machine.cpu, pool.machine.memory_mib()))
    }
}

const STEPS: [u32; 8] = [2, 4, 8, 16, 32, 48, 64, 80];

const FAMILIES: [Family; 3] = [
    // 1 GiB to a CPU.
    Family {
        ratio: 1,
        name: |cpu| format!("n2-highcpu-{cpu}"),
        steps: &STEPS,
    },
    Family {
        ratio: 4,
        name: |cpu| format!("n2-standard-{cpu}"),
        steps: &STEPS,
    },
    Family {
        ratio: 8,
        name: |cpu| format!("n2-highmem-{cpu}"),
        steps: &STEPS,
    },
];

impl Provider for Gcp {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1beta1",
            cluster: "GCPCluster",
            template: "GCPMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, _: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        let mut network = json!({});
        put(&mut network, "name", self.network.clone());
        let mut spec = json!({
            "project": self.project,
            "region": self.region,
            "network": network,
            "credentialsRef": { "name": self.secret.name, "namespace": self.secret.namespace },
        });
        put(
            &mut spec,
            "failureDomains",
            self.zone.clone().map(|zone| vec![zone]),
        );
        Ok(spec)
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let mut spec = json!({
            "rootDeviceType": "pd-ssd",
            "rootDeviceSize": pool.machine.disk_gib(),
        });
        put(&mut spec, "instanceType", self.machine_type(pool));
        let is_family = image.is_some_and(|image| image.contains("/family/"));
        put(
            &mut spec,
            if is_family { "imageFamily" } else { "image" },
            image,
        );
        put(&mut spec, "subnet", self.subnetwork.clone());
        let tags = self.tags.clone();
        put(
            &mut spec,
            "additionalNetworkTags",
            (!tags.is_empty()).then_some(tags),
        );
        let account = self.service_account.as_ref().map(|email| {
            let scopes = ["https://www.googleapis.com/auth/cloud-platform"];
            json!({ "email": email, "scopes": scopes })
        });
        put(&mut spec, "serviceAccounts", account);
        Ok(spec)
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn check(&self, pool: &Pool, faults: &mut Faults) {
        super::sold(
            self.machine_type(pool).is_some(),
            "Google Cloud",
            pool,
            faults,
        );
        if pool.zone.is_none() && self.zone.is_none() {
            faults.add(
                format!("{}.zone", pool.field()),
                "on Google Cloud a machine needs a zone: name one here, or in the ProviderConfig",
            );
        }
    }
}
