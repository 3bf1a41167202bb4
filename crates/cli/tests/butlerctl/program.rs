//! Running the program, and a namespace to run it in.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use butler_api::butler::TenantCluster;
use butler_testkit::{Namespace, Server};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::process::Command;

/// Longer than any command here takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// What it printed, if it did what it should.
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }

    /// What it complained about, if it ended with this code.
    pub(crate) fn bad(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:#?}");
        let named = ["butlerctl: ", "butleradm: "];
        let is_named = named.iter().any(|name| self.err.starts_with(name));
        assert!(is_named, "{self:#?}");
        self.err
    }
}

/// The program with nothing of this machine's own settings.
pub(crate) fn bare() -> Command {
    program(env!("CARGO_BIN_EXE_butlerctl"))
}

/// The same of the one for people who run the platform.
pub(crate) fn bare_admin() -> Command {
    program(env!("CARGO_BIN_EXE_butleradm"))
}

fn program(path: &str) -> Command {
    let mut command = Command::new(path);
    command
        .env_remove("KUBECONFIG")
        .env_remove("BUTLER_NAMESPACE")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

pub(crate) async fn run(mut command: Command) -> Ran {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output
        .expect("the command ends")
        .expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes text");
    Ran {
        code: output.status.code().expect("it ends by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// A namespace on an API server, and the program pointed at it.
pub(crate) struct Desk {
    pub(crate) namespace: Namespace,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        let namespace = Server::shared().await.namespace("ctl").await;
        Self { namespace }
    }

    /// A desk with one cluster.
    pub(crate) async fn with(spec: Value) -> Self {
        let desk = Self::new().await;
        desk.put(spec).await;
        desk
    }

    /// Makes or changes the cluster `my-cluster`.
    pub(crate) async fn put(&self, spec: Value) -> TenantCluster {
        let mut object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "my-cluster"},
            "spec": {"kubernetesVersion": "v1.34.4", "workers": {"replicas": 3}},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        self.namespace.apply_yaml(&object.to_string()).await;
        self.cluster().await
    }

    pub(crate) fn api(&self) -> Api<TenantCluster> {
        self.namespace.api()
    }

    pub(crate) async fn cluster(&self) -> TenantCluster {
        self.namespace.get("my-cluster").await
    }

    /// What a controller would report.
    pub(crate) async fn report(&self, status: Value) {
        let change = Patch::Merge(json!({ "status": status }));
        let parameters = PatchParams::default();
        let api = self.api();
        let patched = api.patch_status("my-cluster", &parameters, &change);
        patched.await.unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_with(&self.namespace.server().kubeconfig(), arguments)
    }

    pub(crate) fn command_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = bare();
        command
            .env("KUBECONFIG", kubeconfig)
            .args(["-n", self.namespace.name(), "cluster"])
            .args(arguments);
        command
    }

    /// `butlerctl -n NAMESPACE cluster ...`
    pub(crate) async fn cluster_command(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments)).await
    }

    /// A kubeconfig by which the admin acts as a user whom no role lets do anything.
    pub(crate) fn kubeconfig_of_nobody(&self, folder: &Path) -> PathBuf {
        let admin = std::fs::read_to_string(self.namespace.server().kubeconfig()).unwrap();
        let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
        config["users"][0]["user"]["as"] = json!("nobody@example.com");
        let file = folder.join("nobody");
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }
}

/// A status that says ready, as the controller writes it.
pub(crate) fn ready(generation: Option<i64>, version: &str, workers: i32) -> Value {
    json!({
        "observedGeneration": generation, "phase": "Ready", "controlPlaneEndpoint": "10.40.0.201:6443",
        "workerNodesReady": workers, "workerNodesDesired": workers,
        "observedState": {"kubernetesVersion": version},
        "conditions": [condition("Ready", "True", "the cluster works")],
    })
}

pub(crate) fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Played", "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}
