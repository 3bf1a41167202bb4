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
pub mod preview;
pub(crate) mod quota;
mod report;
mod retry;
pub(crate) mod sources;

use std::sync::Arc;

use butler_api::{
    butler::{TenantAddon, TenantCluster},
    names,
};
use butler_capi::{
    Observed, Plan, TenantSpec,
    addresses::Facts,
    day2::Calls,
    observe::{Inputs, Standing as NamespaceStanding},
    plan,
    plan::inside::Inside,
    quota::Quota,
};
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
use carry_out::{Place, Standing, index};
use credentials::Credentials;
use definitions::Definitions;
use futures::{Stream, StreamExt as _, future, stream};
use infrastructure::Infrastructure;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{reflector::ObjectRef, watcher},
};
use live::Children;
use serde_json::{Value, json};
use sources::Sources;
use tokio_util::sync::CancellationToken;

use crate::{
    Feeds, MANAGER, Surroundings, namespaces,
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
        stream::select(triggers(feeds, changes, of_all, &clusters), of_addons),
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

/// Clusters to look at because something they are made of or from changed.
fn triggers<C, R>(
    feeds: &Feeds,
    of_children: C,
    of_all: R,
    clusters: &Feed<TenantCluster>,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send + use<C, R>
where
    C: Stream<Item = String> + Send + 'static,
    R: Stream<Item = ()> + Send + 'static,
{
    // The tenant namespace names its cluster; it goes last, and its going is a change of its own.
    let spaces = feeds.namespaces.store();
    let of_children = of_children.filter_map(move |namespace| {
        let found = spaces.get(&ObjectRef::new(&namespace));
        future::ready(found.and_then(|namespace| source(&namespace)))
    });
    let of_namespaces = feeds
        .namespaces
        .subscribe()
        .filter_map(|change| future::ready(source(change.object())));
    // A provider, its credentials, the platform's defaults or Cluster API itself are behind every cluster.
    let store = clusters.store();
    let changes = stream::select(
        feeds.providers.subscribe().map(|_| ()),
        feeds.configs.subscribe().map(|_| ()),
    );
    let changes = stream::select(changes, of_all);
    let of_all = changes.flat_map(move |()| {
        let all = store.state();
        stream::iter(
            all.into_iter()
                .map(|cluster| ObjectRef::from_obj(&*cluster)),
        )
    });
    stream::select(of_all, stream::select(of_children, of_namespaces))
}

/// The cluster that a tenant namespace was made for.
fn source(namespace: &Namespace) -> Option<ObjectRef<TenantCluster>> {
    let label = |key: &str| namespace.labels().get(key);
    let name = label(names::SOURCE_NAME).or_else(|| label(names::TENANT))?;
    Some(ObjectRef::new(name).within(label(names::SOURCE_NAMESPACE)?))
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

    /// From the watches.
    async fn observe(
        &self,
        raw: &TenantCluster,
        spec: &TenantSpec,
        place: &Place<'_>,
    ) -> Result<(Observed, Standing), Error> {
        let uid = &spec.identity.uid;
        let machines = self.children.machines.all_in(place.namespace);
        let machines = machines.iter().map(|packed| json!(packed.unpack()));
        let machines: Vec<Value> = machines.collect();
        let namespace = self.feeds.namespaces.get(None, place.namespace);
        let addons = addons::watched(&self.feeds, &spec.identity);
        let mut objects = self.children.objects(place.namespace);
        let kinds = spec.infrastructure.kinds();
        match self.infrastructure.objects(kinds, place.namespace).await {
            Some(known) => objects.extend(known),
            None => objects.extend(place.infrastructure(kinds).await?),
        }
        objects.extend(addons.iter().map(|addon| addons::described(addon)));
        objects.retain(|object| observe::is_of(object, uid));
        let seen = Seen {
            objects: &objects,
            machines: &machines,
            namespace: namespace.as_deref(),
            addons: &addons,
        };
        let mut observed = observed(raw, uid, &seen);
        if observed.pools.values().any(observe::seems_replaced) {
            let sets = place.list("cluster.x-k8s.io/v1beta2", "MachineSet");
            observe::distrust(&mut observed.pools, &sets.await?);
        }
        let mut standing = index(objects);
        if let Some(namespace) = namespace {
            let value = observe::described(json!(*namespace), "v1", "Namespace");
            standing.insert(observe::id(&value), value);
        }
        Ok((observed, standing))
    }
}

/// What stands of a cluster.
struct Seen<'a> {
    objects: &'a [Value],
    machines: &'a [Value],
    namespace: Option<&'a Namespace>,
    addons: &'a [Arc<TenantAddon>],
}

/// What is known of a cluster, from what stands of it.
fn observed(raw: &TenantCluster, uid: &str, seen: &Seen<'_>) -> Observed {
    let Seen {
        objects,
        machines,
        namespace,
        addons,
    } = *seen;
    let find = |kind: &str| objects.iter().find(|object| observe::is_a(object, kind));
    Observed {
        deletion: raw.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        forced: raw.annotations().contains_key(names::FORCE_DELETE),
        phase: raw.status.as_ref().and_then(|status| status.phase),
        is_reported: is_reported(raw),
        retry: raw.annotations().contains_key(names::RETRY),
        namespace: standing_of(namespace, uid),
        control_plane: find("StewardControlPlane").and_then(observe::control_plane),
        cluster: find("Cluster").map(observe::cluster),
        pools: observe::pools(objects.iter()),
        machines: machines.iter().map(observe::machine).collect(),
        objects: objects
            .iter()
            .map(|object| (observe::id(object), observe::hash(object)))
            .collect(),
        addons: addons::facts(addons, uid),
        addresses: None,
        dns: None,
        inside: Inside::default(),
        left: None,
        remains: None,
        removed_apis: Calls::default(),
        failure: observe::failure(objects, machines),
        quota: Quota::default(),
        inputs: Inputs::default(),
    }
}

fn is_reported(raw: &TenantCluster) -> bool {
    let status = raw.status.as_ref();
    status.and_then(|status| status.observed_generation) == raw.metadata.generation
}

fn standing_of(namespace: Option<&Namespace>, uid: &str) -> NamespaceStanding {
    match namespaces::Standing::of(namespace, uid) {
        namespaces::Standing::Missing => NamespaceStanding::Missing,
        namespaces::Standing::Ours(_) => NamespaceStanding::Ours,
        namespaces::Standing::Ending => NamespaceStanding::Ending,
        namespaces::Standing::Foreign => NamespaceStanding::Foreign,
    }
}
