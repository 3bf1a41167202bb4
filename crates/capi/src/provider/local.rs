//! Machines on the machine that Butler runs on: our own kinds.

use butler_api::infrastructure::{local_cluster::LocalClusterSpec, local_machine::MachineShape};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::{Kinds, Missing, Provider};
use crate::{
    observe::Inputs,
    spec::{Faults, Os, Pool, Raw, TenantSpec},
};

/// Settings of local machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    image: Option<String>,
}

impl Local {
    pub(super) fn resolve(raw: &Raw<'_>) -> Self {
        let block = raw.provider.spec.local.clone().unwrap_or_default();
        Self {
            image: block.kind_node_image,
        }
    }
}

impl Provider for Local {
    fn kinds(&self) -> Kinds {
        Kinds {
            version: "v1alpha1",
            cluster: "LocalCluster",
            template: "LocalMachineTemplate",
            identity: None,
        }
    }

    fn cluster(&self, _: &TenantSpec, _: &Inputs) -> Result<Value, Missing> {
        Ok(plain(&LocalClusterSpec::default()))
    }

    fn machine(&self, _: &TenantSpec, pool: &Pool, image: Option<&str>) -> Result<Value, Missing> {
        let text = |text: String| IntOrString::String(text);
        Ok(plain(&MachineShape {
            cpu: text(pool.machine.cpu.to_string()),
            memory: text(pool.machine.memory.to_string()),
            disk: text(pool.machine.disk.to_string()),
            image: image.map(str::to_owned),
        }))
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn needs_image(&self) -> bool {
        false
    }

    fn check(&self, pool: &Pool, faults: &mut Faults) {
        if pool.os != Os::Rocky {
            faults.add(
                format!("{}.machineTemplate.os.type", pool.field()),
                "local machines share the kernel and the programs of their host, and join by kubeadm: use rocky, or leave it out",
            );
        }
    }
}

fn plain(spec: &impl serde::Serialize) -> Value {
    serde_json::to_value(spec).expect("a spec is plain data with text keys")
}
