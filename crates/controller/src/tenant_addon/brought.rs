//! What a cluster has without an addon: the pod network and the load balancer of its provider. Pure.

use butler_api::butler::{
    ProviderConfig,
    addon_definition::AddonCategory,
    tenant_cluster::{CniProvider, LoadBalancerProvider},
};
use butler_capi::addons::{default_cni, default_load_balancer};

use crate::slim::ClusterSummary;

/// Whether a cluster brings what addons of this category are for. Everything else in the catalogue is there only where
/// somebody asks for it, whoever it belongs to.
pub(super) fn brings(
    cluster: &ClusterSummary,
    provider: Option<&ProviderConfig>,
    category: AddonCategory,
) -> bool {
    let addons = &cluster.spec.addons;
    match category {
        AddonCategory::Cni => {
            let said = addons.cni.as_ref().and_then(|said| said.provider);
            said.or_else(|| provider.map(default_cni)) == Some(CniProvider::Local)
        }
        AddonCategory::Loadbalancer => {
            let said = addons.load_balancer.clone().unwrap_or_default();
            let chosen = said.provider;
            let chosen = chosen.or_else(|| provider.map(default_load_balancer));
            // Whoever switches it off sees to addresses in another way.
            said.enabled == Some(false) || chosen == Some(LoadBalancerProvider::Local)
        }
        AddonCategory::Storage
        | AddonCategory::Certmanager
        | AddonCategory::Ingress
        | AddonCategory::Observability
        | AddonCategory::Backup
        | AddonCategory::Gitops
        | AddonCategory::Security
        | AddonCategory::Dns
        | AddonCategory::Database
        | AddonCategory::Messaging
        | AddonCategory::ServiceMesh
        | AddonCategory::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(addons: &Value) -> ClusterSummary {
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"addons": addons}}))
            .unwrap()
    }

    fn provider(spec: &Value) -> ProviderConfig {
        ProviderConfig::new("p", serde_json::from_value(spec.clone()).unwrap())
    }

    #[test]
    fn a_cluster_brings_the_network_and_the_addresses_of_its_provider_and_nothing_else() {
        let silent = cluster(&json!({}));
        let (local, cloud, vms) = (
            provider(&json!({"provider": "local"})),
            provider(&json!({"provider": "aws"})),
            provider(&json!({"provider": "proxmox"})),
        );
        let cases = [
            (&local, AddonCategory::Cni, true),
            (&local, AddonCategory::Loadbalancer, true),
            (&local, AddonCategory::Certmanager, false),
            (&cloud, AddonCategory::Cni, false),
            (&cloud, AddonCategory::Loadbalancer, true),
            (&vms, AddonCategory::Cni, false),
            (&vms, AddonCategory::Loadbalancer, false),
            (&vms, AddonCategory::Storage, false),
        ];
        for (provider, category, expected) in cases {
            let found = brings(&silent, Some(provider), category);
            assert_eq!(found, expected, "{:?} {category:?}", provider.spec.provider);
        }
    }

    #[test]
    fn a_cluster_that_chooses_for_itself_is_believed() {
        let own = cluster(&json!({
            "cni": {"provider": "cilium"}, "loadBalancer": {"provider": "metallb"},
        }));
        let local = provider(&json!({"provider": "local"}));
        for category in [AddonCategory::Cni, AddonCategory::Loadbalancer] {
            assert!(!brings(&own, Some(&local), category));
        }
        let off = cluster(&json!({"loadBalancer": {"enabled": false}}));
        let vms = provider(&json!({"provider": "proxmox"}));
        assert!(brings(&off, Some(&vms), AddonCategory::Loadbalancer));
    }
}
