//! The command lines and files of etcd, kube-apiserver and kube-controller-manager.
//!
//! Pure text: nothing is started here.

use std::path::Path;

use serde_json::json;

/// Addresses of Services; nothing answers there, but the API server hands them out.
const SERVICE_RANGE: &str = "10.96.0.0/12";

/// What the audit log leaves out: the server's own housekeeping and probes.
pub(crate) const AUDIT_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
omitManagedFields: true
rules:
  - level: None
    users: ["system:apiserver", "system:anonymous"]
  - level: None
    nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
  - level: Metadata
"#;

/// etcd on a socket in the folder: no port to collide on, and nobody else may open it.
pub(crate) fn etcd(folder: &Path) -> Vec<String> {
    let socket = |name: &str| format!("unix://{}", folder.join(name).display());
    vec![
        "--name=testkit".to_owned(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={}", socket("etcd.sock")),
        format!("--listen-peer-urls={}", socket("peer.sock")),
        // Only other members and moving clients would read the advertised addresses; there are none,
        // and a socket is not accepted here.
        "--advertise-client-urls=http://127.0.0.1:1".to_owned(),
        "--initial-advertise-peer-urls=http://127.0.0.1:1".to_owned(),
        "--initial-cluster=testkit=http://127.0.0.1:1".to_owned(),
        // The data dies with the folder: a lost write after a power cut harms nobody.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// The API server with RBAC and an audit log.
pub(crate) fn kube_apiserver(folder: &Path, port: u16, controller_manager: bool) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut arguments = vec![
        format!("--etcd-servers=unix://{}", file("etcd.sock")),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        // One file: readers keep an offset into it.
        "--audit-log-maxsize=100000".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        // Tests of many controllers share one server; fairness between them would only add queues.
        "--enable-priority-and-fairness=false".to_owned(),
        "--max-requests-inflight=2000".to_owned(),
        "--max-mutating-requests-inflight=1000".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    if !controller_manager {
        // Nobody makes the `default` service account of a namespace then, and pods could not be created.
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    arguments
}

/// Every controller of Kubernetes itself; garbage collection and namespaces are why tests want it.
pub(crate) fn kube_controller_manager(folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file("kubeconfig")),
        format!("--service-account-private-key-file={}", file("sa.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        "--use-service-account-credentials=true".to_owned(),
        // Alone: waiting for the lease of a killed predecessor would take seconds.
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        // Nobody sends heartbeats for the nodes of a test; their pods must not be evicted for that.
        "--controllers=*,-node-lifecycle-controller".to_owned(),
    ]
}

/// A kubeconfig with embedded certificates, so that it works wherever it is copied.
pub(crate) fn kubeconfig(url: &str, authority: &str, certificate: &str, key: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "butler", "cluster": {
            "server": url,
            "certificate-authority-data": base64(authority),
        }}],
        "users": [{ "name": "admin", "user": {
            "client-certificate-data": base64(certificate),
            "client-key-data": base64(key),
        }}],
        "contexts": [{ "name": "butler", "context": { "cluster": "butler", "user": "admin" }}],
        "current-context": "butler",
    });
    format!("{config:#}\n")
}

/// Standard base64; the bytes of a PEM file in a kubeconfig are written that way.
pub(crate) fn base64(text: &str) -> String {
    let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
    match serde_json::to_value(bytes) {
        Ok(serde_json::Value::String(encoded)) => encoded,
        other => unreachable!("a ByteString is written as a base64 string, not {other:?}"),
    }
}
