//! Figures of tenant clusters: ten thousand of them at once, how much that costs, and what it costs to keep them.
//!
//! The test server has Cluster API's definitions and no controllers; a driver says what Steward, Cluster API and a
//! provider would say. Butler runs as its release binary in a process of its own.

#![expect(
    clippy::indexing_slicing,
    reason = "objects of the API server are JSON objects: what is not there is null"
)]

mod driver;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use butler_api::{butler::TenantCluster, names};
use butler_testkit::{Options, Server};
use butler_toolchain::Toolchain;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use super::{
    Figure,
    crowd::{AT_ONCE, Awaited, Planned, beside_floor, create, marks, settle},
    figure,
    process::{Process, text},
};

const CLUSTERS: usize = 10_000;
/// Clusters between two looks at the clock.
const STRIDE: usize = 1_000;
/// Clusters whose objects are written again one after the other: all of them would take longer than all the rest.
const SAMPLE: usize = 500;
const PATIENCE: Duration = Duration::from_mins(15);

const PROVIDER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: butler-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenants}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec: {provider: local}
";

/// What a cluster is made of, beside its namespace, in the order it is written.
const CHILDREN: [(&str, &str, &str); 7] = [
    (
        "infrastructure.cluster.x-k8s.io",
        "v1alpha1",
        "LocalCluster",
    ),
    (
        "controlplane.cluster.x-k8s.io",
        "v1alpha1",
        "StewardControlPlane",
    ),
    ("cluster.x-k8s.io", "v1beta2", "Cluster"),
    (
        "infrastructure.cluster.x-k8s.io",
        "v1alpha1",
        "LocalMachineTemplate",
    ),
    (
        "bootstrap.cluster.x-k8s.io",
        "v1beta2",
        "KubeadmConfigTemplate",
    ),
    ("cluster.x-k8s.io", "v1beta2", "MachineDeployment"),
    ("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck"),
];

pub(super) fn measure(quiet: Duration) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    runtime.block_on(crowd(quiet))
}

#[expect(clippy::cast_precision_loss, reason = "counts and kilobytes")]
async fn crowd(quiet: Duration) -> Result<Vec<Figure>> {
    let server = Server::start(Options::default()).await?;
    server.try_apply_yaml(PROVIDER).await?;
    let client = server.client();
    let helm = Toolchain::locate()?.binary("helm", None)?;
    let folder = server.folder().join("helm");
    let controller = [
        "controller",
        "--helm",
        text(&helm)?,
        "--helm-folder",
        text(&folder)?,
    ];
    let mut butler = Process::start(&server.kubeconfig(), &controller)?;
    butler.await_answer(PATIENCE).await?;
    let bare = butler.memory()? as f64;
    let control_planes = driver::serve(&client)?;

    println!("creating {CLUSTERS} clusters");
    let mark = server.mark().await;
    let (_, marks) = tokio::try_join!(
        create(&client, clusters()?, AT_ONCE),
        await_children(&client)
    )?;
    let took = marks.last().copied().unwrap_or_default().as_secs_f64();
    println!("all children were there after {took:.1} s");
    let machines = driver::join(&client)?;
    let settled = settle(&server).await.as_secs_f64();
    println!("settled {settled:.1} s after the last child");
    let ready = count_ready(&client).await?;
    ensure!(
        ready == CLUSTERS,
        "only {ready} of {CLUSTERS} clusters are Ready"
    );
    let kept = (butler.memory()? as f64 - bare) / CLUSTERS as f64;
    let work = butler.cpu_seconds()? / CLUSTERS as f64 * 1_000.0;
    let all = server.writes(mark).await;
    let all = all.only(|write| write.resource() != "leases").count();
    // Whoever made it and the driver wrote six of them.
    let writes = all as f64 / CLUSTERS as f64 - 6.0;

    println!("watching it idle for {quiet:?}");
    let (mark, cpu) = (server.mark().await, butler.cpu_seconds()?);
    tokio::time::sleep(quiet).await;
    let idle = server.writes(mark).await;
    // A lease is renewed for as long as it is held.
    let idle = idle.only(|write| write.resource() != "leases");
    let idle_cpu = (butler.cpu_seconds()? - cpu) / quiet.as_secs_f64() * 1_000.0;

    butler.stop()?;
    let (mark, restarted) = (server.mark().await, Instant::now());
    let mut butler = Process::start(&server.kubeconfig(), &controller)?;
    butler
        .await_passes("tenantcluster", CLUSTERS, PATIENCE)
        .await?;
    let restart = restarted.elapsed().as_secs_f64();
    let wrote = server.writes(mark).await;
    let wrote = wrote.only(|write| write.resource() != "leases");
    ensure!(wrote.count() == 0, "a restart wrote:\n{wrote}");
    // Nobody acts on the copies.
    butler.stop()?;
    drop((control_planes, machines));
    println!("writing the same by bare creates");
    let at_once = floor(written(&client, CLUSTERS).await?, AT_ONCE).await?;
    let in_turn = floor(written(&client, SAMPLE).await?, 1).await?;
    let in_turn = in_turn * (CLUSTERS / SAMPLE) as f64;

    let stride = |index: usize| marks.get(index).copied().unwrap_or_default().as_secs_f64();
    let last = took - stride(marks.len().saturating_sub(2));
    let unbounded = f64::INFINITY;
    let mut figures = vec![figure(
        "10,000 clusters: all children written",
        took,
        250.0,
        "s",
    )];
    figures.extend(beside_floor(took, at_once, in_turn));
    figures.extend([
        figure("last thousand against the first", last / stride(0), 1.2, ""),
        figure("settled after the last child", settled, unbounded, "s"),
        figure("writes for each", writes, unbounded, ""),
        figure("CPU for each", work, unbounded, "ms"),
        figure("memory for each when settled", kept, 150.0, "KiB"),
        figure(
            "writes while idle besides the lease",
            idle.count() as f64,
            0.0,
            "",
        ),
        figure("CPU when idle", idle_cpu, unbounded, "mCPU"),
        figure("restart to settled, without a write", restart, 60.0, "s"),
    ]);
    Ok(figures)
}

