//! Slim views of kinds that are read and never written: most of an object's memory is fields nobody asks for.

use butler_api::{
    butler::{
        TenantCluster,
        tenant_cluster::{CniProvider, LoadBalancerProvider, ManagementMode, ManagementPolicy},
    },
    common::{LocalRef, ObjectRef},
};
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Serialize, de::IgnoredAny};

/// What counting clusters, and giving them addresses, needs of a `TenantCluster`.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = TenantCluster)]
pub struct ClusterSummary {
    /// Name, namespace, labels.
    pub metadata: ObjectMeta,
    /// What it wants, as far as addresses go.
    #[serde(default)]
    pub spec: ClusterSummarySpec,
    /// Where in its life it is.
    #[serde(default)]
    pub status: ClusterSummaryStatus,
}

/// Where a cluster's addresses come from, and how many it wants.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSummarySpec {
    /// The version of Kubernetes that it wants.
    pub kubernetes_version: String,
    /// Its team.
    pub team_ref: Option<LocalRef>,
    /// Its provider.
    pub provider_config_ref: Option<ObjectRef>,
    /// Its addresses.
    pub networking: ClusterAddresses,
    /// What uses addresses in it from the start.
    pub addons: ClusterAddons,
    /// How far its addons are ours to change.
    pub management_policy: ManagementPolicy,
}

/// The addresses that a cluster asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAddresses {
    /// Its own ones, which are not for us to give.
    #[serde(skip_serializing)]
    pub load_balancer_pool: Option<IgnoredAny>,
    /// How many of a pool.
    pub lb_pool_size: Option<i32>,
}

/// The addons of a cluster that have to do with addresses, or that it may bring itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAddons {
    /// The pod network.
    pub cni: Option<PodNetwork>,
    /// Gives addresses to Services.
    pub load_balancer: Option<AddressPool>,
    /// Takes one from the start.
    pub ingress: Option<Switch>,
}

/// The other way to give a cluster addresses of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressPool {
    /// Its own addresses.
    pub address_pool: Option<String>,
    /// Who gives them out.
    pub provider: Option<LoadBalancerProvider>,
    /// Whether it is installed.
    pub enabled: Option<bool>,
}

/// Who makes the pod network.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodNetwork {
    /// Which one.
    pub provider: Option<CniProvider>,
}

/// Whether an addon is installed; unless it says otherwise, it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Switch {
    /// Whether it is.
    #[serde(default)]
    pub enabled: Option<bool>,
}

impl ClusterSummary {
    /// The version of Kubernetes that it runs, which decides about addons; the one that it wants before it runs any.
    pub fn kubernetes(&self) -> &str {
        let seen = self.status.observed_state.kubernetes_version.as_deref();
        seen.unwrap_or(&self.spec.kubernetes_version)
    }

    /// Whether the cluster brings its own addresses.
    pub fn has_own_addresses(&self) -> bool {
        let addons = self.spec.addons.load_balancer.as_ref();
        self.spec.networking.load_balancer_pool.is_some()
            || addons.is_some_and(|addon| addon.address_pool.is_some())
    }

    /// Whether something in the cluster asks for an address as soon as it runs: the ingress controller, where the spec
    /// names one and it is ours to install.
    pub fn needs_addresses(&self) -> bool {
        let ingress = self.spec.addons.ingress.as_ref();
        let is_wanted = ingress.is_some_and(|ingress| ingress.enabled.unwrap_or(true));
        is_wanted && self.spec.management_policy.mode != ManagementMode::Observe
    }
}

/// Where in its life a cluster is, and how it is looked into.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSummaryStatus {
    /// As text: a phase of a later version must not stop the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Namespace with the objects it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_namespace: Option<String>,
    /// Secret with its kubeconfig, in that namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<LocalRef>,
    /// What it runs.
    #[serde(default)]
    pub observed_state: ClusterSummaryState,
}

/// What a cluster was seen to run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSummaryState {
    /// The version of its API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(spec: &Value) -> ClusterSummary {
        serde_json::from_value(json!({"metadata": {"name": "blue"}, "spec": spec})).unwrap()
    }

    #[test]
    fn addons_are_judged_by_the_release_that_runs_and_not_by_one_that_is_only_wanted() {
        let mut cluster = cluster(&json!({"kubernetesVersion": "v1.35.4"}));
        assert_eq!(cluster.kubernetes(), "v1.35.4", "it runs none yet");
        cluster.status = serde_json::from_value(json!({
            "observedState": {"kubernetesVersion": "v1.34.4"},
        }))
        .unwrap();
        assert_eq!(cluster.kubernetes(), "v1.34.4");
    }

    #[test]
    fn only_an_ingress_controller_that_is_installed_needs_an_address_from_the_start() {
        let needs = |spec: Value| cluster(&spec).needs_addresses();
        assert!(!needs(json!({})), "nobody asked for one");
        assert!(!needs(json!({"addons": {"storage": {}}})));
        assert!(needs(json!({"addons": {"ingress": {}}})));
        assert!(needs(json!({"addons": {"ingress": {"enabled": true}}})));
        assert!(!needs(json!({"addons": {"ingress": {"enabled": false}}})));
        let observed = json!({"mode": "Observe"});
        assert!(!needs(
            json!({"addons": {"ingress": {}}, "managementPolicy": observed})
        ));
    }
}
