//! What every command does when all is well.

use std::{os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use butler_api::butler::TenantCluster;
use butler_testkit::{Server, wait_for, wait_until_gone};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::program::{Desk, bare, condition, ready, run};

#[tokio::test]
async fn clusters_are_listed_and_shown() {
    let desk = Desk::with(json!({"providerConfigRef": {"name": "somewhere"}})).await;
    desk.report(ready(Some(1), "v1.34.4", 3)).await;
    let list = desk.cluster_command(&["list"]).await.good();
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "PHASE", "VERSION", "WORKERS", "AGE"]);
    assert_eq!(lines[1][..4], ["my-cluster", "Ready", "v1.34.4", "3/3"]);
    let wide = desk
        .cluster_command(&["ls", "-A", "-o", "wide"])
        .await
        .good();
    let line = wide
        .lines()
        .find(|line| line.contains(desk.namespace.name()))
        .unwrap();
    assert!(
        line.contains("10.40.0.201:6443") && line.contains("somewhere"),
        "{line}"
    );

    let json: Value =
        serde_json::from_str(&desk.cluster_command(&["list", "-o", "json"]).await.good()).unwrap();
    assert_eq!(json["kind"], "TenantClusterList");
    assert_eq!(json["items"][0]["metadata"]["name"], "my-cluster");
    assert!(json["items"][0]["metadata"]["managedFields"].is_null());

    let text = desk.cluster_command(&["get", "my-cluster"]).await.good();
    assert!(
        text.contains("Endpoint:         10.40.0.201:6443"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no colours in a pipe");
    let yaml = desk
        .cluster_command(&["get", "my-cluster", "-o", "yaml"])
        .await
        .good();
    let read: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read["spec"]["workers"]["replicas"], 3);
    let empty = Desk::new().await.cluster_command(&["list"]).await;
    assert_eq!((empty.code, empty.out.as_str()), (0, ""));
    assert!(empty.err.contains("no clusters"), "{empty:?}");
}

#[tokio::test]
async fn scale_changes_one_number_and_nothing_else() {
    let pools = json!([{"name": "gpu", "replicas": 1}, {"name": "auto", "minReplicas": 1, "maxReplicas": 4}]);
    let desk = Desk::with(json!({"workerPools": pools})).await;
    let before = desk.cluster().await;
    let said = desk
        .cluster_command(&["scale", "my-cluster", "--workers", "5"])
        .await
        .good();
    assert!(
        said.contains("pool workers goes from 3 to 5 workers"),
        "{said}"
    );
    let after = desk.cluster().await;
    let mut expected = before.spec.clone();
    expected.workers.replicas = 5;
    assert_eq!(after.spec, expected);
    let managers = after.metadata.managed_fields.clone().unwrap();
    let own = managers
        .iter()
        .find(|it| it.manager.as_deref() == Some("butlerctl"))
        .unwrap();
    assert_eq!(
        json!(own.fields_v1),
        json!({"f:spec": {"f:workers": {"f:replicas": {}}}}),
        "it owns what it wrote"
    );

    desk.cluster_command(&["scale", "my-cluster", "-w", "0", "--pool", "gpu"])
        .await
        .good();
    assert_eq!(desk.cluster().await.spec.worker_pools[0].replicas, Some(0));
    let version = desk.cluster().await.metadata.resource_version;
    let same = desk
        .cluster_command(&["scale", "my-cluster", "--workers", "5"])
        .await
        .good();
    assert!(same.contains("already"), "{same}");
    let gone = desk
        .cluster_command(&["scale", "my-cluster", "-w", "2", "--pool", "cpu"])
        .await
        .bad(3);
    assert!(gone.contains("workers, gpu, auto"), "{gone}");
    let auto = desk
        .cluster_command(&["scale", "my-cluster", "-w", "2", "--pool", "auto"])
        .await
        .bad(6);
    assert!(auto.contains("autoscaler"), "{auto}");
    let many = desk
        .cluster_command(&["scale", "my-cluster", "-w", "5000"])
        .await
        .bad(6);
    assert!(many.contains("less than or equal to 1000"), "{many}");
    assert_eq!(desk.cluster().await.metadata.resource_version, version);
}

