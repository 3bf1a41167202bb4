//! What a tenant cluster is made of, as it is watched: kinds of Cluster API with the fields that anybody set.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use butler_api::{controlplane::StewardControlPlane, names};
use butler_capi::core::{
    ClusterSpec, GROUP, Kind, KubeadmTemplateSpec, MachineDeploymentSpec, MachineHealthCheckSpec,
};
use butler_runtime::{
    packed::Packed,
    watch::{Feed, Watchable},
};
use futures::{Stream, StreamExt as _, future, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::Secret,
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, Resource, ResourceExt as _, runtime::watcher};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::observe;

/// An object of Cluster API as it stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct Live<S> {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default)]
    pub(crate) status: Value,
    #[serde(skip)]
    of: PhantomData<fn() -> S>,
}

impl<S: Kind> Resource for Live<S> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        S::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        S::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta2".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        S::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A machine; Cluster API makes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine;

impl Kind for Machine {
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "Machine";
    const PLURAL: &'static str = "machines";
}

/// The watches over what tenant clusters are made of. Most of it is looked at rarely, so it is kept as text.
pub(crate) struct Children {
    pub(crate) control_planes: Feed<Packed<StewardControlPlane>>,
    pub(crate) clusters: Feed<Packed<Live<ClusterSpec>>>,
    pub(crate) deployments: Feed<Packed<Live<MachineDeploymentSpec>>>,
    pub(crate) health_checks: Feed<Packed<Live<MachineHealthCheckSpec>>>,
    pub(crate) bootstraps: Feed<Packed<Live<KubeadmTemplateSpec>>>,
    pub(crate) machines: Feed<Packed<Live<Machine>>>,
    pub(crate) secrets: Feed<Packed<Secret>>,
    pub(crate) roles: Feed<Packed<Role>>,
    pub(crate) bindings: Feed<Packed<RoleBinding>>,
}

impl Children {
    pub(crate) fn start(client: &Client) -> Arc<Self> {
        let ours = watcher::Config::default().labels(&format!(
            "{}={},{}",
            names::MANAGED_BY,
            names::BUTLER,
            names::OWNER_UID
        ));
        let pooled = watcher::Config::default().labels(names::POOL);
        Arc::new(Self {
            control_planes: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            clusters: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            deployments: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            health_checks: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            bootstraps: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            machines: Feed::start_by_namespace(Api::all(client.clone()), pooled),
            secrets: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            roles: Feed::start_by_namespace(Api::all(client.clone()), ours.clone()),
            bindings: Feed::start_by_namespace(Api::all(client.clone()), ours),
        })
    }

    pub(crate) async fn ready(&self) {
        let Self {
            control_planes,
            clusters,
            deployments,
            health_checks,
            bootstraps,
            machines,
            secrets,
            roles,
            bindings,
        } = self;
        tokio::join!(
            control_planes.ready(),
            clusters.ready(),
            deployments.ready(),
            health_checks.ready(),
            bootstraps.ready(),
            machines.ready(),
            secrets.ready(),
            roles.ready(),
            bindings.ready()
        );
    }

    /// Tenant namespaces in which something changed.
    pub(crate) fn changes(&self) -> impl Stream<Item = String> + Send + use<> {
        stream::select_all([
            places(&self.control_planes).boxed(),
            places(&self.clusters).boxed(),
            places(&self.deployments).boxed(),
            places(&self.health_checks).boxed(),
            places(&self.bootstraps).boxed(),
            places(&self.machines).boxed(),
            places(&self.secrets).boxed(),
            places(&self.roles).boxed(),
            places(&self.bindings).boxed(),
        ])
    }

    /// Everything of one tenant namespace that is written by us, as it stands.
    pub(crate) fn objects(&self, namespace: &str) -> Vec<Value> {
        let mut found = Vec::new();
        collect(&self.control_planes, namespace, &mut found);
        collect(&self.clusters, namespace, &mut found);
        collect(&self.deployments, namespace, &mut found);
        collect(&self.health_checks, namespace, &mut found);
        collect(&self.bootstraps, namespace, &mut found);
        collect(&self.secrets, namespace, &mut found);
        collect(&self.roles, namespace, &mut found);
        collect(&self.bindings, namespace, &mut found);
        found
    }
}

fn places<K: Watchable>(feed: &Feed<K>) -> impl Stream<Item = String> + Send + use<K> {
    feed.subscribe()
        .filter_map(|change| future::ready(change.object().namespace()))
}

fn collect<K>(feed: &Feed<Packed<K>>, namespace: &str, found: &mut Vec<Value>)
where
    K: Watchable + Serialize,
{
    for packed in feed.all_in(namespace) {
        let value = serde_json::to_value(packed.unpack()).unwrap_or_default();
        found.push(observe::described(
            value,
            &K::api_version(&()),
            &K::kind(&()),
        ));
    }
}
