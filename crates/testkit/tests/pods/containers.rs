//! What containers find, and what happens when they end.

use std::time::Duration;

use butler_testkit::{PodOptions, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};

use crate::support::{LONG, container, world};

/// A pod that runs kubectl once.
fn kubectl(name: &str, arguments: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
    - name: kubectl
      image: registry.example/kubectl:v1.35.4
      args: {arguments}
      workingDir: /etc/access/deep
      env: [{{name: HOME, value: /tmp}}]
      volumeMounts: [{{name: access, mountPath: /etc/access, readOnly: true}}]
  volumes:
    - name: access
      secret: {{secretName: access, items: [{{key: value, path: deep/kubeconfig}}]}}
"
    )
}

#[tokio::test]
async fn a_pod_finds_its_secret_and_reaches_only_the_ports_it_may() {
    let server =
        butler_testkit::Server::start(butler_testkit::Options::default().with_controller_manager())
            .await
            .unwrap();
    let port = server
        .url()
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let pods = butler_testkit::Pods::start(&server, PodOptions::default().reach(port))
        .await
        .unwrap();
    let ns = server.namespace("pods").await;
    ns.apply_yaml(&kubectl(
        "names",
        "[--kubeconfig=kubeconfig, get, namespace, -o, name]",
    ))
    .await;
    let api: Api<Pod> = ns.api();
    wait_for(&api, "names", "its lack of a Secret", LONG, |pod| {
        let state = container(pod, "kubectl").and_then(|it| it.state?.waiting?.message);
        state.is_some_and(|it| it.contains("Secret \"access\" not found"))
    })
    .await;
    let kubeconfig = server.kubeconfig().display().to_string();
    let file = format!("--from-file=value={kubeconfig}");
    server
        .kubectl(&["create", "secret", "generic", "access", "-n", &ns, &file])
        .await;
    wait_for(&api, "names", "its end", LONG, |pod| {
        phase(pod) == "Succeeded"
    })
    .await;
    let logs = pods.logs(&ns, "names", "kubectl");
    assert!(logs.contains("namespace/kube-system"), "{logs}");

    ns.apply_yaml(&kubectl(
        "lost",
        "[--kubeconfig=kubeconfig, --server=https://127.0.0.1:1, get, namespace]",
    ))
    .await;
    wait_for(&api, "lost", "its failure", LONG, |pod| {
        phase(pod) == "Failed"
    })
    .await;
    let logs = pods.logs(&ns, "lost", "kubectl");
    assert!(logs.contains("refused"), "{logs}");
    for name in ["names", "lost"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        wait_until_gone(&api, name).await;
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

const CRASHING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: crashing}
spec:
  containers:
    - {name: bad, image: 'registry.example/etcd:v3.6.16', args: [--no-such-flag]}
    - {name: none, image: 'registry.example/etcd:v9.9.9'}
";

#[tokio::test]
async fn a_crashing_container_is_restarted_with_back_off_and_an_unknown_image_is_named() {
    let (_server, pods, ns) =
        world(PodOptions::default().back_off(Duration::from_millis(300))).await;
    ns.apply_yaml(CRASHING).await;
    let api: Api<Pod> = ns.api();
    let waits = |pod: &Pod, name: &str, reason: &str| {
        let waiting = container(pod, name).and_then(|it| it.state?.waiting?.reason);
        waiting.as_deref() == Some(reason)
    };
    let pod = wait_for(&api, "crashing", "three restarts", LONG, |pod| {
        let restarts = container(pod, "bad").map_or(0, |it| it.restart_count);
        restarts >= 3 && waits(pod, "bad", "CrashLoopBackOff") && waits(pod, "none", "ErrImagePull")
    })
    .await;
    let last = container(&pod, "bad")
        .unwrap()
        .last_state
        .unwrap()
        .terminated
        .unwrap();
    assert_ne!(last.exit_code, 0);
    assert!(pods.logs(&ns, "crashing", "bad").contains("no-such-flag"));
    let deleting = std::time::Instant::now();
    api.delete("crashing", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&api, "crashing").await;
    assert!(deleting.elapsed() < Duration::from_secs(5));
}

/// An API server with an etcd beside it that must serve first.
const CONTROL_PLANE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: plane}
spec:
  terminationGracePeriodSeconds: 10
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532}
  initContainers:
    - name: once
      image: registry.example/kubectl:v1.35.4
      args: [version, --client]
    - name: etcd
      restartPolicy: Always
      image: registry.example/etcd:v3.6.16
      args: [--data-dir=/data, --unsafe-no-fsync, --name=it]
      env:
        - {name: ETCD_LISTEN_CLIENT_URLS, value: 'http://0.0.0.0:2379'}
        - {name: ETCD_ADVERTISE_CLIENT_URLS, value: 'http://127.0.0.1:2379'}
      startupProbe: {tcpSocket: {port: 2379}, periodSeconds: 1, failureThreshold: 30}
      livenessProbe: {exec: {command: [etcd, --version]}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 5}
      lifecycle: {preStop: {exec: {command: [etcd, --help]}}}
      volumeMounts: [{name: data, mountPath: /data}]
  containers:
    - name: kube-apiserver
      image: registry.example/deep/path/kube-apiserver:v1.34.4
      command: [kube-apiserver]
      args:
        - --etcd-servers=http://127.0.0.1:2379
        - --cert-dir=/tmp
        - --advertise-address=$(POD_IP)
        - --service-account-issuer=https://kubernetes.default.svc
        - --service-account-key-file=/etc/kubernetes/pki/sa.pub
        - --service-account-signing-key-file=/etc/kubernetes/pki/sa.key
        - --service-cluster-ip-range=10.96.0.0/12
        - --authorization-mode=RBAC
      env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
      ports: [{containerPort: 6443}]
      securityContext: {readOnlyRootFilesystem: true}
      livenessProbe: {httpGet: {path: /livez, port: 6443, scheme: HTTPS}, initialDelaySeconds: 5}
      readinessProbe: {httpGet: {path: /readyz, port: 6443, scheme: HTTPS}, periodSeconds: 1}
      volumeMounts:
        - {name: keys, mountPath: /etc/kubernetes/pki}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - {name: data, emptyDir: {}}
    - {name: tmp, emptyDir: {}}
    - name: keys
      projected: {sources: [{secret: {name: keys}}]}