#[tokio::test]
async fn of_many_who_scale_at_once_nobody_overwrites_what_they_did_not_see() {
    let desk = Desk::with(json!({})).await;
    let numbers: Vec<String> = (10..18).map(|number| number.to_string()).collect();
    let commands = numbers
        .iter()
        .map(|number| run(desk.command(&["scale", "my-cluster", "-w", number])));
    let ran = futures::future::join_all(commands).await;
    let mut written = Vec::new();
    for (number, ran) in numbers.iter().zip(ran) {
        match ran.code {
            0 => written.push(number.parse::<i32>().unwrap()),
            _ => assert!(ran.bad(6).contains("somebody else changed"), "{number}"),
        }
    }
    let end = desk.cluster().await.spec.workers.replicas;
    assert!(written.contains(&end), "{end} of {written:?}");
}

#[tokio::test]
async fn upgrade_refuses_a_jump_before_it_writes_and_takes_a_step() {
    let desk = Desk::with(json!({})).await;
    desk.report(ready(Some(1), "v1.34.4", 3)).await;
    let version = desk.cluster().await.metadata.resource_version;
    let jump = desk
        .cluster_command(&["upgrade", "my-cluster", "--to", "v1.36.0"])
        .await
        .bad(6);
    assert!(
        jump.contains("runs v1.34.4") && jump.contains("a release of v1.35 first"),
        "{jump}"
    );
    let back = desk
        .cluster_command(&["upgrade", "my-cluster", "--to", "v1.33.9"])
        .await
        .bad(6);
    assert!(back.contains("never goes back"), "{back}");
    assert_eq!(desk.cluster().await.metadata.resource_version, version);
    desk.cluster_command(&["upgrade", "my-cluster", "--to", "v1.35.4"])
        .await
        .good();
    assert_eq!(desk.cluster().await.spec.kubernetes_version, "v1.35.4");
    let other = desk
        .cluster_command(&["upgrade", "my-cluster", "--to", "v1.35.1"])
        .await
        .good();
    assert!(other.contains("goes from v1.34.4 to v1.35.1"), "{other}");
    desk.cluster_command(&["upgrade", "my-cluster", "--to", "v1.34.4"])
        .await
        .good();
}

#[tokio::test]
async fn a_cluster_is_made_from_flags_and_followed_until_it_is_ready() {
    let desk = Desk::new().await;
    let follow = desk.command(&[
        "create",
        "my-cluster",
        "--version",
        "v1.35.4",
        "--workers",
        "2",
        "--cpu",
        "8",
        "--pool",
        "gpu=1",
        "--wait",
        "--timeout",
        "60s",
    ]);
    let (ran, ()) = tokio::join!(run(follow), async {
        let made = wait_for(
            &desk.api(),
            "my-cluster",
            "it to be made",
            Duration::from_mins(1),
            |_| true,
        )
        .await;
        assert_eq!(made.spec.worker_pools.len(), 1);
        let generation = made.metadata.generation;
        desk.report(json!({
            "observedGeneration": generation, "phase": "Provisioning",
            "conditions": [condition("ControlPlaneReady", "False", "its pods are not ready yet")],
        }))
        .await;
        desk.report(ready(generation, "v1.35.4", 3)).await;
    });
    assert!(ran.err.contains("Ready=True the cluster works"), "{ran:#?}");
    assert!(ran.err.contains("phase Ready"), "{ran:#?}");
    let out = ran.good();
    assert_eq!(
        out,
        format!(
            "TenantCluster {}/my-cluster was made\n",
            desk.namespace.name()
        )
    );
    let again = desk
        .cluster_command(&["create", "my-cluster", "--version", "v1.35.4"])
        .await
        .bad(6);
    assert!(
        again.contains("already exists") && again.contains("another name"),
        "{again}"
    );
}

