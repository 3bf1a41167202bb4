//! The platform's one configuration (`ButlerConfig`), its default namespace, and the counts on it.

mod plan;

use std::{collections::BTreeMap, sync::Arc};

use butler_api::{
    butler::{
        ButlerConfig,
        butler_config::{ButlerConfigStatus, MultiTenancyMode},
    },
    names,
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{Reconciler, Wake},
    error::ApiError,
    metrics::Metrics,
    own_writes::OwnWrites,
    status,
};
use futures::{Stream, StreamExt};
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};
pub use plan::{NamespaceStep, Plan, Spec, World, plan};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

use crate::{Feeds, MANAGER, Surroundings, namespaces::Standing};

/// Reconciles the configuration.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    clock: SharedClock,
    gauge: ClusterGauge,
}

/// The configuration counts teams and clusters, so each of them that comes or goes is a reason to look.
pub(crate) fn triggers(
    feeds: &Feeds,
) -> impl Stream<Item = ObjectRef<ButlerConfig>> + Send + use<> {
    let teams = feeds.teams.subscribe().map(drop);
    let clusters = feeds.clusters.subscribe().map(drop);
    let namespaces = feeds.namespaces.subscribe().map(drop);
    futures::stream::select(teams, futures::stream::select(clusters, namespaces))
        .map(|()| ObjectRef::new(names::BUTLER_CONFIG))
}

impl Reconciler for Controller {
    type Object = ButlerConfig;
    type Error = ApiError;
    const NAME: &'static str = "butlerconfig";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, config: Arc<ButlerConfig>) -> Result<Wake, ApiError> {
        let spec = validate(&config);
        let world = self.observe(&spec);
        let plan = plan(&spec, &world);
        self.apply(&world, &plan).await?;
        self.gauge.set(&world.clusters);
        self.report(&config, &spec, &world, &plan).await?;
        Ok(plan.wake)
    }
}

fn validate(config: &ButlerConfig) -> Spec {
    let spec = &config.spec;
    Spec {
        uid: config.uid().unwrap_or_default(),
        teams_enforced: spec.multi_tenancy.mode == MultiTenancyMode::Enforced,
        default_namespace: spec.default_namespace.clone(),
        exposure: spec.control_plane_exposure.mode,
    }
}

impl Controller {
    pub(crate) fn new(client: &Client, feeds: &Arc<Feeds>, surroundings: &Surroundings) -> Self {
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            clock: Arc::clone(&surroundings.clock),
            gauge: surroundings.clusters.clone(),
        }
    }

    fn observe(&self, spec: &Spec) -> World {
        let namespace = self.feeds.namespaces.get(None, &spec.default_namespace);
        let mut clusters = BTreeMap::new();
        for cluster in self.feeds.clusters.store().state() {
            let phase = cluster
                .status
                .phase
                .clone()
                .unwrap_or_else(|| "Pending".to_owned());
            *clusters.entry(phase).or_default() += 1;
        }
        World {
            namespace: Standing::of(namespace.as_deref(), &spec.uid),
            teams: self.feeds.teams.store().len(),
            clusters,
        }
    }

    async fn apply(&self, world: &World, plan: &Plan) -> Result<(), ApiError> {
        match (&plan.namespace, &world.namespace) {
            (NamespaceStep::Leave, _) => Ok(()),
            (NamespaceStep::Create(wanted), _) => self.applier.create(&**wanted).await,
            (NamespaceStep::Apply(wanted), Standing::Ours(live)) => {
                self.applier.apply(&**wanted, Some(&**live)).await.map(drop)
            }
            (NamespaceStep::Apply(wanted), _) => {
                self.applier.apply(&**wanted, None).await.map(drop)
            }
        }
    }

    async fn report(
        &self,
        config: &ButlerConfig,
        spec: &Spec,
        world: &World,
        plan: &Plan,
    ) -> Result<(), ApiError> {
        let held = config.status.as_ref();
        let conditions = held
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let generation = config.metadata.generation;
        let clusters: usize = world.clusters.values().sum();
        let next = ButlerConfigStatus {
            observed_generation: generation,
            team_count: i32::try_from(world.teams).ok(),
            cluster_count: i32::try_from(clusters).ok(),
            control_plane_exposure_mode: Some(spec.exposure),
            tcp_proxy_required: Some(plan.tcp_proxy_required),
            conditions: conditions::settle(
                conditions,
                &plan.verdicts,
                generation,
                self.clock.now(),
            ),
            ..ButlerConfigStatus::default()
        };
        status::report(&self.applier, config, held, &next)
            .await
            .map(drop)
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabel {
    phase: String,
}

/// `butler_tenant_clusters`: how many clusters are in each phase.
#[derive(Clone)]
pub struct ClusterGauge(Family<PhaseLabel, Gauge>);

impl ClusterGauge {
    /// Registers the gauge.
    pub fn new(metrics: &Metrics) -> Self {
        let family = Family::<PhaseLabel, Gauge>::default();
        metrics.register(|registry| {
            registry.register(
                "tenant_clusters",
                "Tenant clusters by phase",
                family.clone(),
            );
        });
        Self(family)
    }

    /// A phase that no cluster is in has no series.
    fn set(&self, clusters: &BTreeMap<String, usize>) {
        self.0.clear();
        for (phase, count) in clusters {
            let label = PhaseLabel {
                phase: phase.clone(),
            };
            self.0
                .get_or_create(&label)
                .set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }
}
