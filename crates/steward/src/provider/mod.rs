//! `StewardControlPlane`: the control plane of a Cluster API Cluster, by the v1beta2 contract.
//!
//! It becomes a `TenantControlPlane` of the same name; what that reports is handed on in the contract's terms: the
//! address, the two Secrets, initialization, version and replicas. Nothing here knows how a control plane is run.
//! While its Cluster is paused, or after it was moved here, the `TenantControlPlane` stands still, see `custody`.

mod address;
mod cluster;
pub(crate) mod custody;
mod holding;
mod inform;
pub(crate) mod infrastructure;
mod mapping;
mod report;
mod secrets;

use std::{sync::Arc, time::Duration};

use butler_api::{
    controlplane::StewardControlPlane, infrastructure::contract::ApiEndpoint,
    steward::TenantControlPlane,
};
use butler_pki::capi;
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    controller::{self, Bounds, Reconciler, Wake},
    error::{ApiError, Classify, chain},
    finalizers,
    metrics::ReconcileMetrics,
    own_writes::OwnWrites,
    status,
    watch::Feed,
};
use cluster::Cluster;
use futures::{Stream, StreamExt, future, stream};
use inform::Informer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{reflector::ObjectRef, watcher},
};
use report::Findings;
use secrets::Handover;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The field manager: another than that of the hosted control planes, whose Secrets are labelled here.
const FIELD_MANAGER: &str = "steward-cluster-api";
/// Keeps the object until the hosted control plane is gone: Cluster API removes what is below it only then.
pub const FINALIZER: &str = "provider.steward.butlerlabs.dev/control-plane";
/// How long to wait before something that is not watched is looked at again.
const AGAIN: Duration = Duration::from_secs(15);

/// Runs until `shutdown` is cancelled.
///
/// Where Cluster API is not installed its watch never gets ready, and nothing is done.
pub(crate) async fn run(
    client: Client,
    clock: SharedClock,
    tenants: Arc<Feed<TenantControlPlane>>,
    reconciles: ReconcileMetrics,
    shutdown: CancellationToken,
) {
    let everything = watcher::Config::default();
    let planes: Feed<StewardControlPlane> =
        Feed::start(Api::all(client.clone()), everything.clone());
    let clusters: Arc<Feed<Cluster>> = Arc::new(Feed::start(Api::all(client.clone()), everything));
    tokio::select! {
        () = shutdown.cancelled() => return,
        ((), ()) = future::join(planes.ready(), clusters.ready()) => {}
    }
    let triggers = triggers(&planes, &clusters, &tenants);
    let applier = Applier::new(client, FIELD_MANAGER);
    let controller = Controller {
        informer: Informer::new(&applier),
        applier,
        clock,
        tenants,
        clusters,
    };
    let bounds = Bounds::default();
    controller::run(controller, &planes, triggers, bounds, reconciles, shutdown).await;
}

/// Control planes to look at because their Cluster or their hosted control plane changed.
fn triggers(
    planes: &Feed<StewardControlPlane>,
    clusters: &Feed<Cluster>,
    tenants: &Feed<TenantControlPlane>,
) -> impl Stream<Item = ObjectRef<StewardControlPlane>> + Send + use<> {
    let store = planes.store();
    let of_tenants = tenants.subscribe().filter_map(move |change| {
        let tenant = change.object();
        let namespace = tenant.namespace().unwrap_or_default();
        let plane = ObjectRef::new(&tenant.name_any()).within(&namespace);
        // Most hosted control planes have no Cluster.
        future::ready(store.get(&plane).map(|_| plane))
    });
    let store = planes.store();
    let of_clusters = clusters.subscribe().flat_map(move |change| {
        let cluster = change.object();
        let (namespace, name) = (cluster.namespace(), cluster.name_any());
        let owned = store.state_filter(|plane: &StewardControlPlane| {
            plane.namespace() == namespace && cluster::owner(plane) == Some(&name)
        });
        stream::iter(owned.into_iter().map(|plane| ObjectRef::from_obj(&*plane)))
    });
    stream::select(of_tenants, of_clusters)
}

/// Reconciles the control planes of Clusters.
struct Controller {
    applier: Applier,
    clock: SharedClock,
    tenants: Arc<Feed<TenantControlPlane>>,
    clusters: Arc<Feed<Cluster>>,
    informer: Informer,
}

