//! Machines that no bootstrap provider tells how to join: Butler tells them, with tokens that the tenant knows.

use std::collections::BTreeMap;

use butler_api::butler::TenantCluster;
use butler_runtime::clock::{Clock as _, SystemClock};
use butler_testkit::{PATIENCE, Server, wait_for};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    DEMO, clock, clusters,
    driver::{self, Driver, object},
    sources::{nutanix, set_password},
    stage,
};

/// A kind of the provider, as loose as can be.
pub(crate) async fn install(server: &Server, kind: &str) {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    install_with(server, kind, &anything).await;
}

/// A kind of the provider, with a schema.
pub(crate) async fn install_with(server: &Server, kind: &str, schema: &Value) {
    let singular = kind.to_lowercase();
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": schema});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.infrastructure.cluster.x-k8s.io")},
        "spec": {
            "group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
            "versions": [version("v1alpha1", false), version("v1beta1", true)],
        },
    });
    server.apply_yaml(&crd.to_string()).await;
}

fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.clone().unwrap_or_default();
    let held = data.get(key).cloned().unwrap_or_default();
    String::from_utf8(held.0).unwrap()
}

/// The namespace of a cluster, as soon as it has one.
pub(crate) async fn home(clusters: &Api<TenantCluster>) -> String {
    let has_home = |demo: &TenantCluster| {
        let status = demo.status.as_ref();
        status.is_some_and(|status| status.tenant_namespace.is_some())
    };
    let demo = wait_for(clusters, "demo", "its namespace", PATIENCE, has_home).await;
    demo.status.unwrap().tenant_namespace.unwrap()
}

/// What Steward would have written: the same server stands in for the tenant's.
pub(crate) async fn play_steward(server: &Server, home: &str) {
    let trusted = server.config().root_cert.unwrap();
    let authority = butler_pki::Certificate::from_der(&trusted[0]).unwrap();
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let held: [(&str, Value); 2] = [
        ("demo-ca", json!({"tls.crt": authority.to_pem()})),
        ("demo-admin-kubeconfig", json!({"admin.conf": kubeconfig})),
    ];
    for (name, data) in held {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": data,
            "metadata": {"name": name, "namespace": home},
        });
        server.apply_yaml(&secret.to_string()).await;
    }
}

async fn tokens(server: &Server) -> BTreeMap<String, Secret> {
    let secrets: Api<Secret> = Api::namespaced(server.client(), "kube-system");
    let listed = secrets.list(&ListParams::default()).await.unwrap().items;
    let is_token =
        |secret: &Secret| secret.type_.as_deref() == Some("bootstrap.kubernetes.io/token");
    let tokens = listed.into_iter().filter(is_token);
    tokens.map(|secret| (secret.name_any(), secret)).collect()
}

async fn told(server: &Server, home: &str) -> Secret {
    let pool = object(server, home, "MachineDeployment", "demo-workers").await;
    let pool = pool.unwrap();
    let name = &pool["spec"]["template"]["spec"]["bootstrap"]["dataSecretName"];
    let secrets: Api<Secret> = Api::namespaced(server.client(), home);
    secrets.get(name.as_str().unwrap()).await.unwrap()
}

/// Somebody touches the cluster, so that it is looked at now.
pub(crate) async fn look(clusters: &Api<TenantCluster>, at: &str) {
    let touch = json!({"metadata": {"annotations": {"example.com/look": at}}});
    let (parameters, change) = (PatchParams::default(), Patch::Merge(&touch));
    clusters.patch("demo", &parameters, &change).await.unwrap();
}

