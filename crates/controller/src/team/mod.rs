//! Team: a namespace of its own, and the members' roles in it.

mod members;
mod plan;
mod usage;

use std::{sync::Arc, time::Duration};

use butler_api::{
    butler::{Team, team::TeamStatus},
    names,
    types::{TeamName, names::NameError},
};
use butler_capi::{
    names::tenant_namespace,
    quota::{Limits, Sizes},
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{Reconciler, Wake},
    error::{ApiError, Category, Classify},
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
    sync::gather,
};
use futures::{Stream, StreamExt, future, stream};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{Api, Client, ResourceExt, api::ListParams, runtime::reflector::ObjectRef};
pub(crate) use members::Members;
pub use members::Role;
pub(crate) use plan::subject;
pub use plan::{NamespaceStep, Plan, Spec, World, plan};

use crate::{
    Feeds, MANAGER, Surroundings,
    namespaces::{self, Standing},
    slim::ClusterSummary,
    tenant_cluster::quota::granted_by,
};

/// Reconciles teams.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    events: Events,
    clock: SharedClock,
}

/// Why a team could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The name cannot be a team's; the schema refuses it, so the object is older than the rule.
    #[error("team {name:?} has a name that cannot be used")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: NameError,
    },
}

impl Classify for Error {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) => error.category(),
            Self::Name { .. } => Category::Invalid,
        }
    }
}

/// Teams to look at because something of theirs changed: a namespace, a binding, a cluster, what a cluster was granted, or
/// the limits of teams without their own.
pub(crate) fn triggers(feeds: &Feeds) -> impl Stream<Item = ObjectRef<Team>> + Send + use<> {
    // A team's namespace has its name, so every one of these changes names its team.
    let namespaces = feeds
        .namespaces
        .subscribe()
        .map(|change| Some(change.object().name_any()));
    let bindings = feeds
        .bindings
        .subscribe()
        .map(|change| change.object().namespace());
    let clusters = feeds
        .clusters
        .subscribe()
        .map(|change| change.object().namespace());
    let grants = feeds.namespaces.subscribe().map(|change| {
        let labels = change.object().labels();
        labels.get(names::SOURCE_NAMESPACE).cloned()
    });
    let counted = stream::select(clusters, grants).filter_map(future::ready);
    let store = feeds.teams.store();
    let limits = feeds.configs.subscribe().flat_map(move |_| {
        let all = store.state();
        let names: Vec<_> = all.iter().map(|team| Some(team.name_any())).collect();
        stream::iter(names)
    });
    let teams = feeds.teams.store();
    let at_once = stream::select(limits, stream::select(namespaces, bindings));
    stream::select(at_once, gather(counted, MOMENT).map(Some)).filter_map(move |name| {
        let team = name.map(|name| ObjectRef::new(&name));
        future::ready(team.filter(|team| teams.get(team).is_some()))
    })
}

/// How long changes of clusters are gathered: a team may have thousands, and counting them for each is not worth it.
const MOMENT: Duration = Duration::from_millis(500);

impl Reconciler for Controller {
    type Object = Team;
    type Error = Error;
    const NAME: &'static str = "team";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, team: Arc<Team>) -> Result<Wake, Error> {
        if finalizers::has(&*team, names::TEAM_FINALIZER) {
        } else if team.metadata.deletion_timestamp.is_some() {
            return Ok(Wake::OnChange);
        } else {
            finalizers::add(&self.teams(), &*team, names::TEAM_FINALIZER).await?;
        }
        let spec = validate(&team)?;
        let world = self.observe(&spec).await?;
        let plan = plan(&spec, &world);
        self.apply(&spec, &world, &plan).await?;
        for note in &plan.notes {
            self.events.tell(&*team, note).await;
        }
        if plan.release {
            finalizers::remove(&self.teams(), &*team, names::TEAM_FINALIZER).await?;
        } else {
            self.report(&team, &spec, &world, &plan).await?;
        }
        Ok(plan.wake)
    }
}

fn validate(team: &Team) -> Result<Spec, Error> {
    let name = team.name_any();
    let checked = name.parse::<TeamName>().map_err(|source| Error::Name {
        name: name.clone(),
        source,
    })?;
    Ok(Spec {
        name: checked,
        uid: team.uid().unwrap_or_default(),
        display_name: team.spec.display_name.clone().unwrap_or(name),
        members: Members::of(&team.spec.access),
        deleting: team.metadata.deletion_timestamp.is_some(),
    })
}

