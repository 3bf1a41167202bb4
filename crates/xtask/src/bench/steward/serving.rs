//! Control planes that serve: how long one takes above a bare API server, what twenty cost Steward, and whether an
//! upgrade fails a request.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use butler_api::steward::TenantControlPlane;
use butler_runtime::conditions;
use butler_testkit::{Options, PodOptions, Pods, Server, etcd::TlsEtcd};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret, Service},
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::{Figure, Process, STEWARD, figure, make_namespace};

const NAMESPACE: &str = "serving";
const READY_TENANTS: usize = 20;
/// How often the prober asks.
const BEAT: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_mins(5);
/// Requests that an upgrade takes at least.
const LEAST: usize = 10;

#[expect(clippy::cast_precision_loss, reason = "counts and kilobytes")]
pub(super) async fn measure() -> Result<Vec<Figure>> {
    let server = Server::start(Options::default().with_controller_manager()).await?;
    let etcd = TlsEtcd::start().await?;
    let _pods = Pods::start(&server, PodOptions::default().reach(etcd.port())).await?;
    let client = server.client();
    let store = etcd.data_store("default").to_string();
    server.try_apply_yaml(&store).await?;
    make_namespace(&client, NAMESPACE).await?;
    let mut steward = Process::start(&server.kubeconfig(), &STEWARD)?;
    steward.await_passes("datastore", 1, PATIENCE).await?;

    println!("one control plane, and a bare API server with the same settings");
    let ours = first_answer(&server, "t0").await?.as_secs_f64();
    ready(&client, "t0").await?;
    let bare = bare(&server).await?.as_secs_f64();

    println!("an upgrade under a prober");
    let (asked, failed) = upgrade(&server).await?;

    println!("{READY_TENANTS} more control planes that serve");
    // The first tenant brings up whatever serves all of them.
    let before = steward.memory()?;
    for number in 1..=READY_TENANTS {
        let name = format!("t{number}");
        create(&server, &name, "v1.35.4").await?;
        ready(&client, &name).await?;
    }
    let each = steward.memory()?.saturating_sub(before) as f64 / READY_TENANTS as f64;
    steward.stop()?;
    println!("{asked} requests during the upgrade, {failed} failed");
    Ok(vec![
        figure("create to /readyz", ours, f64::INFINITY, "s"),
        figure(
            "bare API server, create to /readyz",
            bare,
            f64::INFINITY,
            "s",
        ),
        figure("of ours above the bare start", ours - bare, 1.0, "s"),
        figure("failed requests during an upgrade", failed as f64, 0.0, ""),
        figure("memory for each Ready tenant", each, 150.0, "KiB"),
    ])
}

fn plane(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "controlPlane": {
                "deployment": {"replicas": 1},
                "service": {"serviceType": "LoadBalancer"},
            },
            "kubernetes": {"version": version},
        },
    })
}

async fn create(server: &Server, name: &str, version: &str) -> Result<()> {
    let text = plane(name, version).to_string();
    server.try_apply_yaml(&text).await?;
    Ok(())
}

/// From creation to the first answer of `/readyz` through the load balancer.
async fn first_answer(server: &Server, name: &str) -> Result<Duration> {
    let started = Instant::now();
    create(server, name, "v1.34.4").await?;
    let planes: Api<TenantControlPlane> = Api::namespaced(server.client(), NAMESPACE);
    let endpoint = until("an endpoint", Duration::from_millis(10), async || {
        planes.get(name).await.ok()?.status?.control_plane_endpoint
    })
    .await?;
    answers(&endpoint).await?;
    Ok(started.elapsed())
}

async fn answers(endpoint: &str) -> Result<()> {
    until("an answer", Duration::from_millis(25), async || {
        is_answered(endpoint).await.ok()
    })
    .await
}

/// Whether `/readyz`, which is open to everybody, is answered: on a connection of its own, by whoever is there.
async fn is_answered(endpoint: &str) -> Result<()> {
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .timeout(Duration::from_secs(5))
        .build()?;
    let answer = client.get(format!("https://{endpoint}/readyz")).send();
    answer.await?.error_for_status()?;
    Ok(())
}

