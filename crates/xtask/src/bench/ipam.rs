//! Figures of the address allocator: the core alone, beside its model, and through a real API server.

use std::{
    collections::HashSet,
    pin::pin,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use butler_api::{
    butler::{IPAllocation, ip_allocation::AllocationPhase},
    names,
    types::AddressRange,
};
use butler_controller::Surroundings;
use butler_ipam::{
    Layout, Pool, Request,
    model::{Dice, compare},
};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
    watch::Feed,
};
use butler_testkit::{Options, Server};
use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
    runtime::watcher,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Figure, figure};
use crate::up;

/// Allocations and releases that are timed, at least.
const PAIRS: usize = 400_000;
/// Pairs that are timed together: short, so that the one in the middle is not one that was interrupted.
const BATCH: usize = 200;
/// Random operations beside the model, over all threads.
const STEPS: u64 = 100_000_000;
/// Operations that one pool of the model lives through.
const LIFE: u64 = 1_000_000;
/// Claims, and addresses for them.
const CLAIMS: usize = 1000;
/// The most that a claim of the timed pools asks for.
const LONGEST: u64 = 16;

pub(super) fn measure() -> Result<Vec<Figure>> {
    let small = pair("10.0.0.0/20")?;
    let middle = pair("10.0.0.0/16")?;
    let large = pair("10.0.0.0/8")?;
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    let prepared = runtime.block_on(grants(true))?;
    let plain = runtime.block_on(grants(false))?;
    let started = Instant::now();
    model()?;
    println!(
        "{STEPS} operations beside the model in {:.0?}",
        started.elapsed()
    );
    Ok(vec![
        figure("allocate+release, fragmented /20", small, 1000.0, "ns"),
        figure("allocate+release, fragmented /16", middle, 1000.0, "ns"),
        figure("allocate+release, fragmented /8", large, 3000.0, "ns"),
        figure("cost at a /8 against a /20", large / small, 3.0, "x"),
        figure(
            "differences from the model in 10^8 operations",
            0.0,
            0.0,
            "",
        ),
        figure(
            "1,000 claims on 1,000 addresses, as Butler makes them",
            prepared,
            3.33,
            "ms each",
        ),
        figure(
            "1,000 claims on 1,000 addresses, as people make them",
            plain,
            3.33,
            "ms each",
        ),
    ])
}

/// Nanoseconds for giving back one of many holdings, drawn by chance, and taking another: in a pool that was filled with
/// holdings of 1 to 16 addresses, of which every other one was given back.
fn pair(cidr: &str) -> Result<f64> {
    let layout = Layout::new(cidr.parse()?, &[], &[], None)?;
    let mut pool = Pool::new(layout);
    let mut dice = Dice::new(1);
    let mut held: Vec<AddressRange> = Vec::new();
    let ask = |pool: &mut Pool, dice: &mut Dice| {
        let request = Request {
            count: u128::from(1 + dice.below(LONGEST)),
            owner: "bench",
            prefer: &[],
            several: false,
        };
        pool.allocate(&request)
            .map(|ranges| ranges.into_iter().next())
    };
    while let Ok(Some(range)) = ask(&mut pool, &mut dice) {
        held.push(range);
    }
    let mut number = 0;
    held.retain(|range| {
        number += 1;
        number % 2 == 0 || !pool.release(*range, "bench", None)
    });
    let figures = pool.figures();
    let holdings = held.len();
    // Replacing mends the holes, so every round starts from the same fragmented pool and replaces a quarter.
    let batches = (held.len() / 4 / BATCH).max(1);
    let mut rounds = Vec::new();
    for _ in 0..(PAIRS / BATCH / batches).max(5) {
        let (mut pool, mut held) = (pool.clone(), held.clone());
        for _ in 0..batches {
            // Drawn before the clock starts: who holds what is not for the allocator to know.
            let mut drawn = Vec::with_capacity(BATCH);
            while drawn.len() < BATCH && !held.is_empty() {
                let place = usize::try_from(dice.below(held.len() as u64))?;
                drawn.push(held.swap_remove(place));
            }
            let started = Instant::now();
            for slot in &mut drawn {
                if !pool.release(*slot, "bench", None) {
                    bail!("{slot} could not be given back");
                }
                *slot = ask(&mut pool, &mut dice)?.context("a pool that is half free has room")?;
            }
            let count = u32::try_from(drawn.len())?;
            rounds.push(started.elapsed().div_f64(count.into()));
            held.extend(drawn);
        }
    }
    rounds.sort();
    let middle = rounds.get(rounds.len() / 2).context("a round")?;
    let each = middle.as_secs_f64() * 1e9;
    println!(
        "{cidr}: {holdings} holdings, {} free, {} % outside the longest run: {each:.0} ns, {:.2} million pairs a second",
        figures.free,
        figures.fragmentation,
        1e3 / each
    );
    Ok(each)
}