/// How long these objects take on a new server, so many at a time.
async fn floor(objects: Vec<Planned>, at_once: usize) -> Result<f64> {
    let server = Server::start(Options::default()).await?;
    let took = create(&server.client(), objects, at_once).await?;
    Ok(took.as_secs_f64())
}

fn clusters() -> Result<Vec<Planned>> {
    let cluster = |number| {
        Planned::new::<TenantCluster>(json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1",
            "kind": "TenantCluster",
            "metadata": {"name": format!("t{number}"), "namespace": "tenants"},
            "spec": {
                "kubernetesVersion": "v1.35.4",
                "providerConfigRef": {"name": "local"},
                "workers": {"replicas": 1},
            },
        }))
    };
    (0..CLUSTERS).map(cluster).collect()
}

/// When each further thousand clusters had all they are made of: what is written last is waited for.
async fn await_children(client: &Client) -> Result<Vec<Duration>> {
    let resource = resource("MachineHealthCheck")?;
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &resource);
    let watch = watcher(api, watcher::Config::default())
        .default_backoff()
        .touched_objects();
    let awaited = Awaited {
        what: "MachineHealthCheck",
        count: CLUSTERS,
        stride: STRIDE,
        patience: PATIENCE,
    };
    marks(&awaited, watch, kube::ResourceExt::namespace).await
}

async fn count_ready(client: &Client) -> Result<usize> {
    let api: Api<TenantCluster> = Api::namespaced(client.clone(), "tenants");
    let all = api.list(&ListParams::default()).await?;
    let ready = all.iter().filter(|cluster| {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|held| held.type_ == "Ready" && held.status == "True")
    });
    Ok(ready.count())
}

/// Everything that was written for the first so many clusters.
async fn written(client: &Client, clusters: usize) -> Result<Vec<Planned>> {
    let (all, mut objects) = (ListParams::default(), Vec::new());
    let owned = ListParams::default().labels(names::OWNER_UID);
    let found: Api<Namespace> = Api::all(client.clone());
    let mut namespaces = BTreeSet::new();
    for namespace in found.list(&owned).await?.into_iter().take(clusters) {
        namespaces.insert(namespace.name_any());
        let resource = ApiResource::erase::<Namespace>(&());
        let namespace = serde_json::to_value(&namespace)?;
        objects.push(Planned::copy(&resource, namespace, None)?);
    }
    let found: Api<TenantCluster> = Api::namespaced(client.clone(), "tenants");
    for cluster in found.list(&all).await?.into_iter().take(clusters) {
        let resource = ApiResource::erase::<TenantCluster>(&());
        let cluster = serde_json::to_value(&cluster)?;
        objects.push(Planned::copy(&resource, cluster, Some("default"))?);
    }
    for (_, _, kind) in CHILDREN {
        let resource = resource(kind)?;
        let found: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in found.list(&all).await? {
            let namespace = object.namespace().unwrap_or_default();
            if namespaces.contains(&namespace) {
                let object = serde_json::to_value(&object)?;
                objects.push(Planned::copy(&resource, object, Some(&namespace))?);
            }
        }
    }
    ensure!(
        objects.len() == clusters * (CHILDREN.len() + 2),
        "{} objects belong to {clusters} clusters",
        objects.len()
    );
    Ok(objects)
}

/// The kind of a child.
fn resource(kind: &str) -> Result<ApiResource> {
    let found = CHILDREN.iter().find(|(_, _, child)| *child == kind);
    let (group, version, kind) = found.context("no child is of this kind")?;
    Ok(ApiResource::from_gvk(&GroupVersionKind::gvk(
        group, version, kind,
    )))
}
