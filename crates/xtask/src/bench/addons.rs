//! Figures of addons: a thousand releases of one small chart over a hundred tenants, what that costs, what it costs to
//! keep them, and how fast a change by somebody else is put back.
//!
//! The tenants share the management cluster's API server, each with a namespace of its own: what is measured is our part and
//! Helm's. The controllers of addons run as a process of their own.

pub(crate) mod alone;
mod repository;

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use butler_api::butler::{TenantAddon, TenantCluster};
use butler_testkit::{Options, Server};
use butler_toolchain::Toolchain;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

use super::{
    Figure,
    crowd::{AT_ONCE, Awaited, Planned, create, marks, settle},
    figure,
    process::{Process, text},
};

const TENANTS: usize = 100;
/// Releases on each of them.
const EACH: usize = 10;
/// Tenants of one team.
const TEAM: usize = 10;
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) fn measure(quiet: Duration) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    runtime.block_on(crowd(quiet))
}

#[expect(clippy::cast_precision_loss, reason = "counts and kilobytes")]
async fn crowd(quiet: Duration) -> Result<Vec<Figure>> {
    let server = Server::start(Options::default()).await?;
    let client = server.client();
    let work = server.folder().join("bench-addons");
    let (charts, folder) = (work.join("charts"), work.join("work"));
    fs::create_dir_all(&charts)?;
    let helm = Toolchain::locate()?.binary("helm", None)?;
    let repository = repository::serve(&helm, &charts)?;
    make_tenants(&server).await?;

    let arguments = [
        "addons-alone",
        "--helm",
        text(&helm)?,
        "--folder",
        text(&folder)?,
    ];
    let program = std::env::current_exe().context("where this program is")?;
    let mut ours = Process::start_program(&program, &server.kubeconfig(), &arguments)?;
    ours.await_answer(PATIENCE).await?;

    let releases = TENANTS * EACH;
    println!("installing {releases} releases on {TENANTS} tenants");
    let mark = server.mark().await;
    let (_, marks) = tokio::try_join!(
        create(&client, addons(&repository)?, AT_ONCE),
        await_ready(&client)
    )?;
    let took = marks.last().copied().unwrap_or_default().as_secs_f64();
    println!("all were ready after {took:.1} s");
    let settled = settle(&server).await.as_secs_f64();
    println!("settled {settled:.1} s after the last");
    let count = releases as f64;
    let all = server.writes(mark).await.count();
    let (peak, own, helms) = (
        ours.peak_memory()? as f64 / 1024.0,
        ours.cpu_seconds()?,
        ours.cpu_of_children()?,
    );

    println!("watching it idle for {quiet:?}");
    let (mark, cpu) = (server.mark().await, ours.cpu_seconds()?);
    tokio::time::sleep(quiet).await;
    let idle = server.writes(mark).await;
    let idle_cpu = (ours.cpu_seconds()? - cpu) / quiet.as_secs_f64() * 1_000.0;
    if idle.count() > 0 {
        println!("written while idle:\n{idle}");
    }
    let repaired = repair(&client).await?.as_secs_f64();

    let none = f64::INFINITY;
    Ok(vec![
        figure("1,000 releases installed and healthy", took, 120.0, "s"),
        figure("our memory at its peak", peak, 150.0, "MiB"),
        figure("our CPU for each", own / count * 1_000.0, none, "ms"),
        figure("Helm's CPU for each", helms / count * 1_000.0, none, "ms"),
        // The addon itself was made by us.
        figure("writes for each", all as f64 / count - 1.0, none, ""),
        figure("writes while idle", idle.count() as f64, 0.0, ""),
        figure("our CPU while idle", idle_cpu, none, "mCPU"),
        figure(
            "a change put back after it was noticed",
            repaired,
            10.0,
            "s",
        ),
    ])
}

fn team(tenant: usize) -> String {
    format!("team-{}", tenant / TEAM)
}

/// Tenants that are ready, as their controller would say.
async fn make_tenants(server: &Server) -> Result<()> {
    let kubeconfig = fs::read_to_string(server.kubeconfig())?;
    for tenant in 0..TENANTS {
        let (name, team) = (format!("t{tenant}"), team(tenant));
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}),
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"admin.conf": kubeconfig},
                "metadata": {"name": format!("{name}-kubeconfig"), "namespace": team}}),
            json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
                "metadata": {"name": name, "namespace": team},
                "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}}}),
        ];
        for object in objects {
            server.try_apply_yaml(&object.to_string()).await?;
        }
        let status = json!({"status": {"phase": "Ready", "tenantNamespace": team,
            "kubeconfigSecretRef": {"name": format!("{name}-kubeconfig")}}});
        let clusters: Api<TenantCluster> = Api::namespaced(server.client(), &team);
        clusters
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await?;
    }
    Ok(())
}

fn addon(repository: &str, index: usize) -> Value {
    let tenant = index % TENANTS;
    let name = format!("r{}", index / TENANTS);
    json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
        "metadata": {"name": format!("t{tenant}-{name}"), "namespace": team(tenant)},
        "spec": {
            "clusterRef": {"name": format!("t{tenant}")}, "version": "1.0.0",
            "helm": {"repository": repository, "chart": "small",
                "releaseName": name, "namespace": format!("on-t{tenant}")},
        },
    })
}

fn addons(repository: &str) -> Result<Vec<Planned>> {
    let all = 0..TENANTS * EACH;
    all.map(|index| Planned::new::<TenantAddon>(addon(repository, index)))
        .collect()
}

/// When each further hundred were ready.
async fn await_ready(client: &Client) -> Result<Vec<Duration>> {
    let api: Api<TenantAddon> = Api::all(client.clone());
    let watch = watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let awaited = Awaited {
        what: "ready TenantAddon",
        count: TENANTS * EACH,
        stride: 100,
        patience: PATIENCE,
    };
    marks(&awaited, watch, |addon| {
        let conditions = addon.status.iter().flat_map(|status| &status.conditions);
        let mut conditions = conditions.into_iter();
        let is_ready = conditions.any(|held| held.type_ == "Ready" && held.status == "True");
        is_ready.then(|| (addon.namespace(), addon.name_any()))
    })
    .await
}

/// Somebody changes an object of a release, and something makes its addon be looked at: how long until it is put back.
async fn repair(client: &Client) -> Result<Duration> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "on-t7");
    let change = json!({"data": {"greeting": "go away"}});
    let params = PatchParams::default();
    maps.patch("r3", &params, &Patch::Merge(&change)).await?;
    let addons: Api<TenantAddon> = Api::namespaced(client.clone(), &team(7));
    let look = json!({"metadata": {"labels": {"looked": "at"}}});
    let started = Instant::now();
    addons.patch("t7-r3", &params, &Patch::Merge(&look)).await?;
    loop {
        let map = maps.get("r3").await?;
        let greeting = map.data.and_then(|mut data| data.remove("greeting"));
        if greeting.as_deref() == Some("hello") {
            return Ok(started.elapsed());
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for ConfigMap r3 to be put back"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
