//! A server as tests use it: who may do what, what is served, and what the helpers say.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails where it stands, and its tasks end with it"
)]

use std::time::Duration;

use butler_testkit::{Options, Server, User, wait_for, wait_for_condition, wait_until_gone};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::json;

#[tokio::test]
async fn every_custom_resource_is_served_when_a_server_is_handed_out() {
    let server = Server::shared().await;
    let resources = server.kubectl(&["api-resources", "-o", "name"]).await;
    for resource in [
        "networkpools.butler.butlerlabs.dev",
        "clusters.cluster.x-k8s.io",
        "machinedeployments.cluster.x-k8s.io",
        "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
    ] {
        assert!(
            resources.lines().any(|line| line == resource),
            "{resource} not in\n{resources}"
        );
    }
}

#[tokio::test]
async fn cluster_api_objects_are_served_in_their_stored_version_only() {
    let server = Server::shared().await;
    let ns = server.namespace("capi").await;
    let cluster = |version: &str| {
        format!(
            "apiVersion: cluster.x-k8s.io/{version}\nkind: Cluster\nmetadata: {{name: one}}\n\
             spec: {{clusterNetwork: {{pods: {{cidrBlocks: [10.244.0.0/16]}}}}}}"
        )
    };
    ns.apply_yaml(&cluster("v1beta2")).await;
    let refused = ns.try_apply_yaml(&cluster("v1beta1")).await.unwrap_err();
    assert!(refused.to_string().contains("Cluster one"), "{refused}");
}

#[tokio::test]
async fn users_are_known_by_name_and_groups_and_bound_by_rbac() {
    let server = Server::shared().await;
    let alice = User::named("alice").in_group("platform");
    let both = [server.client_for(&alice), server.impersonate(&alice)];
    for client in both {
        let denied = Api::<Namespace>::all(client.clone())
            .get("default")
            .await
            .unwrap_err();
        assert!(
            denied.to_string().contains("User \"alice\" cannot get"),
            "{denied}"
        );
    }
    server
        .apply_yaml(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: testkit-platform-view}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: platform}]
",
        )
        .await;
    let as_alice = server.as_user(&alice);
    wait_until_allowed(&as_alice).await;
    let robot = User::service_account("kube-system", "robot");
    let denied = server
        .as_user(&robot)
        .try_apply_yaml(CONFIG)
        .await
        .unwrap_err();
    assert_eq!(denied.status().unwrap().code, 403);
}

/// RBAC follows a new binding by watch, a little after it was written.
async fn wait_until_allowed(server: &Server) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let namespaces: Api<Namespace> = Api::all(server.client());
    while let Err(denied) = namespaces.get("default").await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "still not allowed after 10 s: {denied}"
        );
        tokio::task::yield_now().await;
    }
}

const CONFIG: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {a: b}
---
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two}
";

#[tokio::test]
async fn a_text_with_several_documents_is_applied_and_read_back() {
    let server = Server::shared().await;
    let ns = server.namespace("apply").await;
    let applied = ns.apply_yaml(CONFIG).await;
    assert_eq!(
        applied
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>(),
        ["one", "two"]
    );
    let one: ConfigMap = ns.get("one").await;
    assert_eq!(one.data.unwrap()["a"], "b");
    assert_eq!(one.metadata.namespace.as_deref(), Some(ns.name()));
    let missing = ns
        .try_apply_yaml("apiVersion: v1\nkind: ConfigMap")
        .await
        .unwrap_err();
    assert_eq!(missing.to_string(), "document 1 has no metadata.name");
}

#[tokio::test]
async fn a_wait_ends_with_the_change_it_waits_for() {
    let server = Server::shared().await;
    let ns = server.namespace("wait").await;
    let api: Api<ConfigMap> = ns.api();
    let waiting = wait_for(&api, "one", "data", Duration::from_secs(20), |map| {
        map.data.is_some()
    });
    let (seen, _) = tokio::join!(waiting, ns.apply_yaml(CONFIG));
    assert_eq!(seen.data.unwrap()["a"], "b");
    let params = DeleteParams::default();
    let ((), deleted) = tokio::join!(wait_until_gone(&api, "one"), api.delete("one", &params));
    deleted.unwrap();
}

