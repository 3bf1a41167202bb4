//! Pools of equal workers, and what every pool can say about its nodes.

use std::collections::BTreeMap;

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::MachineTemplate;
use crate::schema;

/// The longest name of a pool: with the cluster's name it becomes a label value.
pub const POOL_NAME_MAX: usize = 30;

/// The pool that `workers` describes.
pub const DEFAULT_POOL: &str = "workers";

/// A pool of equal workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new(format!("self.name != '{DEFAULT_POOL}'"))
        .message("the pool workers is described by spec.workers: choose another name")
        .field_path(".name"),
    validation = Rule::new("has(self.minReplicas) == has(self.maxReplicas)")
        .message("minReplicas and maxReplicas go together")
        .field_path(".maxReplicas"),
    validation = Rule::new("has(self.replicas) != has(self.maxReplicas)")
        .message("give either replicas, or minReplicas and maxReplicas for the autoscaler")
        .field_path(".replicas"),
    validation = Rule::new(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas"
    )
        .message("minReplicas must not be above maxReplicas")
        .field_path(".minReplicas")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkerPool {
    /// Name of the pool, unique in the cluster, such as `gpu`.
    #[schemars(schema_with = "pool_name")]
    pub name: String,
    /// How many workers there are. Left out where the autoscaler decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// The fewest workers the autoscaler leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub min_replicas: Option<i32>,
    /// The most workers the autoscaler makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: Option<i32>,
    /// What one worker is like. A change replaces the workers one by one.
    #[serde(default)]
    pub machine_template: MachineTemplate,
    /// What the nodes carry, and how they are looked after.
    #[serde(flatten)]
    pub settings: PoolSettings,
}

/// What the nodes of a pool carry, and how they are looked after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSettings {
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "node_labels")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub taints: Vec<NodeTaint>,
    /// Zone or other failure domain of the provider that the machines are made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub zone: Option<String>,
    /// Whether a worker that stays unhealthy is replaced. Default: true.
    #[serde(default = "yes")]
    pub auto_repair: bool,
    /// How long the pods of a worker that goes may take to leave, such as `10m`. After that it goes
    /// anyway. Default: 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub drain_timeout: Option<String>,
    /// How workers are replaced. Default: one new worker at a time, and no worker goes before it is ready.
    #[serde(default)]
    pub rollout: PoolRollout,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            taints: Vec::new(),
            zone: None,
            auto_repair: yes(),
            drain_timeout: None,
            rollout: PoolRollout::default(),
        }
    }
}

/// How the workers of a pool are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.maxSurge + self.maxUnavailable > 0")
        .message("with maxSurge 0 and maxUnavailable 0 no worker could ever be replaced")
        .field_path(".maxSurge")
)]
#[serde(rename_all = "camelCase")]
pub struct PoolRollout {
    /// How many workers more than wanted there may be meanwhile. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100))]
    pub max_surge: i32,
    /// How many workers fewer than wanted there may be meanwhile. Default: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub max_unavailable: i32,
}

impl Default for PoolRollout {
    fn default() -> Self {
        Self {
            max_surge: one(),
            max_unavailable: 0,
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NodeTaint {
    /// Its key, such as `dedicated`.
    #[schemars(schema_with = "label_key")]
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_value")]
    pub value: Option<String>,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TaintEffect {
    /// New ones stay away.
    NoSchedule,
    /// New ones stay away if they can.
    PreferNoSchedule,
    /// Running ones leave too.
    NoExecute,
}

impl TaintEffect {
    /// The spelling of the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

fn yes() -> bool {
    true
}

fn one() -> i32 {
    1
}

/// Pools are told apart by name.
pub(super) fn pools(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<WorkerPool>>();
    schema::merge_by_key(list, "name", 32)
}

fn pool_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": POOL_NAME_MAX,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

const LABEL_KEY: &str =
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const LABEL_VALUE: &str = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

fn label_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 317, "pattern": LABEL_KEY })
}

fn label_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 63, "pattern": LABEL_VALUE })
}

fn node_labels(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": label_value(generator),
        // A pattern for keys, which have no bound of their own, would cost more than the API server allows.
        "x-kubernetes-validations": [{
            "rule": "self.all(key, key.size() > 0 && key.size() <= 317)",
            "message": "a label key has from 1 to 317 characters",
        }],
    })
}
