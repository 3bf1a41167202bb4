//! Amazon Web Services: `AWSCluster` and `AWSMachineTemplate`.

use serde_json::{Value, json};

use super::{
    Kinds, Missing, Provider, SecretName, block, put, secret,
    sizes::{Family, fit},
};
use crate::{
    observe::Inputs,
    spec::{Faults, Os, Pool, Raw, TenantSpec},
};

/// Settings of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aws {
    identity: SecretName,
    region: String,
    vpc: Option<String>,
    subnets: Vec<String>,
    security_groups: Vec<String>,
    instance_type: Option<String>,
    image: Option<String>,
}

impl Aws {
    pub(super) fn resolve(raw: &Raw<'_>, faults: &mut Faults) -> Option<Self> {
        let identity = secret(raw, faults);
        let block = block("aws", raw.provider.spec.aws.as_ref(), faults)?;
        Some(Self {
            identity: identity?,
            region: block.region.clone(),
            vpc: block.vpc_id.clone(),
            subnets: block.subnet_ids.clone(),
            security_groups: block.security_group_ids.clone(),
            instance_type: block.instance_type.clone(),
            image: block.image_id.clone(),
        })
    }

    fn instance_type(&self, pool: &Pool) -> Option<String> {
        let own = self.instance_type.clone();
        own.or_else(|| fit(&FAMILIES, pool.machine.cpu, pool.machine.memory_mib()))
    }
}

const STEPS: [u32; 9] = [2, 4, 8, 16, 32, 48, 64, 96, 128];

/// Amazon counts in large machines: one of them has two CPUs.
fn size(cpu: u32) -> String {
    match cpu {
        2 => "large".to_owned(),
        4 => "xlarge".to_owned(),
        more => format!("{}xlarge", more / 4),
    }
}

const FAMILIES: [Family; 3] = [
    Family {
        ratio: 2,
        name: |cpu| format!("c6i.{}", size(cpu)),
        steps: &STEPS,
    },
    Family {
        ratio: 4,
        name: |cpu| format!("m6i.{}", size(cpu)),
        steps: &STEPS,
    },
    Family {
        ratio: 8,
        name: |cpu| format!("r6i.{}", size(cpu)),
        steps: &STEPS,
    },
];

impl Provider for Aws {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1beta2",
            cluster: "AWSCluster",
            template: "AWSMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, _: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        let mut network = json!({});
        put(
            &mut network,
            "vpc",
            self.vpc.as_ref().map(|id| json!({ "id": id })),
        );
        let subnets: Vec<Value> = self.subnets.iter().map(|id| json!({ "id": id })).collect();
        put(
            &mut network,
            "subnets",
            (!subnets.is_empty()).then_some(subnets),
        );
        Ok(json!({
            "region": self.region,
            "network": network,
            "controlPlaneLoadBalancer": { "loadBalancerType": "disabled" },
            "identityRef": { "kind": "AWSClusterStaticIdentity", "name": self.identity.name },
        }))
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let mut spec = json!({
            "rootVolume": {
                "size": pool.machine.disk_gib(),
                "type": "gp3",
                "encrypted": true,
            },
        });
        // Only cloud-init can fetch its data from where the provider would otherwise hide it.
        match pool.os {
            Os::Rocky => {}
            Os::Flatcar => {
                let ignition = json!({ "version": "3.3", "storageType": "UnencryptedUserData" });
                put(&mut spec, "ignition", Some(ignition));
            }
            Os::Talos(_) | Os::Bottlerocket | Os::Kairos => {
                let skip = json!({ "insecureSkipSecretsManager": true });
                put(&mut spec, "cloudInit", Some(skip));
            }
        }
        put(&mut spec, "instanceType", self.instance_type(pool));
        put(&mut spec, "ami", image.map(|id| json!({ "id": id })));
        let groups = self.security_groups.iter().map(|id| json!({ "id": id }));
        let groups: Vec<Value> = groups.collect();
        put(
            &mut spec,
            "additionalSecurityGroups",
            (!groups.is_empty()).then_some(groups),
        );
        if self.vpc.is_some() {
            put(
                &mut spec,
                "subnet",
                self.subnets.first().map(|id| json!({ "id": id })),
            );
        }
        Ok(spec)
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn check(&self, pool: &Pool, faults: &mut Faults) {
        super::sold(self.instance_type(pool).is_some(), "AWS", pool, faults);
    }
}