impl Controller {
    /// One pass over a control plane whose Cluster is there.
    async fn advance(
        &self,
        raw: &StewardControlPlane,
        cluster: &Cluster,
        tenant: Option<Arc<TenantControlPlane>>,
        findings: &mut Findings,
    ) -> Result<Wake, ApiError> {
        let owner = owner_reference(raw);
        if let Some(live) = &tenant {
            if !is_ours(live, raw) {
                let message = "a TenantControlPlane of this name belongs to somebody else; remove it or choose another name";
                findings.waits = Some(("NameTaken", message.to_owned()));
                return Ok(Wake::OnChange);
            }
            if live.metadata.deletion_timestamp.is_some() {
                let message = "waits for an earlier TenantControlPlane of this name to be gone";
                findings.waits = Some(("Replacing", message.to_owned()));
                return Ok(Wake::OnChange);
            }
        }
        if let Some(live) = tenant.as_deref().filter(|live| !custody::is_ours(live)) {
            self.take_over(live).await?;
        }
        let planned = mapping::tenant(raw, cluster, owner.clone(), tenant.as_deref());
        self.applier.apply(&planned, tenant.as_deref()).await?;
        let Some((endpoint, tenant)) = endpoint(tenant) else {
            let message = "waits for the address of the API server";
            findings.waits = Some(("WaitingForEndpoint", message.to_owned()));
            return Ok(Wake::OnChange);
        };
        self.write_endpoint(raw, &endpoint).await?;
        let place = capi::Cluster {
            name: &cluster.name_any(),
            namespace: &raw.namespace().unwrap_or_default(),
            tenant: &raw.name_any(),
        };
        let handover = secrets::hand_over(&self.applier, place, &tenant, &owner).await?;
        let wake = match handover {
            Handover::Done => {
                findings.handed_over = true;
                Wake::OnChange
            }
            Handover::Early(message) => {
                findings.waits = Some(("WaitingForSecrets", message));
                Wake::OnChange
            }
            Handover::Taken(message) => {
                findings.waits = Some(("SecretTaken", message));
                Wake::After(AGAIN)
            }
        };
        let told = self.informer.tell(cluster, &endpoint).await?;
        let settled = told.as_ref().is_none_or(|told| told.settled);
        findings.infrastructure = told.map(|told| told.verdict);
        Ok(if settled { wake } else { Wake::After(AGAIN) })
    }

    /// Cluster API copies the address from here to the Cluster.
    async fn write_endpoint(
        &self,
        raw: &StewardControlPlane,
        endpoint: &ApiEndpoint,
    ) -> Result<(), ApiError> {
        if raw.spec.control_plane_endpoint.as_ref() == Some(endpoint) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": raw.metadata.uid},
            "spec": {"controlPlaneEndpoint": endpoint},
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = raw.name_any();
        let patched = self
            .applier
            .beside(raw)
            .patch(&name, &params, &Patch::Merge(&patch))
            .await;
        patched.map_err(ApiError::of(
            "write the address of",
            "StewardControlPlane",
            &name,
        ))?;
        Ok(())
    }

    /// One step towards the end: the hosted control plane first.
    async fn end(&self, raw: &StewardControlPlane) -> Result<Wake, ApiError> {
        if !finalizers::has(raw, FINALIZER) {
            return Ok(Wake::OnChange);
        }
        let tenant = self.read_tenant(raw).await?;
        let Some(tenant) = tenant.filter(|tenant| is_ours(tenant, raw)) else {
            finalizers::remove(&self.applier.beside(raw), raw, FINALIZER).await?;
            return Ok(Wake::OnChange);
        };
        if tenant.metadata.deletion_timestamp.is_none() {
            self.applier.delete(&tenant).await?;
        }
        let message = format!(
            "waits for TenantControlPlane {} to be gone",
            tenant.name_any()
        );
        let findings = Findings {
            waits: Some(("Deleting", message)),
            ..Findings::default()
        };
        self.report(raw, Some(&tenant), findings).await?;
        Ok(Wake::OnChange)
    }

    /// The hosted control plane as watched, or as it is where the watch may be behind.
    async fn tenant(
        &self,
        raw: &StewardControlPlane,
    ) -> Result<Option<Arc<TenantControlPlane>>, ApiError> {
        let namespace = raw.namespace();
        match self.tenants.get(namespace.as_deref(), &raw.name_any()) {
            Some(tenant) => Ok(Some(tenant)),
            None => Ok(self.read_tenant(raw).await?.map(Arc::new)),
        }
    }