#[tokio::test]
async fn a_file_is_taken_as_it_is_and_a_field_that_nobody_knows_is_refused() {
    let desk = Desk::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    let write = |spec: &str| {
        let text = format!(
            "apiVersion: butler.butlerlabs.dev/v1alpha1\nkind: TenantCluster\nmetadata: {{name: my-cluster}}\nspec: {spec}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let path = file.to_str().unwrap();
    write("{kubernetesVersion: v1.35.4, workers: {replicas: 1}, wrokers: {}}");
    let typo = desk.cluster_command(&["create", "-f", path]).await.bad(6);
    assert!(typo.contains("wrokers"), "{typo}");
    write("{kubernetesVersion: v1.35.4, workers: {replicas: 1}}");
    let both = desk
        .cluster_command(&["create", "-f", path, "--workers", "3"])
        .await;
    assert_eq!(both.code, 2, "{both:?}");
    desk.cluster_command(&["create", "-f", path]).await.good();
    assert_eq!(desk.cluster().await.spec.workers.replicas, 1);
}

#[tokio::test]
async fn a_dry_run_needs_no_cluster_and_what_it_writes_can_be_handed_in() {
    let mut dry = bare();
    dry.args([
        "cluster",
        "create",
        "my-cluster",
        "--version",
        "v1.35.4",
        "--memory",
        "8Gi",
        "--dry-run",
    ]);
    let yaml = run(dry).await.good();
    let desk = Desk::new().await;
    desk.namespace.apply_yaml(&yaml).await;
    let cluster = desk.cluster().await;
    assert_eq!(json!(cluster.spec.workers.machine_template.memory), "8Gi");
}

#[tokio::test]
async fn a_kubeconfig_works_in_a_pipe_to_kubectl_and_in_a_file_of_its_owner() {
    let desk = Desk::with(json!({})).await;
    let early = desk
        .cluster_command(&["kubeconfig", "my-cluster"])
        .await
        .bad(3);
    assert!(
        early.contains("no kubeconfig yet") && early.contains("Pending"),
        "{early}"
    );
    // The cluster is the API server of the test itself.
    let server = desk.namespace.server();
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "my-cluster-kubeconfig"}, "stringData": {"value": kubeconfig},
    }))
    .unwrap();
    desk.report(json!({
        "tenantNamespace": desk.namespace.name(), "kubeconfigSecretRef": {"name": "my-cluster-kubeconfig"},
    }))
    .await;
    let missing = desk
        .cluster_command(&["kubeconfig", "my-cluster"])
        .await
        .bad(3);
    assert!(missing.contains("my-cluster-kubeconfig"), "{missing}");
    let api = desk.namespace.api::<Secret>();
    api.create(&PostParams::default(), &secret).await.unwrap();

    let printed = desk
        .cluster_command(&["kubeconfig", "my-cluster"])
        .await
        .good();
    assert_eq!(printed, kubeconfig);
    let answer = server
        .try_kubectl(
            &[
                "--kubeconfig",
                "/dev/stdin",
                "get",
                "namespaces",
                "-o",
                "name",
            ],
            &printed,
        )
        .await;
    let answer = String::from_utf8(answer.stdout).unwrap();
    assert!(answer.contains("namespace/default"), "{answer}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my-cluster.yaml");
    std::fs::write(&file, "old").unwrap();
    desk.cluster_command(&["kubeconfig", "my-cluster", "-o", file.to_str().unwrap()])
        .await
        .good();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kubeconfig);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // Beside what is there, which is the way to the management cluster.
    let own = folder.path().join("config");
    std::fs::copy(server.kubeconfig(), &own).unwrap();
    let before = own_context(server, &own).await;
    let merging = desk.command_with(&own, &["kubeconfig", "my-cluster", "--merge"]);
    let said = run(merging).await.good();
    let context = format!("{}/my-cluster", desk.namespace.name());
    assert!(said.contains(&context), "{said}");
    assert_eq!(own_context(server, &own).await, before, "nobody is moved");
    let own = own.to_str().unwrap();
    let words = [
        "--kubeconfig",
        own,
        "--context",
        &context,
        "get",
        "namespaces",
    ];
    let answer = server.try_kubectl(&words, "").await;
    assert!(answer.status.success(), "{answer:?}");
}

