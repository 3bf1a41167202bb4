//! The life of a cluster by `butlerctl` alone, with the real controllers at work. What providers would say is said
//! by a driver.

use butler_api::butler::TenantCluster;
use butler_testkit::{Options, Server};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::{
    driver::Driver,
    program::{Desk, Ran, bare, run},
    stage,
};

const SURROUNDINGS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: butler-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec: {provider: local}
";

async fn butlerctl(server: &Server, arguments: &[&str]) -> Ran {
    let mut command = bare();
    command
        .env("KUBECONFIG", server.kubeconfig())
        .env("BUTLER_NAMESPACE", "team-a")
        .arg("cluster")
        .args(arguments);
    run(command).await
}

#[tokio::test]
async fn a_cluster_is_made_planned_scaled_upgraded_and_removed() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(SURROUNDINGS).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());

    let create = [
        "create",
        "demo",
        "--version",
        "v1.34.4",
        "-w",
        "2",
        "--provider",
        "local",
        "--wait",
    ];
    let made = butlerctl(&server, &create).await;
    assert!(made.err.contains("phase Ready"), "{made:#?}");
    made.good();

    let still = butlerctl(&server, &["plan", "demo"]).await.good();
    assert!(
        still.starts_with("Nothing to do.\nUses 2 nodes, 8 CPU"),
        "{still}"
    );
    let bigger = butlerctl(&server, &["plan", "demo", "--workers", "5"])
        .await
        .good();
    assert!(
        bigger.contains("\n~ MachineDeployment demo-workers\n") && bigger.contains("Uses 5 nodes"),
        "{bigger}"
    );
    let newer = butlerctl(&server, &["plan", "demo", "--to", "v1.35.4"])
        .await
        .good();
    let order = [
        "~ StewardControlPlane demo",
        "! pool workers replaces 2 nodes (version changed)",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|line| newer.find(line)).collect();
    assert!(
        newer.starts_with("First:\n") && places.iter().all(Option::is_some) && places.is_sorted(),
        "{newer}"
    );
    let jump = butlerctl(&server, &["plan", "demo", "--to", "v1.36.0"])
        .await
        .bad(6);
    assert!(jump.contains("a release of v1.35 first"), "{jump}");

    butlerctl(&server, &["scale", "demo", "--workers", "3", "--wait"])
        .await
        .good();
    let list = butlerctl(&server, &["list"]).await.good();
    assert!(list.contains("3/3"), "{list}");
    butlerctl(&server, &["upgrade", "demo", "--to", "v1.35.4", "--wait"])
        .await
        .good();
    let text = butlerctl(&server, &["get", "demo", "-o", "json"])
        .await
        .good();
    let demo: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        demo["status"]["observedState"]["kubernetesVersion"],
        "v1.35.4"
    );

    let gone = butlerctl(&server, &["destroy", "demo", "--yes"]).await;
    assert!(gone.err.contains("phase Deleting"), "{gone:#?}");
    assert_eq!(gone.good(), "TenantCluster team-a/demo is gone\n");
    let clusters: Api<TenantCluster> = Api::namespaced(server.client(), "team-a");
    assert!(clusters.get_opt("demo").await.unwrap().is_none());
    let home = demo["status"]["tenantNamespace"].as_str().unwrap();
    let namespaces: Api<Namespace> = Api::all(server.client());
    assert!(namespaces.get_opt(home).await.unwrap().is_none());
}

#[tokio::test]
async fn a_plan_of_a_file_needs_no_cluster_and_says_what_it_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    let cluster = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: demo, namespace: team-a}
spec:
  kubernetesVersion: v1.35.4
  workers: {replicas: 2}
  workerPools: [{name: gpu, replicas: 1}]
