//! Audit settings that users keep in objects of their own.

use butler_runtime::task::{self, Task};
use butler_steward::workload::state::{Progress, Rollout};
use butler_testkit::{pods::PodOptions, wait_for, wait_until_gone};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret},
};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::{
    serving::{Platform, SOON, is_ready, kubectl, platform_with},
    stage,
};

const WISH: &str = "audit: {policyConfigMapRef: {name: rules, key: policy}, \
     webhookKubeconfigSecretRef: {name: sink, key: kubeconfig}}";

fn rules(policy: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules"}, "data": {"policy": policy}})
        .to_string()
}

fn policy(level: &str) -> String {
    let rules = json!([{"level": level, "resources": [{"group": "", "resources": ["namespaces"]}]}, {"level": "None"}]);
    json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}).to_string()
}

fn sink(port: u16) -> String {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "sink",
        "contexts": [{"name": "sink", "context": {"cluster": "sink", "user": ""}}],
        "clusters": [{"name": "sink", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
    });
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sink"},
        "stringData": {"kubeconfig": kubeconfig.to_string()},
    })
    .to_string()
}

/// Takes what API servers send, and passes on whatever they say.
async fn listen() -> (u16, mpsc::UnboundedReceiver<String>, Task) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::unbounded_channel();
    let answering = task::spawn("audit sink", async move {
        let mut connections = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.push(task::spawn(
                "audit connection",
                take(stream, sender.clone()),
            ));
        }
    });
    (port, receiver, answering)
}

async fn take(mut stream: TcpStream, sender: mpsc::UnboundedSender<String>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let _ = sender.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        let _ = stream.write_all(answer).await;
    }
}

/// Waits until something with all of these words arrives.
async fn heard(receiver: &mut mpsc::UnboundedReceiver<String>, words: &[&str]) {
    let arrives = async {
        while let Some(text) = receiver.recv().await {
            if words.iter().all(|word| text.contains(word)) {
                return;
            }
        }
        panic!("nobody listens any more");
    };
    let waited = tokio::time::timeout(SOON, arrives).await;
    waited.unwrap_or_else(|_| panic!("no record with {words:?} came"));
}

async fn template(platform: &Platform) -> serde_json::Value {
    let live: Deployment = platform.home.get("blue").await;
    serde_json::to_value(live.spec.unwrap().template).unwrap()
}

#[tokio::test]
async fn audit_follows_the_objects_of_users_and_survives_what_they_break() {
    let (port, mut records, _sink) = listen().await;
    let platform = platform_with(PodOptions::default().reach(port)).await;
    let home = &platform.home;
    home.apply_yaml(&stage::with_kubernetes("blue", WISH)).await;
    stage::refused(home, "blue", "SettingsReady", "AuditPolicyNotFound").await;
    home.apply_yaml(&rules(&policy("Metadata"))).await;
    stage::refused(home, "blue", "SettingsReady", "AuditWebhookNotFound").await;
    home.apply_yaml(&sink(port)).await;
    is_ready(home, "blue").await;
    kubectl(&platform, "blue", &["create", "namespace", "first"]).await;
    heard(&mut records, &["\"first\"", "\"level\":\"Metadata\""]).await;

    // Broken, and then deleted: what runs and restarts knows nothing of it.
    let before = template(&platform).await;
    home.apply_yaml(&rules("]garbage[")).await;
    stage::refused(home, "blue", "SettingsReady", "AuditPolicyUnusable").await;
    platform
        .server
        .kubectl(&["delete", "configmap", "rules", "-n", home.name()])
        .await;
    stage::refused(home, "blue", "SettingsReady", "AuditPolicyNotFound").await;
    assert_eq!(template(&platform).await, before);
    let pods = home.api::<Pod>();
    let ours = ListParams::default().labels("steward.butlerlabs.dev/name=blue");
    let pod = pods.list(&ours).await.unwrap().items.remove(0);
    assert!(
        platform
            .pods
            .kill(home.name(), &pod.name_any(), "kube-apiserver")
    );
    wait_for(
        &pods,
        &pod.name_any(),
        "the API server to come back",
        SOON,
        |pod| {
            let states = pod
                .status
                .iter()
                .flat_map(|status| status.container_statuses.iter().flatten());
            states
                .into_iter()
                .any(|one| one.name == "kube-apiserver" && one.restart_count > 0 && one.ready)
        },
    )
    .await;
    kubectl(&platform, "blue", &["create", "namespace", "second"]).await;
    heard(&mut records, &["\"second\"", "\"level\":\"Metadata\""]).await;

    home.apply_yaml(&rules(&policy("RequestResponse"))).await;
    wait_for(
        &home.api::<Deployment>(),
        "blue",
        "another template",
        SOON,
        |live| {
            let template = live.spec.as_ref().map(|spec| &spec.template);
            serde_json::to_value(template).unwrap() != before
        },
    )
    .await;
    is_ready(home, "blue").await;
    settle(&platform, true).await;
    kubectl(&platform, "blue", &["create", "namespace", "third"]).await;
    heard(
        &mut records,
        &["\"third\"", "\"level\":\"RequestResponse\""],
    )
    .await;

    // What is not wanted any more goes, except what is the user's.
    home.apply_yaml(&stage::control_plane("blue", "")).await;
    settle(&platform, false).await;
    wait_until_gone(&home.api::<ConfigMap>(), "blue-audit-policy").await;
    wait_until_gone(&home.api::<Secret>(), "blue-audit-webhook").await;
    let _: ConfigMap = home.get("rules").await;
    let _: Secret = home.get("sink").await;
}

/// Waits until all pods are of a template that has, or has not, something about audit.
async fn settle(platform: &Platform, audited: bool) {
    let deployments = platform.home.api::<Deployment>();
    let what = format!("a complete rollout with audit={audited}");
    wait_for(&deployments, "blue", &what, SOON, |live| {
        let template = serde_json::to_string(&live.spec).unwrap();
        template.contains("audit-policy") == audited
            && Rollout::of(live).progress == Progress::Complete
    })
    .await;
}
