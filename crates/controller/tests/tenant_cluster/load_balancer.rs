//! The addresses that a tenant's `MetalLB` announces: those of the cluster's spec, or those that were drawn for it.

use butler_api::butler::IPAllocation;
use butler_testkit::{PATIENCE, wait_for, wait_until_gone};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::addons::Scene;

pub(crate) fn api(scene: &Scene, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("metallb.io", "v1beta1", kind);
    let resource = ApiResource::from_gvk(&gvk);
    Api::namespaced_with(scene.server.client(), "metallb-system", &resource)
}

pub(crate) async fn announces(pools: &Api<DynamicObject>, ranges: &[&str]) {
    let what = format!("to have {ranges:?}");
    wait_for(pools, "butler", &what, PATIENCE, |pool| {
        pool.data["spec"]["addresses"] == json!(ranges)
    })
    .await;
}

/// The two kinds of `MetalLB` that are written.
pub(crate) fn metallb_kinds() -> String {
    let kind = |plural: &str, kind: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.metallb.io")},
            "spec": {
                "group": "metallb.io", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}}}],
            },
        })
    };
    let (pools, advertisements) = (
        kind("ipaddresspools", "IPAddressPool"),
        kind("l2advertisements", "L2Advertisement"),
    );
    format!("{pools}\n---\n{advertisements}")
}

#[tokio::test]
async fn a_load_balancer_has_the_addresses_of_the_cluster_and_none_once_they_are_taken_back() {
    let scene = Scene::new("team-t").await;
    scene.server.apply_yaml(&metallb_kinds()).await;
    scene.define("metallb", "loadbalancer", &json!({})).await;
    let _controllers = scene.run();
    let balancer = json!({"provider": "metallb", "addressPool": "10.40.1.0-10.40.1.50"});
    scene
        .make(&json!({"addons": {"loadBalancer": balancer}}))
        .await;
    scene.until("Ready", "True", "Ready").await;
    let pools = api(&scene, "IPAddressPool");
    announces(&pools, &["10.40.1.0-10.40.1.50"]).await;
    let advertisement = api(&scene, "L2Advertisement").get("butler").await;
    let advertisement = advertisement.unwrap();
    assert_eq!(
        advertisement.data["spec"]["ipAddressPools"],
        json!(["butler"])
    );
    let pool = |pool: Value| json!({"spec": {"addons": {"loadBalancer": {"addressPool": pool}}}});
    scene.change(pool(json!("10.40.2.0/28"))).await;
    announces(&pools, &["10.40.2.0/28"]).await;
    scene.change(pool(Value::Null)).await;
    wait_until_gone(&pools, "butler").await;
}

/// A provider whose clusters start with three addresses of a pool.
pub(crate) const PROVIDER: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec:
  provider: local
  network: {mode: ipam, poolRefs: [{name: ten}], loadBalancer: {defaultPoolSize: 3}}
";

/// The pool, with addresses from 10.40.0.1 to this one, which rest for no time.
pub(crate) fn pool(end: &str) -> String {
    json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "NetworkPool",
        "metadata": {"name": "ten", "namespace": "butler-system"},
        "spec": {
            "cidr": "10.40.0.0/24", "quarantineSeconds": 0, "retainReleasedSeconds": 0,
            "tenantAllocation": {"start": "10.40.0.1", "end": end},
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_load_balancer_has_what_was_drawn_for_its_cluster_and_loses_what_is_given_back() {
    let scene = Scene::new("team-u").await;
    scene.server.apply_yaml(&metallb_kinds()).await;
    scene.server.apply_yaml(&pool("10.40.0.10")).await;
    scene.server.apply_yaml(PROVIDER).await;
    scene.define("metallb", "loadbalancer", &json!({})).await;
    let _controllers = scene.run();
    let asked = json!({"addons": {"loadBalancer": {"provider": "metallb"}}});
    scene.make(&asked).await;
    let demo = scene.until("Ready", "True", "Ready").await;
    let pools = api(&scene, "IPAddressPool");
    announces(&pools, &["10.40.0.1-10.40.0.3"]).await;

    // Another block that was drawn for it.
    let claims: Api<IPAllocation> = Api::namespaced(scene.server.client(), "butler-system");
    let more = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "IPAllocation",
        "metadata": {"name": "more", "namespace": "butler-system",
            "labels": {"butler.butlerlabs.dev/owner-uid": demo.uid().unwrap()}},
        "spec": {"poolRef": {"name": "ten"}, "type": "loadbalancer", "count": 2,
            "tenantClusterRef": {"name": "demo", "namespace": "team-u"}},
    });
    scene.server.apply_yaml(&more.to_string()).await;
    announces(&pools, &["10.40.0.1-10.40.0.3", "10.40.0.4-10.40.0.5"]).await;
    let none = DeleteParams::default();
    claims.delete("more", &none).await.unwrap();
    announces(&pools, &["10.40.0.1-10.40.0.3"]).await;

    // With the cluster goes what was drawn for it, and nothing else.
    let gone = scene.clusters().delete("demo", &none).await;
    gone.unwrap();
    wait_until_gone(&scene.clusters(), "demo").await;
    let own = format!("butler.butlerlabs.dev/owner-uid={}", demo.uid().unwrap());
    let own = ListParams::default().labels(&own);
    for claim in claims.list(&own).await.unwrap() {
        wait_until_gone(&claims, &claim.name_any()).await;
    }
}