";
    std::fs::write(&file, cluster).unwrap();
    let plan = |more: &[&str]| {
        let mut command = bare();
        command
            .args(["cluster", "plan", "--offline", "-f", file.to_str().unwrap()])
            .args(more);
        run(command)
    };
    let text = plan(&[]).await.good();
    for line in [
        "Assumed: machines come from the local provider",
        "+ Namespace demo-00000000",
        "+ StewardControlPlane demo",
        "+ MachineDeployment demo-workers",
        "+ MachineDeployment demo-gpu",
        "Uses 3 nodes, 12 CPU",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let json: Value = serde_json::from_str(&plan(&["-w", "4", "-o", "json"]).await.good()).unwrap();
    assert_eq!(json["uses"]["nodes"], 5);
    assert!(
        json["steps"][0]["changes"]["create"]
            .as_array()
            .unwrap()
            .len()
            > 3
    );

    let provider = folder.path().join("provider.yaml");
    let vsphere = "apiVersion: butler.butlerlabs.dev/v1alpha1\nkind: ProviderConfig\nmetadata: {name: v}\nspec: {provider: vsphere}\n";
    std::fs::write(&provider, vsphere).unwrap();
    let faults = plan(&["-f", provider.to_str().unwrap()]).await.bad(6);
    assert!(
        faults.contains("cannot be carried out") && faults.contains("vsphere"),
        "{faults}"
    );
}

#[tokio::test]
async fn a_plan_for_another_provider_and_system_assumes_what_only_a_platform_can_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("both.yaml");
    let both = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: demo, namespace: team-a}
spec:
  kubernetesVersion: v1.35.4
  workers: {replicas: 2, machineTemplate: {os: {type: talos}}}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: prism, namespace: butler-system}
spec:
  provider: nutanix
  credentialsRef: {name: prism}
  nutanix:
    endpoint: https://prism.example.com/
    clusterUUID: 0005b6f1-8f43-0000-0000-000000000000
    subnetUUID: c7938dc6-7659-453e-a688-e26020c68e43
    imageUUID: a8938dc6-7659-453e-a688-e26020c68e43
";
    std::fs::write(&file, both).unwrap();
    let mut command = bare();
    command.args(["cluster", "plan", "--offline", "-f", file.to_str().unwrap()]);
    let text = run(command).await.good();
    for line in [
        "Assumed: the credentials of the provider hold username and password",
        "Assumed: the control plane says how machines join it",
        "+ NutanixCluster demo",
        "+ Secret demo-nutanix-creds",
        "+ MachineDeployment demo-workers",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    for word in ["have no key", "has not said yet"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn a_plan_shows_what_of_each_limit_would_be_used_and_what_they_refuse() {
    let desk = Desk::with(json!({})).await;
    let namespace = desk.namespace.name();
    desk.report(json!({"tenantNamespace": "my-cluster-0"}))
        .await;
    let kind = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let limits = json!({"resourceLimits": {"maxClusters": 2, "maxTotalNodes": 4}});
    let team = kind("Team", namespace, limits).to_string();
    desk.namespace.apply_yaml(&team).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("second.yaml");
    let plan = |workers: u32| {
        let wish = json!({"kubernetesVersion": "v1.35.4", "workers": {"replicas": workers}});
        let second = kind("TenantCluster", "second", wish);
        let provider = kind("ProviderConfig", "local", json!({"provider": "local"}));
        std::fs::write(&file, format!("{second}\n---\n{provider}\n")).unwrap();
        run(desk.command(&["plan", "-f", file.to_str().unwrap()]))
    };
    let fits = plan(1).await.good();
    assert!(fits.contains("+ Namespace second"), "{fits}");
    assert!(
        fits.contains("Limit: 2 of 2 clusters of the team"),
        "{fits}"
    );
    assert!(fits.contains("Limit: 4 of 4 workers of the team"), "{fits}");
    let large = plan(2).await.good();
    assert!(large.contains("would have 5 of 4 workers"), "{large}");
    assert!(!large.contains("+ Namespace"), "{large}");
}
