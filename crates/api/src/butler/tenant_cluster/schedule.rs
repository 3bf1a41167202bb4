//! When a tenant cluster sleeps, and when it may be disturbed.

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::schema;

/// When the cluster sleeps: no workers and no control plane, all data kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hibernation {
    /// Whether the cluster sleeps now, whatever the schedules say. Default: false.
    #[serde(default)]
    pub enabled: bool,
    /// When it falls asleep and wakes by itself. Left out, only `enabled` decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub schedules: Vec<HibernationSchedule>,
}

/// When a cluster falls asleep, and when it wakes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.start != self.end")
        .message("the cluster would fall asleep and wake at the same moment")
        .field_path(".end")
)]
#[serde(rename_all = "camelCase")]
pub struct HibernationSchedule {
    /// When it falls asleep, as five fields of cron, such as `0 20 * * 1-5`.
    #[schemars(schema_with = "cron")]
    pub start: String,
    /// When it wakes, as five fields of cron, such as `0 6 * * 1-5`.
    #[schemars(schema_with = "cron")]
    pub end: String,
    /// Time zone of both, such as `Europe/Berlin`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_zone")]
    pub time_zone: Option<String>,
}

/// When the cluster may be disturbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Maintenance {
    /// Upgrades and changes that replace workers start only inside one of these. Left out, at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub windows: Vec<MaintenanceWindow>,
}

/// A time in which the cluster may be disturbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// When it opens, as five fields of cron, such as `0 2 * * 6`.
    #[schemars(schema_with = "cron")]
    pub schedule: String,
    /// How long it stays open, from 30m to 24h. Default: 4h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub duration: Option<String>,
    /// Time zone of the schedule, such as `Europe/Berlin`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_zone")]
    pub time_zone: Option<String>,
}

fn cron(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        128,
        "self.matches('^[-0-9A-Za-z*/,#]+( [-0-9A-Za-z*/,#]+){4}$')",
        "must be five fields of cron: minute, hour, day of month, month, day of week, such as 0 2 * * 6",
    )
}

fn time_zone(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        64,
        "self.matches('^[A-Za-z][-A-Za-z0-9_+]*(/[A-Za-z][-A-Za-z0-9_+]*)*$')",
        "must be a time zone such as Europe/Berlin or UTC",
    )
}
