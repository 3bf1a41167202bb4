//! The flows of a Cluster's control plane, disturbed at every write.

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_testkit::{
    Scenario, World, at_every_write,
    faults::{Fault, Refusal},
    wait_for_condition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::stage;

/// A control plane is made.
struct Making;

/// Removes what earlier runs left, so that each Steward has one Cluster to look after.
async fn clear<K>(world: &World)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let client = world.server().client();
    let all: Api<K> = Api::all(client.clone());
    for object in all.list(&ListParams::default()).await.expect("a list") {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<K> = Api::namespaced(client.clone(), &namespace);
        let release = json!({"metadata": {"finalizers": null}});
        let (name, params) = (object.name_any(), PatchParams::default());
        // It may be going just now.
        let _ = api.patch(&name, &params, &Patch::Merge(&release)).await;
        let _ = api.delete(&name, &DeleteParams::default()).await;
    }
}

impl Scenario for Making {
    async fn set_up(&self, world: &World) {
        clear::<StewardControlPlane>(world).await;
        clear::<TenantControlPlane>(world).await;
        let home = world.namespace();
        let owner = stage::cluster(home, "sky", "blue").await;
        stage::control_plane(home, "blue", &owner).await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let home = world.namespace();
        stage::tenant(home, "blue").await;
        stage::serve(home, "blue", "10.0.0.7:40443").await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let planes = world.namespace().api::<StewardControlPlane>();
        let plane = planes
            .get("blue")
            .await
            .map_err(|error| error.to_string())?;
        let conditions = plane.status.unwrap_or_default().conditions;
        let holds = |type_: &str| butler_runtime::conditions::is_true(&conditions, type_);
        let observed = conditions
            .iter()
            .all(|held| held.observed_generation == plane.metadata.generation);
        if observed && holds("Ready") && holds("InfrastructureClusterPatched") {
            Ok(())
        } else {
            Err(format!("{conditions:?}"))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "controlplane.cluster.x-k8s.io/v1alpha1",
                "StewardControlPlane",
            ),
            ("steward.butlerlabs.dev/v1alpha1", "TenantControlPlane"),
            ("infrastructure.cluster.x-k8s.io/v1alpha1", "LocalCluster"),
            ("v1", "Secret"),
        ]
    }

    // The hash of what is planned covers the UID of its owner.
    // Losing an answer and sending twice are tried on the kit itself; here every run takes seconds.
    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::CrashAfter,
            Fault::Refuse(Refusal::Conflict),
            Fault::Stale(self.quiet() / 2),
        ]
    }

    // Steward looks after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

/// A control plane is deleted.
struct Ending;

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        let _steward = stage::steward(world.server());
        Making.set_up(world).await;
        Making.user(world).await;
        stage::initialized(world.namespace(), "blue").await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let planes = world.namespace().api::<StewardControlPlane>();
        let deleted = planes.delete("blue", &DeleteParams::default()).await;
        deleted.expect("a user deletes it");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let home = world.namespace();
        let plane = home.api::<StewardControlPlane>().get_opt("blue").await;
        let tenant = home.api::<TenantControlPlane>().get_opt("blue").await;
        match (plane, tenant) {
            (Ok(None), Ok(None)) => Ok(()),
            (plane, tenant) => Err(format!("{plane:?} {tenant:?}")),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "controlplane.cluster.x-k8s.io/v1alpha1",
                "StewardControlPlane",
            ),
            ("steward.butlerlabs.dev/v1alpha1", "TenantControlPlane"),
        ]
    }

    fn faults(&self) -> Vec<Fault> {
        Making.faults()
    }

    fn parallel(&self) -> usize {
        1
    }
}

/// A Cluster is paused or, with a change that came meanwhile, let go on.
struct Pausing {
    /// Whether it begins paused.
    resumes: bool,
}

impl Scenario for Pausing {
    async fn set_up(&self, world: &World) {
        let _steward = stage::steward(world.server());
        Making.set_up(world).await;
        Making.user(world).await;
        let home = world.namespace();
        stage::initialized(home, "blue").await;
        if self.resumes {
            stage::pause(home, "sky", true).await;
            let planes = home.api::<StewardControlPlane>();
            wait_for_condition(&planes, "blue", "Paused", "True").await;
            stage::change(home, "blue", &json!({"spec": {"replicas": 3}})).await;
        }
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        stage::pause(world.namespace(), "sky", !self.resumes).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let home = world.namespace();
        let plane: StewardControlPlane = home.get("blue").await;
        let tenant: TenantControlPlane = home.get("blue").await;
        let conditions = plane.status.clone().unwrap_or_default().conditions;
        let held = conditions.iter().find(|held| held.type_ == "Paused");
        let said = held.is_some_and(|held| {
            let status = if self.resumes { "False" } else { "True" };
            held.status == status && held.observed_generation == plane.metadata.generation
        });
        let wanted = if self.resumes {
            (plane.uid(), 3)
        } else {
            (Some("paused".to_owned()), 2)
        };
        let worked_on_for = "provider.steward.butlerlabs.dev/worked-on-for";
        let found = (
            tenant.annotations().get(worked_on_for).cloned(),
            tenant.spec.control_plane.deployment.replicas,
        );
        if said && found == wanted {
            Ok(())
        } else {
            Err(format!("{found:?} {conditions:?}"))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        Making.kinds()
    }

    fn faults(&self) -> Vec<Fault> {
        Making.faults()
    }

    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn a_clusters_control_plane_stands_still_and_goes_on_whatever_goes_wrong() {
    let server = stage::server().await;
    for resumes in [false, true] {
        let summary = at_every_write(&server, &Pausing { resumes }).await;
        println!("{summary:?}");
        assert!(summary.writes >= 2, "{summary:?}");
        assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
    }
}

#[tokio::test]
async fn a_clusters_control_plane_ends_up_the_same_whatever_goes_wrong() {
    let server = stage::server().await;
    let summary = at_every_write(&server, &Making).await;
    println!("{summary:?}");
    assert!(summary.writes >= 7, "{summary:?}");
    assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
}

#[tokio::test]
async fn a_clusters_control_plane_is_gone_whatever_goes_wrong() {
    let server = stage::server().await;
    let summary = at_every_write(&server, &Ending).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
    assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
}
