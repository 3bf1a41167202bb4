//! Team: a namespace of its own, and the members' roles in it.

mod members;
mod plan;

use std::sync::Arc;

use butler_api::{
    butler::{Team, team::TeamStatus},
    names,
    types::{TeamName, names::NameError},
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
};
use futures::{Stream, StreamExt, future};
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

/// Teams to look at because something of theirs changed: a namespace, a binding, a cluster.
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
    let teams = feeds.teams.store();
    futures::stream::select(namespaces, futures::stream::select(bindings, clusters)).filter_map(
        move |name| {
            let team = name.map(|name| ObjectRef::new(&name));
            future::ready(team.filter(|team| teams.get(team).is_some()))
        },
    )
}

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
        let next = TeamStatus {
            observed_generation: generation,
            phase: Some(plan.phase),
            namespace: match &plan.namespace {
                NamespaceStep::Create(_) | NamespaceStep::Apply(_) => Some(spec.name.to_string()),
                NamespaceStep::Leave | NamespaceStep::Delete => None,
            },
            member_count: i32::try_from(spec.members.count()).ok(),
            cluster_count: i32::try_from(world.clusters.len()).ok(),
            conditions: conditions::settle(
                conditions,
                &plan.verdicts,
                generation,
                self.clock.now(),
            ),
            ..TeamStatus::default()
        };
        status::report(&self.applier, team, held, &next).await?;
        Ok(())
    }
}
