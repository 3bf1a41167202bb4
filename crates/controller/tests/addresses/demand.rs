//! A cluster whose addresses follow the Services inside it. The tenant is a second API server.

use std::sync::{Arc, Mutex, PoisonError};

use butler_api::butler::{IPAllocation, TenantCluster};
use butler_runtime::{
    clock::{Clock, SharedClock, SystemClock},
    metrics::Metrics,
    task::{self, Task},
};
use butler_testkit::{Options, PATIENCE, Server};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    scene::{TEN, claims, cluster, phase, pools},
    stage,
};

/// The machine's clock, put forward by the test.
struct Ahead(Mutex<SignedDuration>);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let ahead = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        SystemClock.now().saturating_add(ahead).unwrap()
    }
}

/// The platform, its controllers, and a tenant.
struct Stage {
    platform: Server,
    tenant: Server,
    clock: Arc<Ahead>,
    _controllers: Task,
}

fn provider(more: &str) -> String {
    format!(
        "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {{name: default, namespace: butler-system}}
spec: {{provider: local, network: {{mode: ipam, poolRefs: [{{name: ten}}], {more}}}}}
"
    )
}

const ELASTIC: &str = "loadBalancer: {allocationMode: elastic, growthIncrement: 2}, quotaPerTenant: {maxLoadBalancerIPs: 4}";