/// Random operations with the allocator and with its model, on both cores.
fn model() -> Result<()> {
    let lives = STEPS / LIFE;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                scope.spawn(move || {
                    (worker..lives)
                        .step_by(2)
                        .try_for_each(|seed| compare(seed + 1, LIFE))
                })
            })
            .collect();
        for worker in workers {
            let result = worker
                .join()
                .map_err(|_| anyhow!("a comparison panicked"))?;
            result.map_err(|difference| anyhow!(difference))?;
        }
        Ok(())
    })
}

const SCENE: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: NetworkPool
metadata: {name: bench, namespace: butler-system}
spec: {cidr: 10.40.0.0/16, tenantAllocation: {start: 10.40.0.1, end: 10.40.3.232}}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: bench, namespace: default}
spec: {kubernetesVersion: v1.35.4, workers: {replicas: 1}}
";

/// Milliseconds for each of a thousand claims that wait when the controllers start, from the first grant to the last;
/// with the finalizer that Butler's own claims are made with, or without.
#[expect(clippy::cast_precision_loss, reason = "a thousand")]
async fn grants(finalizer: bool) -> Result<f64> {
    let server = Server::start(Options::default()).await?;
    up::apply(&server, "rbac").await?;
    server.try_apply_yaml(SCENE).await?;
    let api: Api<IPAllocation> = Api::namespaced(server.client(), names::SYSTEM_NAMESPACE);
    let claims: Vec<IPAllocation> = (0..CLAIMS)
        .map(|number| claim(number, finalizer))
        .collect::<Result<_>>()?;
    let params = PostParams::default();
    let made = claims.iter().map(|claim| api.create(&params, claim));
    let made: Vec<_> = stream::iter(made).buffer_unordered(16).collect().await;
    made.into_iter().collect::<Result<Vec<_>, _>>()?;

    // Watched, not counted over and over: lists of a thousand claims would be most of the server's work.
    let feed = Feed::start(api.clone(), watcher::Config::default());
    feed.ready().await;
    let stop = CancellationToken::new();
    let started = Instant::now();
    let _controllers = controllers(&server, &stop);
    let (mut granted, mut first) = (HashSet::new(), None);
    let all_served = async {
        let mut changes = pin!(feed.present());
        while granted.len() < CLAIMS
            && let Some(claim) = changes.next().await
        {
            let status = claim.status.as_ref();
            if status.is_some_and(|status| status.phase == Some(AllocationPhase::Allocated)) {
                first.get_or_insert_with(|| started.elapsed());
                granted.insert(claim.name_any());
            }
        }
    };
    let in_time = timeout(Duration::from_mins(2), all_served).await.is_ok();
    let first = first.unwrap_or_default();
    let elapsed = started.elapsed().saturating_sub(first);
    if !in_time {
        bail!(
            "{} of {CLAIMS} claims were served in two minutes",
            granted.len()
        );
    }
    let all = api.list(&ListParams::default()).await?;
    let held = all
        .into_iter()
        .flat_map(|claim| claim.status.unwrap_or_default().addresses);
    let addresses: HashSet<String> = held.collect();
    if addresses.len() != CLAIMS {
        bail!("{} addresses for {CLAIMS} claims", addresses.len());
    }
    let each = elapsed.as_secs_f64() * 1e3 / CLAIMS as f64;
    println!(
        "{CLAIMS} claims, finalizer set by their maker: {finalizer}: {:.0} grants a second, the first after {first:.1?}",
        1e3 / each
    );
    Ok(each)
}

fn claim(number: usize, finalizer: bool) -> Result<IPAllocation> {
    let finalizers = if finalizer {
        vec![names::ALLOCATION_FINALIZER]
    } else {
        Vec::new()
    };
    Ok(serde_json::from_value(serde_json::json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "IPAllocation",
        "metadata": {"name": format!("c{number}"), "finalizers": finalizers},
        "spec": {
            "poolRef": {"name": "bench"}, "type": "loadbalancer", "count": 1,
            "tenantClusterRef": {"name": "bench", "namespace": "default"},
        },
    }))?)
}

fn controllers(server: &Server, stop: &CancellationToken) -> Task {
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        Metrics::default(),
        Readiness::default(),
    );
    let client = server.client_for(&up::controller_user());
    task::spawn(
        "controllers",
        butler_controller::run(client, surroundings, stop.clone()),
    )
}