impl Controller {
    pub(crate) fn new(client: &Client, feeds: &Arc<Feeds>, surroundings: &Surroundings) -> Self {
        let clock = Arc::clone(&surroundings.clock);
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            events: Events::new(client.clone(), MANAGER, Arc::clone(&clock)),
            clock,
        }
    }

    fn teams(&self) -> Api<Team> {
        Api::all(self.applier.client().clone())
    }

    /// From the watches; a team that goes is judged by live reads, since a cache can be behind and what is
    /// deleted does not come back.
    async fn observe(&self, spec: &Spec) -> Result<World, Error> {
        let name = spec.name.as_str();
        if !spec.deleting {
            let namespace = self.feeds.namespaces.get(None, name);
            return Ok(World {
                namespace: Standing::of(namespace.as_deref(), &spec.uid),
                clusters: self.clusters_seen(name),
            });
        }
        let client = self.applier.client();
        let namespace = Api::<Namespace>::all(client.clone())
            .get_opt(name)
            .await
            .map_err(ApiError::of("get", "Namespace", name))?;
        let clusters = Api::<ClusterSummary>::namespaced(client.clone(), name)
            .list(&ListParams::default())
            .await
            .map_err(ApiError::of("list", "TenantClusters of", name))?;
        let mut clusters: Vec<String> = clusters.iter().map(ResourceExt::name_any).collect();
        clusters.sort();
        Ok(World {
            namespace: Standing::of(namespace.as_ref(), &spec.uid),
            clusters,
        })
    }

    fn clusters_seen(&self, namespace: &str) -> Vec<String> {
        let mut clusters: Vec<String> = self
            .feeds
            .clusters
            .all_in(namespace)
            .iter()
            .map(|cluster| cluster.name_any())
            .collect();
        clusters.sort();
        clusters
    }

    /// What the clusters of a namespace were granted; nothing is taken by those that were refused.
    fn granted(&self, namespace: &str) -> Vec<Sizes> {
        let clusters = self.feeds.clusters.all_in(namespace);
        let granted = clusters.iter().filter_map(|cluster| {
            let uid = cluster.uid()?;
            let home = tenant_namespace(&cluster.name_any(), &uid);
            granted_by(&*self.feeds.namespaces.get(None, &home)?, &uid, None)
        });
        granted.collect()
    }

    /// Namespace, then bindings, then what is no longer wanted.
    async fn apply(&self, spec: &Spec, world: &World, plan: &Plan) -> Result<(), Error> {
        let live = match &world.namespace {
            Standing::Ours(namespace) => Some(&**namespace),
            Standing::Missing | Standing::Ending | Standing::Foreign => None,
        };
        match &plan.namespace {
            NamespaceStep::Leave => {}
            NamespaceStep::Create(wanted) => self.applier.create(&**wanted).await?,
            NamespaceStep::Apply(wanted) => {
                self.applier.apply(&**wanted, live).await?;
            }
            NamespaceStep::Delete => {
                if let Some(live) = live {
                    self.applier.delete(live).await?;
                }
                // The bindings go with their namespace.
                return Ok(());
            }
        }
        let held = self.bindings_of(spec);
        for wanted in &plan.bindings {
            let live = held
                .iter()
                .find(|binding| binding.name_any() == wanted.name_any());
            self.applier
                .apply(wanted, live.map(|binding| &**binding))
                .await?;
        }
        let held: Vec<RoleBinding> = held.iter().map(|binding| (**binding).clone()).collect();
        self.applier.prune(&held, &plan.bindings).await?;
        Ok(())
    }

    fn bindings_of(&self, spec: &Spec) -> Vec<Arc<RoleBinding>> {
        self.feeds.bindings.store().state_filter(|binding| {
            binding.metadata.namespace.as_deref() == Some(spec.name.as_str())
                && namespaces::is_owned_by(binding.labels(), &spec.uid)
        })
    }

    async fn report(
        &self,
        team: &Team,
        spec: &Spec,
        world: &World,
        plan: &Plan,
    ) -> Result<(), Error> {
        let held = team.status.as_ref();
        let conditions = held
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let generation = team.metadata.generation;
        let platform = self.feeds.configs.get(None, names::BUTLER_CONFIG);
        let platform = platform.map_or_else(Default::default, |config| config.spec.clone());
        let limits = Limits::of(Some(team), &platform, std::iter::empty());
        let used = usage::report(&limits.team, &self.granted(spec.name.as_str()));
        let mut verdicts = plan.verdicts.clone();
        verdicts.push(used.verdict);
        let next = TeamStatus {
            observed_generation: generation,
            phase: Some(plan.phase),
            namespace: match &plan.namespace {
                NamespaceStep::Create(_) | NamespaceStep::Apply(_) => Some(spec.name.to_string()),
                NamespaceStep::Leave | NamespaceStep::Delete => None,
            },
            member_count: i32::try_from(spec.members.count()).ok(),
            cluster_count: i32::try_from(world.clusters.len()).ok(),
            conditions: conditions::settle(conditions, &verdicts, generation, self.clock.now()),
            resource_usage: Some(used.usage),
            quota_status: Some(used.status),
            quota_message: used.message,
        };
        status::report(&self.applier, team, held, &next).await?;
        Ok(())
    }
}
