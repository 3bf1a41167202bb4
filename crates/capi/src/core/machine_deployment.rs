//! `MachineDeployment`: a pool of equal machines.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{GROUP, Kind, Reference, Resource};

/// A pool of equal machines.
pub type MachineDeployment = Resource<MachineDeploymentSpec>;

/// What a pool should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentSpec {
    /// Its Cluster.
    pub cluster_name: String,
    /// How many machines; left out, the autoscaler owns the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How machines are replaced.
    pub rollout: MachineRollout,
    /// How many broken machines are repaired at once.
    pub remediation: Remediation,
    /// Which machines are its own.
    pub selector: Selector,
    /// What its machines are made from.
    pub template: MachineTemplate,
}

/// How machines are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineRollout {
    /// The way.
    pub strategy: Strategy,
}

/// The way machines are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// Always `RollingUpdate`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its limits.
    pub rolling_update: RollingUpdate,
}

/// Limits while machines are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many machines more than wanted.
    pub max_surge: i32,
    /// How many machines fewer than wanted.
    pub max_unavailable: i32,
}

/// How many broken machines are repaired at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remediation {
    /// The number.
    pub max_in_flight: i32,
}

/// Which machines belong to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels they carry.
    pub match_labels: BTreeMap<String, String>,
}

/// What machines are made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineTemplate {
    /// Labels of the machines.
    pub metadata: Labelled,
    /// What a machine should be.
    pub spec: MachineSpec,
}

/// Labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Labelled {
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// What a machine should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Its Cluster.
    pub cluster_name: String,
    /// Kubernetes release.
    pub version: String,
    /// How it is told to join.
    pub bootstrap: Bootstrap,
    /// What it is made of.
    pub infrastructure_ref: Reference,
    /// Zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// How long its removal may take.
    pub deletion: MachineDeletion,
}

/// How a machine is told to join: by a template of a bootstrap provider, or by a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Bootstrap {
    /// A template; every machine gets a Secret of its own.
    ConfigRef(Reference),
    /// A Secret that all machines share.
    DataSecretName(String),
}

/// How long the removal of a machine may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeletion {
    /// Until its pods have left.
    pub node_drain_timeout_seconds: i32,
    /// Until its volumes are detached.
    pub node_volume_detach_timeout_seconds: i32,
    /// Until its Node is gone.
    pub node_deletion_timeout_seconds: i32,
}

impl Kind for MachineDeploymentSpec {
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "MachineDeployment";
    const PLURAL: &'static str = "machinedeployments";
}