#[tokio::test]
async fn a_wait_that_times_out_says_what_it_waited_for_and_what_it_saw() {
    let server = Server::shared().await;
    let ns = server.namespace("late").await;
    ns.apply_yaml(CONFIG).await;
    let api: Api<ConfigMap> = ns.api();
    let waiting = tokio::spawn(async move {
        let soon = Duration::from_millis(500);
        wait_for(&api, "one", "a third key", soon, |map| {
            map.binary_data.is_some()
        })
        .await
    });
    let panic = waiting.await.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("waited 500ms for a third key of"),
        "{message}"
    );
    assert!(message.contains("\"a\": \"b\""), "{message}");
}

#[tokio::test]
async fn a_condition_is_awaited_on_any_kind() {
    let server = Server::shared().await;
    let ns = server.namespace("condition").await;
    let api: Api<Namespace> = Api::all(server.client());
    let condition = json!({ "type": "Ready", "status": "True", "reason": "Test", "message": "" });
    let status = json!({ "status": { "conditions": [condition] } });
    let patch = Patch::Merge(status);
    let params = PatchParams::default();
    let (seen, patched) = tokio::join!(
        wait_for_condition(&api, &ns, "Ready", "True"),
        api.patch_status(&ns, &params, &patch)
    );
    assert_eq!(seen.name_any(), patched.unwrap().name_any());
}

#[tokio::test]
async fn writes_are_counted_by_who_made_them_and_to_what() {
    let server = Server::shared().await;
    let ns = server.namespace("count").await;
    let client = server.client_called("count-test/1");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &ns);
    let mark = server.mark().await;
    for name in ["one", "two"] {
        let map = ConfigMap {
            metadata: kube::core::ObjectMeta {
                name: Some(name.into()),
                ..Default::default()
            },
            ..ConfigMap::default()
        };
        api.create(&PostParams::default(), &map).await.unwrap();
        api.create(&PostParams::default(), &map).await.unwrap_err();
    }
    api.list(&ListParams::default()).await.unwrap();
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    api.patch("one", &dry, &Patch::Merge(json!({ "data": { "c": "d" } })))
        .await
        .unwrap();
    let all = server.audit(mark).await.by_agent("count-test");
    let writes = server
        .writes(mark)
        .await
        .in_namespace(&ns)
        .by_agent("count-test");
    assert_eq!(all.count(), 6, "{all}");
    assert_eq!(writes.count(), 4, "{writes}");
    assert_eq!(
        writes
            .clone()
            .accepted()
            .of("configmaps")
            .by_user("testkit-admin")
            .count(),
        2
    );
    assert!(writes.to_string().contains("configmaps"), "{writes}");
}

#[tokio::test]
async fn a_list_can_be_streamed_by_a_watch() {
    let server = Server::shared().await;
    let ns = server.namespace("stream").await;
    ns.apply_yaml(CONFIG).await;
    let mark = server.mark().await;
    let config = watcher::Config::default().streaming_lists();
    let events = watcher(ns.api::<ConfigMap>(), config).take(4);
    let events: Vec<_> = events.try_collect().await.unwrap();
    assert!(matches!(events[3], watcher::Event::InitDone), "{events:?}");
    let lists = server
        .audit(mark)
        .await
        .in_namespace(&ns)
        .only(|event| event.verb == "list");
    assert_eq!(lists.count(), 0, "{lists}");
}

#[tokio::test]
async fn the_controller_manager_makes_namespaces_vanish_and_collects_garbage() {
    let server = Server::start(Options::default().with_controller_manager())
        .await
        .unwrap();
    let ns = server.namespace("gone").await;
    let source = ns.apply_yaml(CONFIG).await.remove(0);
    let owned = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "owned", "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": source.uid().unwrap(),
        }]},
    });
    ns.apply_yaml(&owned.to_string()).await;
    let api: Api<ConfigMap> = ns.api();
    api.delete("one", &DeleteParams::default()).await.unwrap();
    wait_until_gone(&api, "owned").await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    let name = ns.name().to_owned();
    drop(ns);
    wait_until_gone(&namespaces, &name).await;
}
