//! Pools, clusters and claims for the tests, and the one thing that must always hold.

use std::collections::BTreeMap;

use butler_api::butler::{
    IPAllocation, NetworkPool,
    ip_allocation::{AllocationPhase, IPAllocationStatus},
};
use butler_testkit::{PATIENCE, Server, wait_for};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Where pools and claims are.
pub(crate) const SYSTEM: &str = "butler-system";

/// A pool of ten addresses that rest for no time.
pub(crate) const TEN: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: NetworkPool
metadata: {name: ten, namespace: butler-system}
spec:
  cidr: 10.40.0.0/24
  quarantineSeconds: 0
  retainReleasedSeconds: 0
  tenantAllocation: {start: 10.40.0.1, end: 10.40.0.10}
";

pub(crate) fn cluster(name: &str) -> String {
    format!(
        "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {{name: {name}, namespace: default}}
spec: {{kubernetesVersion: v1.35.4, workers: {{replicas: 1}}}}
"
    )
}

/// A claim of cluster `shop`; `more` is added to its spec.
pub(crate) fn claim(name: &str, more: &str) -> String {
    claim_of("shop", "ten", name, more)
}

pub(crate) fn claim_of(cluster: &str, pool: &str, name: &str, more: &str) -> String {
    format!(
        "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: IPAllocation
metadata: {{name: {name}, namespace: butler-system}}
spec: {{poolRef: {{name: {pool}}}, tenantClusterRef: {{name: {cluster}, namespace: default}}, type: loadbalancer, {more}}}
"
    )
}

pub(crate) fn claims(server: &Server) -> Api<IPAllocation> {
    Api::namespaced(server.client(), SYSTEM)
}

pub(crate) fn pools(server: &Server) -> Api<NetworkPool> {
    Api::namespaced(server.client(), SYSTEM)
}

pub(crate) async fn granted(server: &Server, name: &str) -> IPAllocationStatus {
    let claim = wait_for(&claims(server), name, "its addresses", PATIENCE, |claim| {
        phase(claim) == Some(AllocationPhase::Allocated)
    })
    .await;
    claim.status.unwrap()
}

/// Waits until a claim says why it gets nothing.
pub(crate) async fn refused(server: &Server, name: &str, reason: &str) -> String {
    let what = format!("reason {reason}");
    let claim = wait_for(&claims(server), name, &what, PATIENCE, |claim| {
        claim
            .status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|held| held.reason == reason)
    })
    .await;
    claim.status.unwrap().conditions[0].message.clone()
}

pub(crate) fn phase(claim: &IPAllocation) -> Option<AllocationPhase> {
    claim.status.as_ref().and_then(|status| status.phase)
}

/// Who holds which address; nobody holds one that somebody else holds.
pub(crate) async fn holders(server: &Server) -> BTreeMap<String, String> {
    let all = claims(server)
        .list(&ListParams::default())
        .await
        .expect("a list of claims");
    let mut holders = BTreeMap::new();
    for claim in all {
        if phase(&claim) != Some(AllocationPhase::Allocated) {
            continue;
        }
        for address in &claim.status.as_ref().unwrap().addresses {
            let other = holders.insert(address.clone(), claim.name_any());
            assert_eq!(other, None, "{address} is held by {} too", claim.name_any());
        }
    }
    holders
}

/// Removes what earlier runs left: the addresses are the same in every run.
pub(crate) async fn sweep<K>(client: &Client)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let all = Api::<K>::all(client.clone())
        .list(&ListParams::default())
        .await
        .expect("a list");
    for object in all {
        let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
        let name = object.name_any();
        let _ = api.delete(&name, &DeleteParams::default()).await;
        let bare = json!({"metadata": {"finalizers": null}});
        let _ = api
            .patch(&name, &PatchParams::default(), &Patch::Merge(&bare))
            .await;
    }
}
