//! `MachineHealthCheck`: which machines of a pool are replaced because they do not work.

use serde::Serialize;

use super::{GROUP, Kind, Resource, machine_deployment::Selector};

/// Which machines are replaced because they do not work.
pub type MachineHealthCheck = Resource<MachineHealthCheckSpec>;

/// What is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// The Cluster.
    pub cluster_name: String,
    /// Which machines.
    pub selector: Selector,
    /// When one counts as broken.
    pub checks: Checks,
    /// When nothing is done although some are broken.
    pub remediation: UnhealthyRemediation,
}

/// When a machine counts as broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// A machine whose Node has not appeared by then.
    pub node_startup_timeout_seconds: i32,
    /// A Node in one of these states for that long.
    pub unhealthy_node_conditions: Vec<UnhealthyCondition>,
    /// A machine in one of these states for that long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_machine_conditions: Vec<UnhealthyCondition>,
}

/// A state that a Node or a machine must not be in for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyCondition {
    /// Condition of the Node or the machine.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its status.
    pub status: &'static str,
    /// For how long.
    pub timeout_seconds: i32,
}

/// When broken machines are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyRemediation {
    /// Only then.
    pub trigger_if: TriggerIf,
}

/// When broken machines are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerIf {
    /// Not when more than this are broken at once: then something else is.
    pub unhealthy_less_than_or_equal_to: &'static str,
}

impl Kind for MachineHealthCheckSpec {
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "MachineHealthCheck";
    const PLURAL: &'static str = "machinehealthchecks";
}
