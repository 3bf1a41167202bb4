//! `TenantCluster`: from a spec to a cluster on Cluster API, and back to nothing.
//!
//! What has to be done is decided by `butler-capi`, which knows no client. Here the world is read into plain data,
//! the plan is carried out, and what was found is reported.

mod access;
mod addons;
mod assumed;
mod calls;
mod carry_out;
mod credentials;
mod definitions;
mod dns;
mod ending;
mod identify;
mod infrastructure;
mod inside;
mod join;
pub mod limited;
mod live;
mod machine_addresses;
mod network;
mod observe;
mod on_demand;
mod pools;
pub mod preview;
pub(crate) mod quota;
mod report;
mod retry;
mod seen;
pub(crate) mod sources;
mod triggers;

use std::sync::Arc;

use butler_api::butler::TenantCluster;
use butler_capi::{Plan, addresses::Facts, plan};
use butler_runtime::{
    apply::{Applier, Outcome},
    clock::SharedClock,
    controller::{self, Bounds, Reconciler, Wake},
    error::{ApiError, Category, Classify, chain},
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
    sync::received,
    watch::Feed,
};
use butler_steward::Reach;
use carry_out::{Place, Standing};
use credentials::Credentials;
use definitions::Definitions;
use futures::{StreamExt as _, future, stream};
use infrastructure::Infrastructure;
use jiff::Timestamp;
use kube::{Api, Client, runtime::watcher};
use live::Children;
use sources::Sources;
use tokio_util::sync::CancellationToken;

use crate::{
    Feeds, MANAGER, Surroundings,
    shortages::{News, Shortages},
};

/// Keeps a cluster until nothing of it is left.
pub const FINALIZER: &str = "butler.butlerlabs.dev/tenantcluster";

/// Runs until `shutdown` is cancelled. Nothing is decided before everything that clusters are made of is known; only those
/// that go are looked at, because that is never done through a watch.
pub(crate) async fn run(
    client: &Client,
    feeds: &Arc<Feeds>,
    surroundings: &Surroundings,
    (shortages, news): (&Shortages, News),
    shutdown: &CancellationToken,
) {
    let clusters: Arc<Feed<TenantCluster>> = Arc::new(Feed::start_by_namespace(
        Api::all(client.clone()),
        watcher::Config::default(),
    ));
    let children = Children::start(client);
    let definitions = Definitions::look(client, &children);
    tokio::select! {
        () = shutdown.cancelled() => return,
        ((), ()) = future::join(clusters.ready(), definitions.settled()) => {}
    }
    let (infrastructure, changes) = Infrastructure::new(client);
    let (credentials, rotated) = Credentials::new(client);
    let of_all = stream::select(rotated.map(drop), definitions.changes());
    let changes = stream::select(children.changes(), changes);
    let of_addons = addons::triggers(feeds, &clusters);
    let book = Arc::<quota::Book>::default();
    let unserved = network::Unserved::default();
    let of_addresses = stream::select(
        network::triggers(feeds.pools.subscribe(), &unserved),
        received(news),
    );
    let of_limits = stream::select(quota::triggers(feeds, &clusters, &book), of_addresses);
    let triggers = stream::select(
        stream::select(
            triggers::of_parts(feeds, changes, of_all, &clusters),
            of_addons,
        ),
        of_limits,
    );
    let reconciler = Controller {
        definitions,
        infrastructure,
        credentials,
        looks: join::Looks::default(),
        dns: dns::Awaited::default(),
        feeds: Arc::clone(feeds),
        clusters: Arc::clone(&clusters),
        book,
        unserved,
        shortages: shortages.clone(),
        children,
        applier: Applier::new(client.clone(), MANAGER),
        events: Events::new(client.clone(), MANAGER, Arc::clone(&surroundings.clock)),
        clock: Arc::clone(&surroundings.clock),
        reach: surroundings.reach,
    };
    let bounds = Bounds {
        concurrency: 32,
        ..Bounds::default()
    };
    controller::run(
        reconciler,
        &clusters,
        triggers,
        bounds,
        surroundings.reconciles.clone(),
        shutdown.clone(),
    )
    .await;
}

/// Reconciles tenant clusters.
struct Controller {
    feeds: Arc<Feeds>,
    clusters: Arc<Feed<TenantCluster>>,
    book: Arc<quota::Book>,
    unserved: network::Unserved,
    shortages: Shortages,
    children: Arc<Children>,
    definitions: Definitions,
    infrastructure: Infrastructure,
    credentials: Credentials,
    looks: join::Looks,
    dns: dns::Awaited,
    applier: Applier,
    events: Events,
    clock: SharedClock,
    reach: Reach,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl Classify for Error {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) => error.category(),
        }
    }
}

