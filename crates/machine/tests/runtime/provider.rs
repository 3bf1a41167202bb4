//! The whole way: a `LocalMachine` becomes a real machine and a Node that is Ready, and goes again.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

use async_trait::async_trait;
use butler_api::infrastructure::{LocalCluster, LocalMachine};
use butler_machine::{
    provider::{
        self, Attachment, ClusterNetwork, LocalHost, Network, Settings, Surroundings, Trouble,
    },
    runtime::{MachineId, Machines, Supervisor},
};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::{Metrics, ReconcileMetrics},
    task,
};
use butler_testkit::{Namespace, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    join::{ControlPlane, PATIENCE, is_ready},
    stage::{Stage, can_run, cni, folder_of, left, namespaces},
};

/// A network of one cable, which is there already.
struct Cable {
    namespace: PathBuf,
    attached: Mutex<Vec<MachineId>>,
}

#[async_trait]
impl Network for Cable {
    async fn open(&self, _: &ClusterNetwork) -> Result<(), Trouble> {
        Ok(())
    }

    async fn close(&self, _: &str) -> Result<(), Trouble> {
        Ok(())
    }

    async fn attach(
        &self,
        machine: &MachineId,
        _: &str,
        _: Option<IpAddr>,
    ) -> Result<Attachment, Trouble> {
        let mut attached = self.attached.lock().unwrap();
        if !attached.contains(machine) {
            attached.push(machine.clone());
        }
        Ok(Attachment {
            namespace: self.namespace.clone(),
            address: Ipv4Addr::new(10, 99, 0, 2).into(),
            nameservers: Vec::new(),
        })
    }

    async fn detach(&self, machine: &MachineId) -> Result<(), Trouble> {
        self.attached.lock().unwrap().retain(|held| held != machine);
        Ok(())
    }
}

/// Makes an object of Cluster API and returns a reference to it as an owner.
async fn core(
    home: &Namespace,
    kind: &str,
    name: &str,
    spec: &Value,
    status: Option<&Value>,
) -> Value {
    let api_version = "cluster.x-k8s.io/v1beta2";
    let object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    home.apply_yaml(&object.to_string()).await;
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind));
    let api: Api<DynamicObject> =
        Api::namespaced_with(home.server().client(), home.name(), &resource);
    if let Some(status) = status {
        let patch = json!({"status": status});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }
    let uid = api.get(name).await.unwrap().metadata.uid;
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
}

async fn local(home: &Namespace, kind: &str, name: &str, owner: &Value, spec: &Value) {
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"cluster.x-k8s.io/cluster-name": "sky"},
            "ownerReferences": [owner],
        },
        "spec": spec,
    });
    home.apply_yaml(&object.to_string()).await;
}

fn surroundings(machines: Machines, network: Arc<dyn Network>) -> Surroundings {
    Surroundings {
        clock: SystemClock::shared(),
        reconciles: ReconcileMetrics::new(&Metrics::default()),
        readiness: Readiness::default(),
        settings: Settings {
            images: [("v1.35.4".parse().unwrap(), folder_of("kubelet"))].into(),
            containerd: folder_of("containerd"),
            cni: cni(),
            extra: Vec::new(),
            sandbox_image: "registry.k8s.io/pause:3.10.1".to_owned(),
            mirrors: Vec::new(),
            image_store: None,
            pool: None,
        },
        host: LocalHost::new(machines).unwrap(),
        network,
    }
}

// The test waits on its own thread, and the provider must go on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_machine_becomes_a_node_that_is_ready_and_goes_without_a_trace() {
    if !can_run() {
        return;
    }
    // Its cable and its janitor; the machine itself is made by the provider.
    let mut stage = Stage::new();
    let mut plane = ControlPlane::start().await;
    stage.net.connect(&plane.net);
    plane.serve().await;
    let home = plane.server.namespace("team").await;
    let data = plane.bootstrap_data().await;
    let cable = Arc::new(Cable {
        namespace: stage.net.path(),
        attached: Mutex::default(),
    });
    let folder = tempfile::tempdir().unwrap();
    let supervisor = Supervisor {
        program: env!("CARGO_BIN_EXE_butler-machine").into(),
        arguments: Vec::new(),
    };
    let machines = Machines::new(folder.path(), supervisor).unwrap();
    let around = surroundings(machines.clone(), Arc::clone(&cable) as Arc<dyn Network>);
    let _provider = task::spawn(
        "local provider",
        provider::run(plane.server.client(), around, CancellationToken::new()),
    );

    let reference = |kind: &str, name: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name});
    let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
    let cluster = json!({"infrastructureRef": reference("LocalCluster", "sky")});
    let owner = core(&home, "Cluster", "sky", &cluster, Some(&provisioned)).await;
    local(&home, "LocalCluster", "sky", &owner, &json!({})).await;
    wait_for_condition(&home.api::<LocalCluster>(), "sky", "Ready", "True").await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "worker"},
        "stringData": {"value": data, "format": "cloud-config"},
    });
    home.apply_yaml(&secret.to_string()).await;
    let machine = json!({
        "clusterName": "sky", "version": "v1.35.4", "bootstrap": {"dataSecretName": "worker"},
        "infrastructureRef": reference("LocalMachine", "worker"),
    });
    let owner = core(&home, "Machine", "worker", &machine, None).await;

    let began = Instant::now();
    local(
        &home,
        "LocalMachine",
        "worker",
        &owner,
        &json!({"memory": "1Gi"}),
    )
    .await;
    let made: LocalMachine = home.get("worker").await;
    stage.look_after(
        machines
            .folder(&made.metadata.uid.clone().unwrap().parse().unwrap())
            .path(),
    );
    let nodes: Api<Node> = Api::all(plane.server.client());
    let node = wait_for(&nodes, "worker", "a Node that is Ready", PATIENCE, is_ready).await;
    println!(
        "Ready {:?} after the LocalMachine was created",
        began.elapsed()
    );
    let locals = home.api::<LocalMachine>();
    let done = wait_for_condition(&locals, "worker", "BootstrapSucceeded", "True").await;
    assert_eq!(done.spec.provider_id, node.spec.unwrap().provider_id);
    let status = done.status.unwrap();
    assert_eq!(status.initialization.unwrap().provisioned, Some(true));
    assert_eq!(status.addresses[0].address, "10.99.0.2");

    let id: MachineId = done.metadata.uid.unwrap().parse().unwrap();
    let first = machines.observe(&id).unwrap().pid.unwrap();
    // A power cut: the provider notices and starts it again.
    let cut = std::process::Command::new("kill")
        .args(["-9", &first.to_string()])
        .status()
        .unwrap();
    assert!(cut.success());
    stage.id = id.clone();
    stage.machines = machines.clone();
    let again = stage.until("the machine to be started again", |seen| {
        seen.pid.is_some_and(|pid| pid != first)
    });

    let namespaces = namespaces(again.pid.unwrap());
    let began = Instant::now();
    locals
        .delete("worker", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&locals, "worker").await;
    println!(
        "gone {:?} after the LocalMachine was deleted",
        began.elapsed()
    );
    assert_eq!(left(&stage, &namespaces), Vec::<String>::new());
    assert!(cable.attached.lock().unwrap().is_empty());
}