async fn own_context(server: &Server, file: &Path) -> String {
    let file = file.to_str().unwrap();
    let words = ["--kubeconfig", file, "config", "current-context"];
    let answer = server.try_kubectl(&words, "").await;
    String::from_utf8(answer.stdout).unwrap()
}

#[tokio::test]
async fn destroy_asks_respects_protection_and_waits_until_the_cluster_is_gone() {
    let desk = Desk::with(json!({"deletionProtection": true})).await;
    let protected = desk
        .cluster_command(&["destroy", "my-cluster", "--yes"])
        .await
        .bad(6);
    assert!(
        protected.contains("deletionProtection") && protected.contains("kubectl patch"),
        "{protected}"
    );
    desk.put(json!({})).await;
    let parameters = PatchParams::default();
    let unprotected = json!({"spec": {"deletionProtection": false}, "metadata": {"finalizers": ["example.com/held"]}});
    let api = desk.api();
    api.patch("my-cluster", &parameters, &Patch::Merge(&unprotected))
        .await
        .unwrap();
    let asked = desk
        .cluster_command(&["destroy", "my-cluster"])
        .await
        .bad(2);
    assert!(asked.contains("--yes"), "{asked}");
    assert!(desk.cluster().await.metadata.deletion_timestamp.is_none());

    let late = desk
        .cluster_command(&["destroy", "my-cluster", "--yes", "--timeout", "1s"])
        .await
        .bad(5);
    assert!(late.contains("gave up after 1s"), "{late}");
    let change = desk
        .cluster_command(&["scale", "my-cluster", "-w", "1"])
        .await
        .bad(6);
    assert!(change.contains("is being removed"), "{change}");
    let again = run(desk.command(&["destroy", "my-cluster"]));
    let (again, ()) = tokio::join!(again, async {
        let free = json!({"metadata": {"finalizers": null}});
        api.patch("my-cluster", &parameters, &Patch::Merge(&free))
            .await
            .unwrap();
        wait_until_gone::<TenantCluster>(&api, "my-cluster").await;
    });
    // Whoever comes when it has gone meanwhile finds nothing, which is not a failure to remove it.
    assert!(again.code == 0 || again.code == 3, "{again:#?}");
    let none = desk
        .cluster_command(&["destroy", "my-cluster", "--yes"])
        .await
        .bad(3);
    assert!(none.contains("there is no"), "{none}");
}

#[tokio::test]
async fn only_a_failed_cluster_is_tried_again() {
    let desk = Desk::with(json!({})).await;
    desk.report(ready(Some(1), "v1.34.4", 3)).await;
    let text = desk.cluster_command(&["retry", "my-cluster"]).await.bad(6);
    assert!(text.contains("is Ready"), "{text}");
    desk.report(json!({"phase": "Failed"})).await;
    let text = desk.cluster_command(&["retry", "my-cluster"]).await.good();
    assert!(text.contains("is tried again"), "{text}");
    let annotations = desk.cluster().await.metadata.annotations.unwrap();
    assert!(annotations.contains_key("butler.butlerlabs.dev/retry"));
}

#[tokio::test]
async fn a_removal_is_forced_by_the_annotation_that_the_controller_reads() {
    let desk = Desk::with(json!({})).await;
    let kept = json!({"metadata": {"finalizers": ["butler.butlerlabs.dev/tenantcluster"]}});
    let parameters = PatchParams::default();
    let patched = desk
        .api()
        .patch("my-cluster", &parameters, &Patch::Merge(&kept))
        .await;
    patched.unwrap();
    let command = ["destroy", "my-cluster", "--yes", "--force", "--no-wait"];
    desk.cluster_command(&command).await.good();
    let seen = desk.cluster().await;
    assert!(seen.metadata.deletion_timestamp.is_some());
    let annotations = seen.metadata.annotations.unwrap();
    assert!(annotations.contains_key("butler.butlerlabs.dev/force-delete"));
    let free = json!({"metadata": {"finalizers": null}});
    let freed = desk
        .api()
        .patch("my-cluster", &parameters, &Patch::Merge(&free))
        .await;
    freed.unwrap();
}
