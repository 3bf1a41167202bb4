//! What a `LocalMachine` needs next, from what was observed. Pure.

use std::path::PathBuf;

use butler_api::{
    infrastructure::{LocalMachine, local_machine::MachineShape},
    types::{KubeVersion, Quantity},
};
use butler_runtime::finalizers;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::super::{
    FINALIZER, Settings,
    capi::{Cluster, Machine},
};
use crate::runtime::{Held, Observed};

/// Everything that a decision depends on.
pub(super) struct World<'a> {
    pub(super) raw: &'a LocalMachine,
    /// The Machine that owns it.
    pub(super) machine: Option<&'a Machine>,
    /// The Cluster of that Machine.
    pub(super) cluster: Option<&'a Cluster>,
    /// UID of the `LocalCluster`.
    pub(super) network: Option<String>,
    pub(super) settings: &'a Settings,
    pub(super) observed: &'a Observed,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing, before something else happens: a word and a sentence.
    Wait(&'static str, String),
    /// Take the object under our finalizer.
    Adopt,
    /// Connect and start the machine.
    Start(Start),
    /// Connect the machine, which runs or was broken on purpose, and report.
    Stand {
        /// UID of the `LocalCluster`.
        network: String,
    },
}

/// What a machine is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// UID of the `LocalCluster`.
    pub(super) network: String,
    /// Folder with the programs of its version.
    pub(super) kubernetes: PathBuf,
    /// Where the bootstrap data is, for a first start.
    pub(super) data: Option<String>,
    pub(super) cpu_milli: u64,
    pub(super) memory_bytes: u64,
}

/// Decides.
pub(super) fn next(world: World<'_>) -> Next {
    let World {
        raw,
        machine,
        cluster,
        network,
        settings,
        observed,
    } = world;
    let Some(machine) = machine else {
        let message = "no Machine owns it; name it in the spec.infrastructureRef of a Machine";
        return Next::Wait("WaitingForMachine", message.to_owned());
    };
    let Some(cluster) = cluster else {
        let message = format!("there is no Cluster {}", machine.spec.cluster_name);
        return Next::Wait("WaitingForCluster", message);
    };
    if cluster.status.initialization.infrastructure_provisioned != Some(true) {
        let message = format!(
            "waits for the infrastructure of Cluster {}",
            cluster.name_any()
        );
        return Next::Wait("WaitingForClusterInfrastructure", message);
    }
    let Some(network) = network else {
        let message = format!("Cluster {} has no LocalCluster", cluster.name_any());
        return Next::Wait("WaitingForLocalCluster", message);
    };
    if !finalizers::has(raw, FINALIZER) {
        return Next::Adopt;
    }
    if observed.pid.is_some() || observed.held == Some(Held::Killed) {
        return Next::Stand { network };
    }
    let data = machine.spec.bootstrap.data_secret_name.clone();
    if data.is_none() && observed.outcome.is_none() {
        let message = format!(
            "waits for the bootstrap data of Machine {}",
            machine.name_any()
        );
        return Next::Wait("WaitingForBootstrapData", message);
    }
    let kubernetes = match image(&raw.spec.shape, machine, settings) {
        Ok(folder) => folder,
        Err(message) => return Next::Wait("NoImage", message),
    };
    let MachineShape { cpu, memory, .. } = &raw.spec.shape;
    let (cpu_milli, memory_bytes) =
        if let (Some(cpu), Some(memory)) = (quantity(cpu), quantity(memory)) {
            (cpu.milli(), memory.ceil())
        } else {
            let message = "spec.cpu or spec.memory is not a quantity, such as 2 or 4Gi".to_owned();
            return Next::Wait("InvalidSpec", message);
        };
    Next::Start(Start {
        network,
        kubernetes,
        data,
        cpu_milli: u64::try_from(cpu_milli).unwrap_or(u64::MAX),
        memory_bytes: u64::try_from(memory_bytes).unwrap_or(u64::MAX),
    })
}

/// The image that is asked for, or the one for the version of the Machine, or the newest.
fn image(shape: &MachineShape, machine: &Machine, settings: &Settings) -> Result<PathBuf, String> {
    let asked = shape.image.as_ref().or(machine.spec.version.as_ref());
    let found = match asked {
        None => settings.images.last_key_value().map(|(_, folder)| folder),
        Some(version) => {
            let version: Option<KubeVersion> = version.parse().ok();
            version.and_then(|version| settings.images.get(&version))
        }
    };
    found.cloned().ok_or_else(|| {
        let there: Vec<_> = settings.images.keys().map(ToString::to_string).collect();
        format!(
            "there is no node image {}; there are: {}",
            asked.map_or("at all", String::as_str),
            there.join(", ")
        )
    })
}

