//! Changes of a control plane that stands, disturbed at every write.

use butler_api::steward::TenantControlPlane;
use butler_steward::names;
use butler_testkit::{PATIENCE, Scenario as _, World, at_every_write, etcd::TlsEtcd, wait_for};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    faults::{Disturbed, Flow, Making, clear, reached},
    stage,
};

/// Another release, another name and sleep, all at once.
struct Changing;

/// A new key for encryption at rest.
struct Rotating;

/// Steward makes it, and is gone.
async fn made(world: &World, plane: &str) {
    let _steward = stage::steward(world.server());
    clear(world).await;
    let home = world.namespace();
    home.apply_yaml(plane).await;
    Making.user(world).await;
    let deployments = home.api::<Deployment>();
    wait_for(&deployments, "blue", "its pods", PATIENCE, |live| {
        let status = live.status.as_ref();
        status.is_some_and(|status| status.unavailable_replicas.is_some())
    })
    .await;
    let planes = home.api::<TenantControlPlane>();
    wait_for(
        &planes,
        "blue",
        "a word about its pods",
        PATIENCE,
        |plane| {
            let status = plane.status.as_ref();
            let resources = status.and_then(|status| status.kubernetes_resources.as_ref());
            let told = resources.and_then(|resources| resources.deployment.as_ref());
            told.is_some_and(|told| told.unavailable_replicas.is_some())
        },
    )
    .await;
}

async fn patch(world: &World, change: &Value) {
    let planes = world.namespace().api::<TenantControlPlane>();
    let params = PatchParams::default();
    let patched = planes.patch("blue", &params, &Patch::Merge(change)).await;
    patched.expect("a user changes it");
}

impl Flow for Changing {
    async fn set_up(&self, world: &World) {
        let plane = stage::control_plane("blue", "").replace("v1.35.4", "v1.34.4");
        made(world, &plane).await;
    }

    async fn user(&self, world: &World) {
        let change = json!({"spec": {
            "kubernetes": {"version": "v1.35.4"},
            "networkProfile": {"certSANs": ["blue.example"]},
            "controlPlane": {"deployment": {"replicas": 0}},
        }});
        patch(world, &change).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        Making.settled(world).await?;
        let live: Deployment = world.namespace().get("blue").await;
        let annotations = live.metadata.annotations.unwrap_or_default();
        let version = annotations.get(names::DEPLOYED_VERSION);
        let replicas = live.spec.and_then(|spec| spec.replicas);
        if version.map(String::as_str) != Some("v1.35.4") || replicas != Some(0) {
            return Err(format!("runs {version:?} {replicas:?} times"));
        }
        Ok(())
    }
}

impl Flow for Rotating {
    async fn set_up(&self, world: &World) {
        made(world, &stage::with_kubernetes("blue", "encryption: {}")).await;
    }

    async fn user(&self, world: &World) {
        let annotations = json!({names::ENCRYPTION_ROTATE: "spring"});
        patch(world, &json!({"metadata": {"annotations": annotations}})).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        Making.settled(world).await?;
        let secret: Secret = world.namespace().get("blue-encryption-keys").await;
        let files = secret.data.unwrap_or_default();
        let keys = files.get("keys.json").map(|file| file.0.as_slice());
        let keys = String::from_utf8_lossy(keys.unwrap_or_default());
        let has = |key: &str| keys.contains(key);
        if has("key-1") && has("key-2") && !has("key-3") {
            return Ok(());
        }
        Err("one word makes one new key, and the old one stays until nothing needs it".to_owned())
    }
}

#[tokio::test]
async fn a_changed_control_plane_ends_up_the_same_whatever_goes_wrong() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    stage::store(&server, "default", &etcd).await;
    let summary = at_every_write(&server, &Disturbed(Changing)).await;
    reached(&summary, 3);
}

#[tokio::test]
async fn a_new_key_is_made_once_whatever_goes_wrong() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    stage::store(&server, "default", &etcd).await;
    let summary = at_every_write(&server, &Disturbed(Rotating)).await;
    reached(&summary, 3);
}
