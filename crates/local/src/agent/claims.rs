//! Claims addresses of load balancers from the platform's pool, and says what was given.
//!
//! Claims and addresses are objects, so what was given stays while the controllers are down; new ones wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use butler_api::addresses::{IPAddress, IPAddressClaim};
use butler_fabric::Layout;
use butler_machine::provider::claims::{claim, granted};
use butler_runtime::{apply::Applier, watch::Feed};
use futures::{StreamExt as _, stream};
use kube::{Api, ResourceExt as _, core::ObjectMeta, runtime::watcher};
use tokio::{sync::watch, time::sleep};

use super::{
    addresses::{Changes, Claim, Given, Wish, given, plan},
    cluster::client_when_it_answers,
    world::View,
};
use crate::pools::BALANCERS;

const MANAGER: &str = "butler-local";
const NAMESPACE: &str = "butler-system";
/// Label of a claim: the cluster of its Service.
const CLUSTER: &str = "local.butlerlabs.dev/cluster";
/// Annotation of a claim: namespace and name of its Service.
const SERVICE: &str = "local.butlerlabs.dev/service";
/// Before a claim that could not be made or deleted is tried again.
const PAUSE: Duration = Duration::from_secs(2);

/// The clusters that there are, and what was last seen of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    pub(super) known: BTreeSet<String>,
    pub(super) views: BTreeMap<String, View>,
}

/// Never ends. Nothing is done before there are wishes, and nothing is said before all claims are known.
pub(super) async fn keep(
    kubeconfig: PathBuf,
    layout: Layout,
    mut wishes: watch::Receiver<Option<Wishes>>,
    say: watch::Sender<Option<Given>>,
) {
    let client = client_when_it_answers(&kubeconfig).await;
    let ours = watcher::Config::default().labels(CLUSTER);
    let claims = Feed::start(Api::namespaced(client.clone(), NAMESPACE), ours);
    let everything = watcher::Config::default();
    let addresses = Feed::start(Api::namespaced(client.clone(), NAMESPACE), everything);
    let news = stream::select(
        claims.subscribe().map(|_| ()),
        addresses.subscribe().map(|_| ()),
    );
    let mut news = pin!(news.ready_chunks(256));
    claims.ready().await;
    addresses.ready().await;
    let applier = Applier::new(client, MANAGER);
    loop {
        let held = held(&claims, &addresses);
        let next = Some(given(layout, &held));
        say.send_if_modified(|held| {
            let changed = *held != next;
            held.clone_from(&next);
            changed
        });
        let wanted = wishes.borrow_and_update().clone();
        let todo = wanted.map(|it| plan(&it.known, &it.views, &held));
        let done = carry_out(&applier, &claims, todo.unwrap_or_default()).await;
        tokio::select! {
            _ = news.next() => {}
            changed = wishes.changed() => if changed.is_err() { return },
            () = sleep(PAUSE), if !done => {}
        }
    }
}

/// All claims of load balancers, in their order: stores have none.
fn held(claims: &Feed<IPAddressClaim>, addresses: &Feed<IPAddress>) -> Vec<Claim> {
    let all = claims.store().state();
    let mut all: Vec<_> = all.iter().filter_map(|it| read(it, addresses)).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn read(claim: &IPAddressClaim, addresses: &Feed<IPAddress>) -> Option<Claim> {
    let name = claim.name_any();
    let address = addresses.get(Some(NAMESPACE), &name);
    let address = granted(claim, address.as_deref()).and_then(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    Some(Claim {
        wish: Wish {
            cluster: claim.labels().get(CLUSTER)?.clone(),
            service: claim.annotations().get(SERVICE)?.clone(),
        },
        name,
        address,
    })
}

/// Whether everything was done.
async fn carry_out(applier: &Applier, held: &Feed<IPAddressClaim>, changes: Changes) -> bool {
    let Changes { make, drop } = changes;
    let mut all = true;
    for wish in make {
        if let Err(error) = applier.create(&made(&wish)).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, service = wish.service, "no address could be claimed");
            all = false;
        }
    }
    for name in drop {
        let Some(claim): Option<Arc<IPAddressClaim>> = held.get(Some(NAMESPACE), &name) else {
            continue;
        };
        // One that is on its way is waited for.
        if claim.metadata.deletion_timestamp.is_some() {
            continue;
        }
        if let Err(error) = applier.delete(&*claim).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, claim = name, "an address could not be given back");
            all = false;
        }
    }
    all
}

fn made(wish: &Wish) -> IPAddressClaim {
    let metadata = ObjectMeta {
        name: Some(wish.claim()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: Some([(CLUSTER.to_owned(), wish.cluster.clone())].into()),
        annotations: Some([(SERVICE.to_owned(), wish.service.clone())].into()),
        ..ObjectMeta::default()
    };
    claim(metadata, None, BALANCERS)
}