#[tokio::test]
async fn machines_are_told_a_token_that_the_tenant_knows_and_it_is_renewed_in_place() {
    let server = nutanix().await;
    set_password(&server, "secret").await;
    let (clock, _controllers) = clock::run(&server);
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-j"))
        .await;
    let clusters = clusters(&server, "team-j");
    let os = json!({"spec": {"workers": {"machineTemplate": {"os": {"type": "talos"}}}}});
    let (parameters, change) = (PatchParams::default(), Patch::Merge(&os));
    clusters.patch("demo", &parameters, &change).await.unwrap();
    let home = home(&clusters).await;
    play_steward(&server, &home).await;
    // Steward would have written these before it said that it serves: look now, not in half a minute.
    look(&clusters, "now").await;

    let secrets: Api<Secret> = Api::namespaced(server.client(), &home);
    let kept = wait_for(&secrets, "demo-join", "a token", PATIENCE, |_| true).await;
    let token = text(&kept, "token");
    let (id, secret) = token.split_once('.').unwrap();
    let known = tokens(&server).await;
    let known = &known[&format!("bootstrap-token-{id}")];
    assert_eq!(text(known, "token-secret"), secret);
    wait_for(&clusters, "demo", "two workers", PATIENCE, |demo| {
        let status = demo.status.as_ref();
        status.is_some_and(|status| status.worker_nodes_ready == Some(2))
    })
    .await;
    let before = told(&server, &home).await;
    assert!(text(&before, "value").contains(&token));
    let trust = secrets.get("demo-trustd-creds").await.unwrap();
    assert!(text(&before, "value").contains(&text(&trust, "token")));
    assert!(!text(&before, "value").contains("PRIVATE"));

    // Somebody deletes it in the tenant, and it is told again when it is next looked after.
    let system: Api<Secret> = Api::namespaced(server.client(), "kube-system");
    let known = format!("bootstrap-token-{id}");
    let gone = system.delete(&known, &DeleteParams::default()).await;
    gone.unwrap();
    look(&clusters, "too early").await;
    clock.put(SignedDuration::from_mins(16));
    look(&clusters, "in time").await;
    let again = wait_for(&system, &known, "the same token", PATIENCE, |_| true).await;
    assert_eq!(text(&again, "token-secret"), secret);

    // Most of its life is over.
    let soon = SystemClock.now() + SignedDuration::from_hours(1);
    let change = json!({"stringData": {"expires": soon.to_string()}});
    let (parameters, change) = (PatchParams::default(), Patch::Merge(&change));
    secrets
        .patch("demo-join", &parameters, &change)
        .await
        .unwrap();
    let renewed = wait_for(&secrets, "demo-join", "another token", PATIENCE, |kept| {
        text(kept, "token") != token
    })
    .await;
    let fresh = text(&renewed, "token");
    wait_for(
        &secrets,
        &before.name_any(),
        "the new token",
        PATIENCE,
        |told| text(told, "value").contains(&fresh),
    )
    .await;
    assert_eq!(told(&server, &home).await.name_any(), before.name_any());
    // A machine that joins right now is not disturbed.
    assert_eq!(tokens(&server).await.len(), 2);
    let trusted = secrets.get("demo-trustd-creds").await.unwrap();
    assert_eq!(trusted.data, trust.data);
}

#[tokio::test]
async fn a_node_that_nobody_named_gets_the_id_of_the_machine_with_its_address() {
    let server = nutanix().await;
    set_password(&server, "secret").await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-n"))
        .await;
    let clusters = clusters(&server, "team-n");
    let home = home(&clusters).await;
    play_steward(&server, &home).await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-of-demo"},
    });
    server.apply_yaml(&node.to_string()).await;
    let nodes: Api<Node> = Api::all(server.client());
    let address =
        json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.40.7.7"}]}});
    let parameters = PatchParams::default();
    nodes
        .patch_status("worker-of-demo", &parameters, &Patch::Merge(&address))
        .await
        .unwrap();
    // A machine that the provider has made, and whose Node nobody has found.
    let machines = driver::api(&server, &home, "Machine");
    driver::until(&server, &home, "Machine", "demo-workers-0", |_| true).await;
    let like = object(&server, &home, "Machine", "demo-workers-0").await;
    let like = like.unwrap();
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "lost", "namespace": home, "labels": like["metadata"]["labels"]},
        "spec": like["spec"],
    });
    machine["spec"]["providerID"] = json!("nutanix://7");
    server.apply_yaml(&machine.to_string()).await;
    machines
        .patch_status("lost", &parameters, &Patch::Merge(&address))
        .await
        .unwrap();
    let named = wait_for(
        &nodes,
        "worker-of-demo",
        "its id",
        PATIENCE,
        |node: &Node| {
            let spec = node.spec.as_ref();
            spec.is_some_and(|spec| spec.provider_id.is_some())
        },
    )
    .await;
    let id = named.spec.unwrap().provider_id;
    assert_eq!(id.as_deref(), Some("nutanix://7"));
}
