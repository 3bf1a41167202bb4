//! Slim views of kinds that are read and never written: most of an object's memory is fields nobody asks for.

use butler_api::butler::TenantCluster;
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Serialize};

/// What counting needs of a `TenantCluster`.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = TenantCluster)]
pub struct ClusterSummary {
    /// Name, namespace, labels.
    pub metadata: ObjectMeta,
    /// Where in its life it is.
    #[serde(default)]
    pub status: ClusterSummaryStatus,
}

/// The phase and nothing else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClusterSummaryStatus {
    /// As text: a phase of a later version must not stop the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