";

#[tokio::test]
async fn an_api_server_starts_after_its_sidecar_and_survives_a_crash() {
    let (server, pods, ns) = world(PodOptions::default()).await;
    let [key, public] = ["sa.key", "sa.pub"]
        .map(|name| format!("--from-file={}", server.folder().join(name).display()));
    let secret = [
        "create", "secret", "generic", "keys", "-n", &ns, &key, &public,
    ];
    server.kubectl(&secret).await;
    let began = std::time::Instant::now();
    ns.apply_yaml(CONTROL_PLANE).await;
    let api: Api<Pod> = ns.api();
    wait_for_condition(&api, "plane", "Ready", "True").await;
    println!("ready after {:?}", began.elapsed());
    assert!(pods.logs(&ns, "plane", "once").contains("v1.35.4"));
    assert!(pods.kill(&ns, "plane", "kube-apiserver"));
    let restarted = |pod: &Pod| {
        container(pod, "kube-apiserver").is_some_and(|it| it.restart_count == 1 && it.ready)
    };
    wait_for(&api, "plane", "its restart", LONG, restarted).await;
    api.delete("plane", &DeleteParams::default()).await.unwrap();
    wait_until_gone(&api, "plane").await;
    let logs = pods.logs(&ns, "plane", "etcd");
    assert!(
        logs.contains("etcd Version: 3.6.16"),
        "no probe ran:\n{logs}"
    );
    assert!(logs.contains("--data-dir"), "the hook did not run:\n{logs}");
}
