//! Figures of Steward: a thousand control planes at once, how much that costs, and what it does when idle.
//!
//! The management cluster is a test server without Kubernetes' own controllers, so no pod ever becomes ready: what is
//! measured is our part. Steward runs as its release binary in a process of its own.

mod serving;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use butler_api::steward::TenantControlPlane;
use butler_testkit::{Options, Server, etcd::TlsEtcd};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret, Service},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
    core::{ApiResource, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    Figure,
    crowd::{AT_ONCE, Awaited, Planned, beside_floor, create, marks, settle},
    figure,
    process::Process,
};

const TENANTS: usize = 1_000;
const NAMESPACE: &str = "tenants";
const STEWARD: [&str; 2] = ["steward", "--outside"];
const PATIENCE: Duration = Duration::from_mins(10);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Serving,
    /// And what it does in so much idle time.
    Crowd(Duration),
}

pub(super) fn measure(parts: &[Part]) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    runtime.block_on(async {
        let mut figures = Vec::new();
        for part in parts {
            figures.extend(match part {
                Part::Serving => serving::measure().await?,
                Part::Crowd(quiet) => crowd(*quiet).await?,
            });
        }
        Ok(figures)
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts and kilobytes")]
async fn crowd(quiet: Duration) -> Result<Vec<Figure>> {
    let server = Server::start(Options::default()).await?;
    let etcd = TlsEtcd::start().await?;
    server
        .try_apply_yaml(&etcd.data_store("default").to_string())
        .await?;
    let client = server.client();
    make_namespace(&client, NAMESPACE).await?;

    let mut steward = Process::start(&server.kubeconfig(), &STEWARD)?;
    println!("creating {TENANTS} control planes");
    let mark = server.mark().await;
    let (_, marks) = tokio::try_join!(
        create(&client, tenants()?, AT_ONCE),
        await_deployments(&client)
    )?;
    let took = marks.last().copied().unwrap_or_default();
    let quiet_since = settle(&server).await;
    println!(
        "settled {:.1} s after the last Deployment",
        quiet_since.as_secs_f64()
    );
    let peak = steward.peak_memory()? as f64 / 1024.0;
    let settled = steward.memory()? as f64 / 1024.0;
    let all = server.writes(mark).await;
    let all = all.only(|write| write.resource() != "leases").count();
    // One of them made it, which is not ours.
    let writes = all as f64 / TENANTS as f64 - 1.0;
    let work = steward.cpu_seconds()? / TENANTS as f64 * 1_000.0;

    // Close to what it is compared with.
    steward.stop()?;
    let took = took.as_secs_f64();
    let in_turn = floor(written(&client).await?, 1).await?;
    let at_once = floor(written(&client).await?, AT_ONCE).await?;
    println!(
        "written in {took:.1} s, by bare creates in {in_turn:.1} s, {AT_ONCE} at once in {at_once:.1} s"
    );
    let mut steward = Process::start(&server.kubeconfig(), &STEWARD)?;
    steward
        .await_passes("tenantcontrolplane", TENANTS, PATIENCE)
        .await?;

    println!("watching it idle for {quiet:?}");
    let (mark, cpu) = (server.mark().await, steward.cpu_seconds()?);
    tokio::time::sleep(quiet).await;
    // A lease is renewed for as long as it is held.
    let idle_writes = server
        .writes(mark)
        .await
        .only(|write| write.resource() != "leases")
        .count();
    let idle_cpu = (steward.cpu_seconds()? - cpu) / quiet.as_secs_f64() * 1_000.0;

    steward.stop()?;
    let mark = server.mark().await;
    let restarted = Instant::now();
    let steward = Process::start(&server.kubeconfig(), &STEWARD)?;
    steward
        .await_passes("tenantcontrolplane", TENANTS, PATIENCE)
        .await?;
    let restart = restarted.elapsed().as_secs_f64();
    // Giving back and taking the lease are the only writes of a restart.
    let restart_writes = server
        .writes(mark)
        .await
        .only(|write| write.resource() != "leases");
    ensure!(
        restart_writes.count() == 0,
        "a restart wrote:\n{restart_writes}"
    );

    let hundred = |index: usize| marks.get(index).copied().unwrap_or_default().as_secs_f64();
    let first = hundred(0);
    let last = took - hundred(marks.len().saturating_sub(2));
    let unbounded = f64::INFINITY;
    let mut figures = vec![figure("1,000 control planes written", took, 60.0, "s")];
    figures.extend(beside_floor(took, at_once, in_turn));
    figures.extend([
        figure("writes for each", writes, unbounded, ""),
        figure("CPU of Steward for each", work, unbounded, "ms"),
        figure("memory when settled", settled, 200.0, "MiB"),
        figure("last hundred against the first", last / first, 1.2, ""),
        figure("memory at its peak", peak, 200.0, "MiB"),
        figure(
            "writes while idle besides the lease",
            idle_writes as f64,
            0.0,
            "",
        ),
        figure("CPU when idle", idle_cpu, 50.0, "mCPU"),
        figure("restart to settled, without a write", restart, 10.0, "s"),
    ]);
    Ok(figures)
}

/// What is printed below the table: figures of others, which were not measured here.
pub(super) const PEERS: &str = "\
published figures of the peers, from the rig they were measured on, not from this run:
  Kamaji          0.67 tenants a second, 1.08 with ten workers
  the Go Steward  0.78 tenants a second, 1.12 with ten workers
  both            1 to 2 CPU seconds and 44 to 67 writes a tenant, 5 to 6.5 MiB for each Ready one,
                  thousands of writes a minute while pods are not ready, 17 s of a restart waiting for the lease";

/// How long the same objects take on a server that is as new as the other one was, so many at a time.
async fn floor(objects: Vec<Planned>, at_once: usize) -> Result<f64> {
    let server = Server::start(Options::default()).await?;
    let client = server.client();
    make_namespace(&client, NAMESPACE).await?;
    Ok(create(&client, objects, at_once).await?.as_secs_f64())
}

async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(())
}

fn tenants() -> Result<Vec<Planned>> {
    let tenant = |number| {
        Planned::new::<TenantControlPlane>(json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1",
            "kind": "TenantControlPlane",
            "metadata": {"name": format!("t{number}"), "namespace": NAMESPACE},
            "spec": {
                "controlPlane": {
                    "deployment": {"replicas": 1},
                    "service": {"serviceType": "ClusterIP"},
                },
                "kubernetes": {"version": "v1.35.4"},
            },
        }))
    };
    (0..TENANTS).map(tenant).collect()
}

/// When each further hundred Deployments were there.
async fn await_deployments(client: &Client) -> Result<Vec<Duration>> {
    let api: Api<PartialObjectMeta<Deployment>> = Api::namespaced(client.clone(), NAMESPACE);
    let watch = watcher(api, watcher::Config::default())
        .default_backoff()
        .touched_objects();
    let awaited = Awaited {
        what: "Deployment",
        count: TENANTS,
        stride: 100,
        patience: PATIENCE,
    };
    marks(&awaited, watch, |object| Some(object.name_any())).await
}

/// Everything that was written.
async fn written(client: &Client) -> Result<Vec<Planned>> {
    let mut objects = copies::<TenantControlPlane>(client).await?;
    objects.extend(copies::<Secret>(client).await?);
    objects.extend(copies::<Service>(client).await?);
    objects.extend(copies::<Deployment>(client).await?);
    Ok(objects)
}

async fn copies<K>(client: &Client) -> Result<Vec<Planned>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    let found = api.list(&ListParams::default()).await?;
    let copy = |object: &K| {
        let object = serde_json::to_value(object)?;
        Planned::copy(&ApiResource::erase::<K>(&()), object, Some(NAMESPACE))
    };
    found.iter().map(copy).collect()
}
