//! The agents of the tunnel through which the API server reaches nodes that it cannot dial.

use serde_json::{Value, json};

use super::{Kind, TenantObject, rbac};
use crate::tenant::settings::{AgentMode, KonnectivityAgents};

const NAME: &str = "konnectivity-agent";
const SERVER: &str = "system:konnectivity-server";
const TOKENS: &str = "/var/run/secrets/tokens";

pub(super) fn objects(agents: &KonnectivityAgents) -> Vec<TenantObject> {
    vec![
        managed(TenantObject::system(Kind::ServiceAccount, NAME)),
        // The server asks the tenant's API server whose token an agent shows.
        managed(rbac::cluster_binding(
            SERVER,
            "system:auth-delegator",
            &[rbac::user(SERVER)],
        )),
        workload(agents),
    ]
}

fn managed(object: TenantObject) -> TenantObject {
    object
        .label("kubernetes.io/cluster-service", "true")
        .label("addonmanager.kubernetes.io/mode", "Reconcile")
}

fn workload(agents: &KonnectivityAgents) -> TenantObject {
    let labels = json!({ "k8s-app": NAME });
    let template = json!({ "metadata": { "labels": labels }, "spec": pod(agents) });
    let mut spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    let kind = match agents.mode {
        AgentMode::DaemonSet => Kind::DaemonSet,
        AgentMode::Deployment(replicas) => {
            super::set(&mut spec, "replicas", replicas.into());
            Kind::Deployment
        }
    };
    managed(TenantObject::system(kind, NAME))
        .label("k8s-app", NAME)
        .with("spec", spec)
}

fn pod(agents: &KonnectivityAgents) -> Value {
    let token = json!({ "serviceAccountToken": {
        "path": "konnectivity-agent-token",
        "audience": SERVER,
        "expirationSeconds": 3600,
    }});
    let mut pod = json!({
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": NAME,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": agents.tolerations,
        "containers": [{
            "name": NAME,
            "image": agents.image,
            "command": ["/proxy-agent"],
            "args": arguments(agents),
            // Without a request they are the first to be killed on a busy node, and with them logs and exec.
            "resources": { "requests": { "cpu": "20m", "memory": "32Mi" } },
            "livenessProbe": {
                "httpGet": { "path": "/healthz", "port": 8134 },
                "initialDelaySeconds": 15,
                "timeoutSeconds": 15,
            },
            "volumeMounts": [{ "name": "konnectivity-agent-token", "mountPath": TOKENS, "readOnly": true }],
        }],
        "volumes": [{ "name": "konnectivity-agent-token", "projected": { "sources": [token] } }],
    });
    // Said only when it is so: the API server drops `false`, which would look like a difference for ever.
    if agents.host_network {
        super::set(&mut pod, "hostNetwork", true.into());
        super::set(&mut pod, "dnsPolicy", "ClusterFirstWithHostNet".into());
    }
    pod
}

fn arguments(agents: &KonnectivityAgents) -> Vec<String> {
    let mut arguments = vec![
        "--logtostderr=true".to_owned(),
        "--ca-cert=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt".to_owned(),
        format!("--proxy-server-host={}", agents.server_host),
        format!("--proxy-server-port={}", agents.server_port),
        "--admin-server-port=8133".to_owned(),
        "--health-server-port=8134".to_owned(),
        format!("--service-account-token-path={TOKENS}/konnectivity-agent-token"),
    ];
    arguments.extend(agents.extra_args.iter().cloned());
    arguments
}