/// What people use to reach a tenant.
async fn kubeconfig(client: &Client, name: &str) -> Result<Config> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = secrets.get(&format!("{name}-admin-kubeconfig")).await?;
    let file = secret.data.and_then(|mut data| data.remove("admin.conf"));
    let file = file.context("the Secret has a kubeconfig")?;
    let file = Kubeconfig::from_yaml(std::str::from_utf8(&file.0)?)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.read_timeout = Some(Duration::from_secs(5));
    Ok(config)
}

/// One request on a connection of its own, whose answer comes from the store; the tenant's authority must have signed
/// what the server shows.
async fn ask(config: Config) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config)?);
    namespaces.get("kube-system").await?;
    Ok(())
}

async fn until<T>(
    what: &str,
    beat: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for {what}"
        );
        tokio::time::sleep(beat).await;
    }
}

async fn ready(client: &Client, name: &str) -> Result<()> {
    let planes: Api<TenantControlPlane> = Api::namespaced(client.clone(), NAMESPACE);
    until("a Ready control plane", BEAT, async || {
        let status = planes.get(name).await.ok()?.status?;
        conditions::is_true(&status.conditions, "Ready").then_some(())
    })
    .await
}

/// The same API server, with an empty store, started without Steward: a Deployment and a Service.
async fn bare(server: &Server) -> Result<Duration> {
    let client = server.client();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let services: Api<Service> = Api::namespaced(client, NAMESPACE);
    let mut pod = deployments
        .get("t0")
        .await?
        .spec
        .and_then(|spec| spec.template.spec)
        .context("the control plane has pods")?;
    pod.containers
        .retain(|container| container.name == "kube-apiserver");
    let words = pod.containers.iter_mut().flat_map(|container| {
        let words = [&mut container.command, &mut container.args];
        words.into_iter().flatten().flatten()
    });
    for word in words {
        if word.starts_with("--etcd-prefix=") {
            word.push_str("bare");
        }
    }
    let labels = json!({"app": "bare"});
    let service = serde_json::from_value(json!({
        "metadata": {"name": "bare"},
        "spec": {
            "type": "LoadBalancer",
            "selector": labels,
            "ports": [{"port": 6443, "targetPort": 6443}],
        },
    }))?;
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "bare"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }))?;
    let started = Instant::now();
    services.create(&PostParams::default(), &service).await?;
    deployments
        .create(&PostParams::default(), &deployment)
        .await?;
    let address = until("an address", Duration::from_millis(10), async || {
        let status = services.get("bare").await.ok()?.status?;
        status.load_balancer?.ingress?.into_iter().next()?.ip
    })
    .await?;
    answers(&format!("{address}:6443")).await?;
    let took = started.elapsed();
    deployments
        .delete("bare", &kube::api::DeleteParams::default())
        .await?;
    services
        .delete("bare", &kube::api::DeleteParams::default())
        .await?;
    Ok(took)
}

/// Upgrades the first tenant while asking ten times a second; requests, and how many failed.
async fn upgrade(server: &Server) -> Result<(usize, usize)> {
    let planes: Api<TenantControlPlane> = Api::namespaced(server.client(), NAMESPACE);
    let config = kubeconfig(&server.client(), "t0").await?;
    create(server, "t0", "v1.35.4").await?;
    let started = Instant::now();
    let (mut asked, mut failed) = (0, 0);
    let mut tick = tokio::time::interval(BEAT);
    loop {
        tick.tick().await;
        asked += 1;
        if let Err(error) = ask(config.clone()).await {
            println!("a request failed: {error:#}");
            failed += 1;
        }
        let status = planes.get("t0").await?.status;
        let resources = status.and_then(|status| status.kubernetes_resources);
        let version = resources.and_then(|resources| resources.version?.version);
        if version.as_deref() == Some("v1.35.4") {
            ensure!(
                asked >= LEAST,
                "{asked} requests during an upgrade prove nothing"
            );
            return Ok((asked, failed));
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "waited {PATIENCE:?} for the upgrade"
        );
    }
}