    async fn read_tenant(
        &self,
        raw: &StewardControlPlane,
    ) -> Result<Option<TenantControlPlane>, ApiError> {
        let namespace = raw.namespace().unwrap_or_default();
        let api: Api<TenantControlPlane> =
            Api::namespaced(self.applier.client().clone(), &namespace);
        let name = raw.name_any();
        let found = api.get_opt(&name).await;
        found.map_err(ApiError::of("get", "TenantControlPlane", &name))
    }

    async fn report(
        &self,
        raw: &StewardControlPlane,
        tenant: Option<&TenantControlPlane>,
        findings: Findings,
    ) -> Result<(), ApiError> {
        let next = report::status(raw, tenant, findings, self.clock.now());
        status::report(&self.applier, raw, raw.status.as_ref(), &next).await?;
        Ok(())
    }
}

impl Reconciler for Controller {
    type Object = StewardControlPlane;
    type Error = ApiError;
    const NAME: &'static str = "stewardcontrolplane";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<StewardControlPlane>) -> Result<Wake, ApiError> {
        let namespace = raw.namespace();
        let cluster =
            cluster::owner(&raw).and_then(|name| self.clusters.get(namespace.as_deref(), name));
        if custody::is_leaving(&*raw) {
            return Ok(Wake::OnChange);
        }
        if let Some(reason) = cluster::pause(&raw, cluster.as_deref()) {
            // First this: whoever reads that it is paused may rely on it.
            self.hold(&raw).await?;
            let next = report::paused(&raw, reason, self.clock.now());
            status::report(&self.applier, &*raw, raw.status.as_ref(), &next).await?;
            return Ok(Wake::OnChange);
        }
        if raw.metadata.deletion_timestamp.is_some() {
            return self.end(&raw).await;
        }
        let mut findings = Findings::default();
        let (Some(cluster), None) = (cluster, refusal(&raw)) else {
            findings.waits = Some(refusal(&raw).unwrap_or_else(|| no_cluster(&raw)));
            self.report(&raw, None, findings).await?;
            return Ok(Wake::OnChange);
        };
        if !finalizers::has(&*raw, FINALIZER) {
            // The change brings us back with what was written.
            finalizers::add(&self.applier.beside(&*raw), &*raw, FINALIZER).await?;
            return Ok(Wake::OnChange);
        }
        let tenant = self.tenant(&raw).await?;
        let result = self
            .advance(&raw, &cluster, tenant.clone(), &mut findings)
            .await;
        if let Err(error) = &result
            && findings.waits.is_none()
        {
            findings.waits = Some((error.category().as_str(), chain(error)));
        }
        let ours = tenant.filter(|tenant| is_ours(tenant, &raw));
        self.report(&raw, ours.as_deref(), findings).await?;
        result
    }
}

/// What cannot be carried out at all.
fn refusal(raw: &StewardControlPlane) -> Option<(&'static str, String)> {
    let deployment = raw.spec.settings.deployment.as_ref()?;
    deployment.external_cluster_reference.as_ref()?;
    let message = "spec.deployment.externalClusterReference is not supported: control planes run in this cluster";
    Some(("ExternalClusterUnsupported", message.to_owned()))
}

fn no_cluster(raw: &StewardControlPlane) -> (&'static str, String) {
    match cluster::owner(raw) {
        Some(name) => (
            "ClusterNotFound",
            format!("there is no Cluster {name}, which owns it"),
        ),
        None => (
            "WaitingForCluster",
            "no Cluster owns it; name it in the spec.controlPlaneRef of a Cluster".to_owned(),
        ),
    }
}

/// The address that the hosted control plane reports, with the object that reports it.
fn endpoint(
    tenant: Option<Arc<TenantControlPlane>>,
) -> Option<(ApiEndpoint, Arc<TenantControlPlane>)> {
    let tenant = tenant?;
    let text = tenant.status.as_ref()?.control_plane_endpoint.as_deref()?;
    Some((address::parse(text)?, Arc::clone(&tenant)))
}

fn is_ours(tenant: &TenantControlPlane, raw: &StewardControlPlane) -> bool {
    let uid = raw.uid();
    let mut owners = tenant.owner_references().iter();
    owners.any(|owner| Some(&owner.uid) == uid.as_ref())
}

fn owner_reference(raw: &StewardControlPlane) -> OwnerReference {
    raw.controller_owner_ref(&())
        .expect("an object that a watch delivered has a name and a UID")
}
