//! The life of a store, disturbed at every write.

use butler_api::steward::{DataStore, TenantControlPlane};
use butler_runtime::metrics::Metrics;
use butler_testkit::{
    PATIENCE, Scenario, World, at_every_write,
    etcd::TlsEtcd,
    faults::{Fault, Refusal},
    wait_for, wait_until_gone,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::stage::{self, FAST};

/// Removes what an earlier run left, so that each Steward has one store and one control plane to look after.
async fn clear(world: &World) {
    let client = world.server().client();
    let release = json!({"metadata": {"finalizers": null}});
    let params = PatchParams::default();
    let planes: Api<TenantControlPlane> = Api::all(client.clone());
    for plane in planes.list(&ListParams::default()).await.expect("a list") {
        let home = plane.namespace().unwrap_or_default();
        let api: Api<TenantControlPlane> = Api::namespaced(client.clone(), &home);
        // It may be going just now.
        let _ = api
            .patch(&plane.name_any(), &params, &Patch::Merge(&release))
            .await;
        let _ = api
            .delete(&plane.name_any(), &DeleteParams::default())
            .await;
    }
    let stores: Api<DataStore> = Api::all(client);
    for store in stores.list(&ListParams::default()).await.expect("a list") {
        let name = store.name_any();
        let _ = stores.patch(&name, &params, &Patch::Merge(&release)).await;
        let _ = stores.delete(&name, &DeleteParams::default()).await;
    }
}

/// A store is made and used.
struct Using(TlsEtcd);

impl Using {
    async fn begin(&self, world: &World) {
        let store = world.name("store");
        let server = world.server();
        server
            .apply_yaml(&self.0.data_store(&store).to_string())
            .await;
        world
            .namespace()
            .apply_yaml(&stage::control_plane("blue", &store))
            .await;
    }
}

impl Scenario for Using {
    async fn set_up(&self, world: &World) {
        Box::pin(clear(world)).await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client, FAST, Metrics::default()).await;
    }

    async fn user(&self, world: &World) {
        self.begin(world).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let stores: Api<DataStore> = Api::all(world.server().client());
        let store = stores.get(&world.name("store")).await;
        let status = store
            .map_err(|error| error.to_string())?
            .status
            .unwrap_or_default();
        let home = world.namespace();
        let live = home.api::<Deployment>().get_opt("blue").await;
        let live = live.map_err(|error| error.to_string())?;
        let counted = live
            .and_then(|live| live.status)
            .is_some_and(|status| status.unavailable_replicas.is_some());
        if status.users != Some(1) || !counted {
            return Err(format!("{status:?}, pods counted: {counted}"));
        }
        Ok(())
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("steward.butlerlabs.dev/v1alpha1", "DataStore"),
            ("steward.butlerlabs.dev/v1alpha1", "TenantControlPlane"),
        ]
    }

    // Keys, hashes of them and addresses differ, and Kubernetes' own controllers count pods in steps.
    fn simplify(&self, object: &mut Value) {
        if object["kind"] == "DataStore" {
            object["spec"] = Value::Null;
            return;
        }
        let status = &object["status"];
        let conditions: Vec<_> = status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|held| json!([held["type"], held["status"], held["reason"]]))
            .collect();
        let store = status["storage"]["dataStoreName"].clone();
        object["status"] = json!({"conditions": conditions, "store": store});
    }

    fn write_points(&self) -> fn(&butler_testkit::faults::Sent) -> bool {
        |sent| sent.is_write() && sent.is_about("datastores")
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::Refuse(Refusal::Conflict),
            Fault::LoseAnswer,
            Fault::Stale(self.quiet() / 2),
        ]
    }

    // Steward looks after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

/// A store that is used is deleted, and then its user.
struct Leaving(Using);

impl Scenario for Leaving {
    async fn set_up(&self, world: &World) {
        Box::pin(clear(world)).await;
        let _steward = stage::steward(world.server(), FAST);
        self.0.begin(world).await;
        let home = world.namespace();
        stage::plane_is(home, "blue", "StoreReady", "True", "Ready").await;
        let pods = home.api::<Deployment>();
        wait_for(&pods, "blue", "its pods", PATIENCE, |_| true).await;
    }

    async fn controller(&self, client: Client, world: &World) {
        self.0.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        let (home, store) = (world.namespace(), world.name("store"));
        let stores: Api<DataStore> = Api::all(world.server().client());
        stores
            .delete(&store, &DeleteParams::default())
            .await
            .expect("somebody deletes the store");
        stage::store_is(world.server(), &store, "Deleting", "True", "InUse").await;
        let planes = home.api::<TenantControlPlane>();
        planes
            .delete("blue", &DeleteParams::default())
            .await
            .expect("and its user");
        wait_until_gone(&planes, "blue").await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let stores: Api<DataStore> = Api::all(world.server().client());
        let store = stores.get_opt(&world.name("store")).await;
        if let Some(store) = store.map_err(|error| error.to_string())? {
            return Err(format!("still there: {:?}", store.status));
        }
        let root = stage::root(&self.0.0);
        let (keys, (users, roles)) = (root.everything().await, root.users_and_roles().await);
        if (keys.len(), users.len(), roles.len()) != (0, 1, 1) {
            return Err(format!("left in etcd: {keys:?} {users:?} {roles:?}"));
        }
        Ok(())
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        self.0.kinds()
    }

    fn write_points(&self) -> fn(&butler_testkit::faults::Sent) -> bool {
        |sent| {
            let ours = sent.is_about("datastores") || sent.is_about("tenantcontrolplanes");
            sent.is_write() && ours
        }
    }

    fn faults(&self) -> Vec<Fault> {
        self.0.faults()
    }

    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn a_store_is_used_and_counted_whatever_goes_wrong() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let summary = at_every_write(&server, &Using(etcd)).await;
    println!("{summary:?}");
    assert!(summary.writes >= 3, "{summary:?}");
    assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
}

#[tokio::test]
async fn a_store_goes_after_its_last_user_and_leaves_nothing_whatever_goes_wrong() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let summary = at_every_write(&server, &Leaving(Using(etcd))).await;
    println!("{summary:?}");
    assert!(summary.writes >= 3, "{summary:?}");
    assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
}