fn quantity(value: &IntOrString) -> Option<Quantity> {
    match value {
        IntOrString::Int(number) => Some(Quantity::from_milli(i128::from(*number) * 1000)),
        IntOrString::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::protocol::Outcome;

    fn settings() -> Settings {
        let images = [("v1.34.4", "/34"), ("v1.35.4", "/35")];
        Settings {
            images: images
                .map(|(version, folder)| (version.parse().unwrap(), folder.into()))
                .into(),
            containerd: "/c".into(),
            cni: "/n".into(),
            extra: Vec::new(),
            sandbox_image: "pause".to_owned(),
            mirrors: Vec::new(),
            image_store: None,
            pool: None,
        }
    }

    fn raw(finalizers: &[&str]) -> LocalMachine {
        LocalMachine {
            metadata: serde_json::from_value(json!({"name": "w", "finalizers": finalizers}))
                .unwrap(),
            ..LocalMachine::default()
        }
    }

    fn machine(spec: &Value) -> Machine {
        serde_json::from_value(json!({"metadata": {"name": "w"}, "spec": spec})).unwrap()
    }

    fn cluster(provisioned: bool) -> Cluster {
        let status = json!({"initialization": {"infrastructureProvisioned": provisioned}});
        serde_json::from_value(json!({"metadata": {"name": "sky"}, "status": status})).unwrap()
    }

    const NOTHING: Observed = Observed {
        pid: None,
        held: None,
        outcome: None,
    };

    fn bootstrapped() -> Machine {
        machine(
            &json!({"clusterName": "sky", "version": "v1.35.4", "bootstrap": {"dataSecretName": "data"}}),
        )
    }

    fn decide(
        raw: &LocalMachine,
        machine: Option<&Machine>,
        cluster: Option<&Cluster>,
        network: Option<&str>,
        observed: &Observed,
    ) -> Next {
        next(World {
            raw,
            machine,
            cluster,
            network: network.map(str::to_owned),
            settings: &settings(),
            observed,
        })
    }

    fn reason(next: &Next) -> &str {
        match next {
            Next::Wait(reason, _) => reason,
            Next::Adopt => "Adopt",
            Next::Start(_) => "Start",
            Next::Stand { .. } => "Stand",
        }
    }

    #[test]
    fn every_gate_of_the_contract_is_passed_in_order() {
        let (ours, fresh) = (raw(&[FINALIZER]), raw(&[]));
        let (full, bare) = (bootstrapped(), machine(&json!({"clusterName": "sky"})));
        let (ready, unready) = (cluster(true), cluster(false));
        let uid = Some("uid");
        let rows = [
            (
                "WaitingForMachine",
                decide(&fresh, None, None, None, &NOTHING),
            ),
            (
                "WaitingForCluster",
                decide(&fresh, Some(&full), None, None, &NOTHING),
            ),
            (
                "WaitingForClusterInfrastructure",
                decide(&fresh, Some(&full), Some(&unready), uid, &NOTHING),
            ),
            (
                "WaitingForLocalCluster",
                decide(&fresh, Some(&full), Some(&ready), None, &NOTHING),
            ),
            (
                "Adopt",
                decide(&fresh, Some(&full), Some(&ready), uid, &NOTHING),
            ),
            (
                "WaitingForBootstrapData",
                decide(&ours, Some(&bare), Some(&ready), uid, &NOTHING),
            ),
            (
                "Start",
                decide(&ours, Some(&full), Some(&ready), uid, &NOTHING),
            ),
        ];
        for (expected, next) in rows {
            assert_eq!(reason(&next), expected, "{next:?}");
        }
    }

    #[test]
    fn a_machine_that_runs_is_left_alone_and_one_that_died_is_started_again() {
        let (raw, machine, cluster) = (raw(&[FINALIZER]), bootstrapped(), cluster(true));
        let seen = |pid, held, outcome| {
            let observed = Observed { pid, held, outcome };
            decide(&raw, Some(&machine), Some(&cluster), Some("uid"), &observed)
        };
        let done = Some(Outcome::Succeeded);
        assert_eq!(reason(&seen(Some(7), None, None)), "Stand");
        assert_eq!(
            reason(&seen(Some(7), Some(Held::Paused), done.clone())),
            "Stand"
        );
        assert_eq!(
            reason(&seen(None, Some(Held::Killed), done.clone())),
            "Stand"
        );
        assert_eq!(reason(&seen(None, None, done)), "Start");
    }

    #[test]
    fn the_image_is_the_one_asked_for_or_that_of_the_machines_version_or_the_newest() {
        let settings = settings();
        let of = |asked: Option<&str>, version: Option<&str>| {
            let shape = MachineShape {
                image: asked.map(str::to_owned),
                ..MachineShape::default()
            };
            image(&shape, &machine(&json!({"version": version})), &settings)
        };
        assert_eq!(of(Some("v1.34.4"), Some("v1.35.4")), Ok("/34".into()));
        assert_eq!(of(None, Some("v1.35.4")), Ok("/35".into()));
        assert_eq!(of(None, None), Ok("/35".into()));
        let message = of(None, Some("v1.33.0")).unwrap_err();
        assert_eq!(
            message,
            "there is no node image v1.33.0; there are: v1.34.4, v1.35.4"
        );
    }

    #[test]
    fn what_a_machine_may_use_is_exact() {
        let mut raw = raw(&[FINALIZER]);
        raw.spec.shape.cpu = IntOrString::String("500m".to_owned());
        raw.spec.shape.memory = IntOrString::String("1Gi".to_owned());
        let machine = bootstrapped();
        let next = decide(
            &raw,
            Some(&machine),
            Some(&cluster(true)),
            Some("uid"),
            &NOTHING,
        );
        let Next::Start(start) = next else {
            panic!("{next:?}");
        };
        assert_eq!((start.cpu_milli, start.memory_bytes), (500, 1 << 30));
    }
}