impl Stage {
    /// A cluster `shop` without an ingress controller, Ready, that can be looked into.
    async fn start(network: &str) -> Self {
        let platform = stage::server(Options::default()).await;
        let tenant = Server::start(Options::default()).await.expect("a tenant");
        let clock = Arc::new(Ahead(Mutex::default()));
        let shared: SharedClock = Arc::<Ahead>::clone(&clock);
        let client = platform.client_for(&stage::controller_user());
        let work = stage::work_at(client, Metrics::default(), shared);
        let stage = Self {
            _controllers: task::spawn("controllers", work),
            platform,
            tenant,
            clock,
        };
        stage.platform.apply_yaml(TEN).await;
        stage.platform.apply_yaml(&provider(network)).await;
        let quiet =
            cluster("shop").replace("spec: {", "spec: {addons: {ingress: {enabled: false}}, ");
        stage.platform.apply_yaml(&quiet).await;
        let kubeconfig = std::fs::read_to_string(stage.tenant.kubeconfig()).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-admin-kubeconfig", "namespace": "default"},
            "stringData": {"admin.conf": kubeconfig},
        });
        stage.platform.apply_yaml(&secret.to_string()).await;
        let status = json!({"status": {
            "phase": "Ready", "tenantNamespace": "default", "kubeconfigSecretRef": {"name": "shop-admin-kubeconfig"},
        }});
        let clusters: Api<TenantCluster> = Api::namespaced(stage.platform.client(), "default");
        let params = PatchParams::default();
        clusters
            .patch_status("shop", &params, &Patch::Merge(&status))
            .await
            .unwrap();
        stage
    }

    /// Puts the clock forward, and has the cluster looked at.
    async fn later(&self, seconds: i64) {
        {
            let mut ahead = self.clock.0.lock().unwrap_or_else(PoisonError::into_inner);
            *ahead += SignedDuration::from_secs(seconds);
        }
        let clusters: Api<TenantCluster> = Api::namespaced(self.platform.client(), "default");
        let touched =
            json!({"metadata": {"annotations": {"touched": self.clock.now().to_string()}}});
        clusters
            .patch("shop", &PatchParams::default(), &Patch::Merge(&touched))
            .await
            .unwrap();
    }

    async fn service(&self, name: &str, spec: &str) {
        let text = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: default}}, \
             spec: {{type: LoadBalancer, ports: [{{port: 80}}], {spec}}}}}"
        );
        self.tenant.apply_yaml(&text).await;
    }

    /// What the load balancer of the tenant would do.
    async fn serve(&self, name: &str, ip: &str) {
        let services: Api<Service> = Api::namespaced(self.tenant.client(), "default");
        let given = json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}});
        services
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&given))
            .await
            .unwrap();
    }

    /// Waits for the claims of the cluster to be so, and all of them granted.
    async fn until(&self, what: &str, done: impl Fn(&[IPAllocation]) -> bool) -> Vec<IPAllocation> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let all = claims(&self.platform).list(&ListParams::default()).await;
            let mut all = all.expect("a list of claims").items;
            all.sort_by_key(ResourceExt::name_any);
            if done(&all) {
                return all;
            }
            let seen: Vec<_> = all
                .iter()
                .map(|claim| (claim.name_any(), phase(claim)))
                .collect();
            assert!(
                tokio::time::Instant::now() < deadline,
                "waited {PATIENCE:?} for {what}: {seen:?}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

fn granted(claims: &[IPAllocation], counts: &[i32]) -> bool {
    let given: Vec<i32> = claims
        .iter()
        .filter_map(|claim| claim.status.as_ref()?.allocated_count)
        .collect();
    given == counts
}

#[tokio::test]
async fn an_elastic_cluster_starts_with_nothing_grows_with_its_services_and_gives_back_what_it_does_not_use()
 {
    let stage = Stage::start(ELASTIC).await;
    stage.service("web", "").await;
    stage
        .service("other", "loadBalancerClass: example.com/other")
        .await;
    // The tenant was seen, and its Service is too young: the provider's figures are there and no claim is.
    stage.later(5).await;
    let first = stage.until("nothing", <[IPAllocation]>::is_empty).await;
    assert!(first.is_empty());
    stage.later(40).await;
    let grown = stage.until("two addresses", |all| granted(all, &[2])).await;
    let name = grown[0].name_any();
    assert!(name.starts_with("lb-") && name.ends_with("-1"), "{name}");

    // Both are used, two more Services come, and the share of four is used up.
    stage.serve("web", "10.40.0.1").await;
    stage.service("api", "").await;
    stage.serve("api", "10.40.0.2").await;
    for name in ["more", "evenmore", "toomuch"] {
        stage.service(name, "").await;
    }
    stage.later(40).await;
    stage
        .until("its whole share", |all| granted(all, &[2, 2]))
        .await;
    stage.serve("more", "10.40.0.3").await;
    stage.serve("evenmore", "10.40.0.4").await;
    stage.later(40).await;
    let told = async {
        loop {
            let events = stage
                .platform
                .kubectl(&[
                    "get",
                    "events",
                    "-n",
                    "default",
                    "-o",
                    "jsonpath={.items[*].message}{.items[*].note}",
                ])
                .await;
            if events.contains("all it may have") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told)
        .await
        .expect("a word about the share");
    assert_eq!(
        claims(&stage.platform)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );

    // The later block is not used any more: noted first, given back ten minutes after.
    let services: Api<Service> = Api::namespaced(stage.tenant.client(), "default");
    for name in ["more", "evenmore", "toomuch"] {
        services
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    stage.later(1).await;
    stage
        .until("a note of what is unused", |all| {
            all.iter().any(|claim| {
                claim
                    .annotations()
                    .contains_key("butler.butlerlabs.dev/unused-since")
            })
        })
        .await;
    stage.later(601).await;
    let left = stage.until("one claim", |all| all.len() == 1).await;
    assert_eq!(left[0].name_any(), name);
    butler_testkit::wait_for(
        &pools(&stage.platform),
        "ten",
        "eight free addresses",
        PATIENCE,
        |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(8))
        },
    )
    .await;
}

#[tokio::test]
async fn a_static_cluster_gets_its_number_once_whatever_its_services_want() {
    let stage = Stage::start("loadBalancer: {defaultPoolSize: 3}").await;
    stage
        .until("three addresses", |all| granted(all, &[3]))
        .await;
    for name in ["a", "b", "c", "d", "e"] {
        stage.service(name, "").await;
    }
    stage.later(90).await;
    // A second cluster is served by the same passes, so the first one was looked at.
    stage.platform.apply_yaml(&cluster("farm")).await;
    stage
        .until("three addresses for each", |all| granted(all, &[3, 3]))
        .await;
}

#[tokio::test]
async fn a_tenant_that_does_not_answer_keeps_what_it_has() {
    let stage = Stage::start(ELASTIC).await;
    stage.service("web", "").await;
    stage.later(40).await;
    stage.until("two addresses", |all| granted(all, &[2])).await;
    // The Secret is gone: nobody can tell whether the addresses are used. The Service stays: a look that has begun may
    // still be answered, and would tell that it went.
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(stage.platform.client(), "default");
    secrets
        .delete("shop-admin-kubeconfig", &DeleteParams::default())
        .await
        .unwrap();
    stage.later(2_000).await;
    stage
        .platform
        .apply_yaml(&cluster("farm").replace("spec: {", "spec: {networking: {lbPoolSize: 1}, "))
        .await;
    let all = stage
        .until("another cluster's address", |all| all.len() == 2)
        .await;
    for claim in &all {
        let noted = claim
            .annotations()
            .contains_key("butler.butlerlabs.dev/unused-since");
        assert!(
            !noted && claim.metadata.deletion_timestamp.is_none(),
            "{claim:?}"
        );
    }
}