impl Reconciler for Controller {
    type Object = TenantCluster;
    type Error = Error;
    const NAME: &'static str = "tenantcluster";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<TenantCluster>) -> Result<Wake, Error> {
        let held = finalizers::has(&*raw, FINALIZER);
        if raw.metadata.deletion_timestamp.is_some() {
            return if held {
                self.end(&raw).await
            } else {
                Ok(Wake::OnChange)
            };
        }
        if let Some(missing) = self.definitions.missing() {
            self.refuse(&raw, "ClusterAPIMissing", missing).await?;
            return Ok(Wake::OnChange);
        }
        let sources = match Sources::of(&self.feeds, &raw) {
            Ok(sources) => sources,
            Err((reason, message)) => {
                self.keep_access(&raw).await?;
                self.refuse(&raw, reason, message).await?;
                return Ok(Wake::OnChange);
            }
        };
        let quota = self.book.judge(&self.feeds, &self.clusters, &raw, &sources);
        if let Some(excess) = &quota.refused {
            let next = quota::refused(&raw, excess, self.clock.now());
            status::report(&self.applier, &*raw, raw.status.as_ref(), &next).await?;
            return Ok(Wake::OnChange);
        }
        // Only what was made has to be removed.
        if !held {
            finalizers::add(&self.applier.beside(&*raw), &*raw, FINALIZER).await?;
        }
        let spec = &sources.spec;
        let namespace = spec.identity.tenant_namespace();
        let place = Place {
            applier: &self.applier,
            namespace: &namespace,
            home: &spec.identity.namespace,
        };
        let now = self.clock.now();
        let (mut observed, standing) = self.observe(&raw, spec, &place).await?;
        observed.quota = quota;
        observed.addresses = Some(Facts {
            shortage: self.shortages.of(&spec.identity.uid),
            ..self.unserved.look(&self.feeds, &sources)
        });
        observed.inputs.access = access::of(sources.team.as_deref());
        observed.inputs.catalogue = addons::catalogue(&self.feeds, spec, &observed.addons);
        observed.inputs.load_balancer_ranges = addons::ranges(&self.feeds, spec);
        observed.inputs.credentials = self.credentials.of(&sources.provider).await;
        if !spec.paused {
            self.add_machine_addresses(&sources, &mut observed).await?;
            self.add_joining(spec, &place, &mut observed, now).await;
            self.identify_nodes(spec, &observed).await;
            observed.dns = self.look_at_dns(spec, &observed, now).await;
            observed.removed_apis = self.look_at_calls(spec, &observed, now).await;
        }
        let plan = plan(spec, &observed, now);
        if let Err(error) = carry_out(&place, &plan, &standing).await {
            // What passes by itself is not worth a word.
            if !matches!(error.category(), Category::Conflict | Category::Unavailable) {
                let reason = error.category().as_str();
                self.refuse(&raw, reason, explained(&error)).await?;
            }
            return Err(error);
        }
        let next = report::status(
            &raw,
            &spec.identity,
            Some(&spec.addons),
            &observed,
            &plan,
            now,
        );
        let held = raw.status.as_ref();
        let reported = status::report_in_turn(&self.applier, &*raw, held, &next).await?;
        if reported != Outcome::PutOff {
            retry::consume(&self.applier, &raw).await?;
        }
        Ok(wake(&plan, now))
    }
}

/// Objects in their order, then what is no longer wanted.
async fn carry_out(place: &Place<'_>, plan: &Plan, standing: &Standing) -> Result<(), Error> {
    for object in &plan.objects {
        place.apply(object, standing.get(&object.id())).await?;
    }
    for id in &plan.changes.delete {
        place.delete(id, standing.get(id)).await?;
    }
    if let Some(cluster) = &plan.resume {
        place.resume(cluster).await?;
    }
    Ok(())
}

fn wake(plan: &Plan, now: Timestamp) -> Wake {
    plan.wake.map_or(Wake::OnChange, |at| {
        Wake::After(at.duration_since(now).unsigned_abs())
    })
}

/// What went wrong, and what can be done about it.
fn explained(error: &Error) -> String {
    let said = chain(error);
    match error.category() {
        Category::NotFound => {
            format!("{said}; is the Cluster API provider installed that has this kind?")
        }
        _ => said,
    }
}

impl Controller {
    /// Says that nothing can be done, and why.
    async fn refuse(
        &self,
        raw: &TenantCluster,
        reason: &'static str,
        message: String,
    ) -> Result<(), Error> {
        let next = report::refused(raw, reason, message, self.clock.now());
        status::report(&self.applier, raw, raw.status.as_ref(), &next).await?;
        retry::consume(&self.applier, raw).await?;
        Ok(())
    }
}
