//! The flows of a control plane, disturbed at every write.

use butler_api::steward::TenantControlPlane;
use butler_pki::{Certificate, SecretKind};
use butler_testkit::{
    Namespace, PATIENCE, Scenario, Summary, World, at_every_write,
    etcd::TlsEtcd,
    faults::{Fault, Refusal},
    wait_for,
};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Secret, Service},
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::stage;

/// A control plane is made.
pub(crate) struct Making;

/// Removes what earlier runs left, so that each Steward has one control plane to look after.
pub(crate) async fn clear(world: &World) {
    let client = world.server().client();
    let all: Api<TenantControlPlane> = Api::all(client.clone());
    for plane in all.list(&ListParams::default()).await.expect("a list") {
        let api: Api<TenantControlPlane> =
            Api::namespaced(client.clone(), &plane.namespace().unwrap_or_default());
        let release = json!({"metadata": {"finalizers": null}});
        let params = PatchParams::default();
        // It may be going just now.
        let _ = api
            .patch(&plane.name_any(), &params, &Patch::Merge(&release))
            .await;
        let _ = api
            .delete(&plane.name_any(), &DeleteParams::default())
            .await;
    }
}

impl Scenario for Making {
    async fn set_up(&self, world: &World) {
        clear(world).await;
        world
            .namespace()
            .apply_yaml(&stage::control_plane("blue", ""))
            .await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let home = world.namespace();
        wait_for(
            &home.api::<Service>(),
            "blue",
            "its Service",
            PATIENCE,
            |_| true,
        )
        .await;
        stage::give_address(home, "blue", "127.0.0.77").await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let home = world.namespace();
        let plane = home
            .api::<TenantControlPlane>()
            .get("blue")
            .await
            .map_err(|error| error.to_string())?;
        let status = plane.status.unwrap_or_default();
        let resources = status.kubernetes_resources.clone().unwrap_or_default();
        let told = resources.deployment.unwrap_or_default();
        let live = home
            .api::<Deployment>()
            .get_opt("blue")
            .await
            .map_err(|error| error.to_string())?;
        let wanted = live.as_ref().and_then(|live| live.spec.as_ref()?.replicas);
        let asleep = wanted == Some(0);
        let live = live.and_then(|live| live.status).unwrap_or_default();
        let told = (
            told.observed_generation,
            told.replicas,
            told.unavailable_replicas,
        );
        let seen = (
            live.observed_generation,
            live.replicas,
            live.unavailable_replicas,
        );
        // What is wanted nowhere is unavailable nowhere.
        let counted = seen.2.is_some() || asleep;
        if !counted || told != seen {
            return Err(format!(
                "told {told:?}, but it is {seen:?}: {:?}",
                status.conditions
            ));
        }
        signed(home).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("steward.butlerlabs.dev/v1alpha1", "TenantControlPlane"),
            ("v1", "Secret"),
            ("v1", "Service"),
            ("apps/v1", "Deployment"),
        ]
    }

    // Keys and what is made from them are different each time.
    fn simplify(&self, object: &mut Value) {
        hide(object);
        // Kubernetes' own controllers name their ReplicaSet in it; and a control plane that read an old list of its
        // Secrets issues one of them again, which rolls pods that are not ready once more.
        if object["kind"] == "Deployment" {
            object["status"] = Value::Null;
        } else if object["kind"] == "TenantControlPlane" {
            object["status"]["kubernetesResources"]["deployment"] = Value::Null;
        }
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.remove(field);
            }
        }
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            port["nodePort"] = Value::Null;
        }
    }

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

/// Whether everything is signed by the authorities that stand: an old view must not leave leaves of a lost one.
async fn signed(home: &Namespace) -> Result<(), String> {
    let secrets = home.api::<Secret>();
    let file = async |kind: SecretKind, name: &str| {
        let secret = secrets.get(&kind.name("blue")).await;
        let data = secret.map_err(|error| error.to_string())?.data;
        let file = data.unwrap_or_default().remove(name);
        let file = file.ok_or_else(|| format!("{} has no {name}", kind.suffix()))?;
        Ok::<_, String>(file.0)
    };
    let read = |pem: &[u8]| Certificate::from_pem(pem).map_err(|error| error.to_string());
    let cluster = read(&file(SecretKind::Ca, "ca.crt").await?)?;
    let front = read(&file(SecretKind::FrontProxyCa, "front-proxy-ca.crt").await?)?;
    for (kind, name, authority) in [
        (SecretKind::ApiServer, "apiserver.crt", &cluster),
        (
            SecretKind::KubeletClient,
            "apiserver-kubelet-client.crt",
            &cluster,
        ),
        (
            SecretKind::FrontProxyClient,
            "front-proxy-client.crt",
            &front,
        ),
    ] {
        if !read(&file(kind, name).await?)?.is_signed_by(authority) {
            return Err(format!("{name} is signed by another authority"));
        }
    }
    let admin = file(SecretKind::AdminKubeconfig, "admin.conf").await?;
    let admin: Value =
        serde_saphyr::from_slice(&admin).map_err(|error| format!("admin.conf: {error}"))?;
    let user = admin["users"][0]["user"]["client-certificate-data"].clone();
    let user: ByteString = serde_json::from_value(user).map_err(|error| error.to_string())?;
    if !read(&user.0)?.is_signed_by(&cluster) {
        return Err("admin.conf is signed by another authority".to_owned());
    }
    Ok(())
}

/// Most disturbances must have happened, or nothing was proved: a fault may save a write that comes later, such as
/// one of two reports, but rarely.
pub(crate) fn reached(summary: &Summary, writes: usize) {
    println!("{summary:?}");
    assert!(summary.writes >= writes, "{summary:?}");
    assert!(summary.not_reached * 4 <= summary.runs, "{summary:?}");
}

/// Replaces hashes and bytes wherever they stand.
fn hide(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > 15 && text.chars().all(|c| c.is_ascii_hexdigit()) => {
            "a hash".clone_into(text);
        }
        Value::Object(fields) => {
            if let Some(data) = fields.get_mut("data").and_then(Value::as_object_mut) {
                data.values_mut()
                    .for_each(|bytes| *bytes = Value::from("bytes"));
            }
            fields.values_mut().for_each(hide);
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Another flow of a control plane: what there is before, what a user does and what comes of it. The rest is as when one
/// is made.
pub(crate) trait Flow {
    async fn set_up(&self, world: &World);

    async fn user(&self, world: &World);

    async fn settled(&self, world: &World) -> Result<(), String> {
        Making.settled(world).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        Making.kinds()
    }
}

/// A flow that is disturbed at every write.
pub(crate) struct Disturbed<F>(pub(crate) F);

impl<F: Flow> Scenario for Disturbed<F> {
    async fn set_up(&self, world: &World) {
        self.0.set_up(world).await;
    }

    async fn controller(&self, client: Client, world: &World) {
        Making.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        self.0.user(world).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        self.0.settled(world).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        self.0.kinds()
    }

    fn simplify(&self, object: &mut Value) {
        Making.simplify(object);
    }

    fn faults(&self) -> Vec<Fault> {
        Making.faults()
    }

    fn parallel(&self) -> usize {
        Making.parallel()
    }
}

/// A control plane is made that encrypts, records and has a tunnel.
struct MakingMore;

impl Flow for MakingMore {
    async fn set_up(&self, world: &World) {
        clear(world).await;
        let home = world.namespace();
        let rules = json!({"policy": "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}"});
        let policy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules"}, "data": rules});
        home.apply_yaml(&policy.to_string()).await;
        let settings = "encryption: {}, audit: {policyConfigMapRef: {name: rules, key: policy}}";
        let plane = stage::with_kubernetes("blue", settings);
        home.apply_yaml(&format!("{plane}\n  addons: {{konnectivity: {{}}}}\n"))
            .await;
    }

    async fn user(&self, world: &World) {
        Making.user(world).await;
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        [Making.kinds(), vec![("v1", "ConfigMap")]].concat()
    }
}

/// A control plane is deleted.
struct Ending;

impl Flow for Ending {
    async fn set_up(&self, world: &World) {
        let _steward = stage::steward(world.server());
        Making.set_up(world).await;
        Making.user(world).await;
        let home = world.namespace();
        wait_for(
            &home.api::<Deployment>(),
            "blue",
            "its pods",
            PATIENCE,
            |_| true,
        )
        .await;
    }

    async fn user(&self, world: &World) {
        let planes = world.namespace().api::<TenantControlPlane>();
        planes
            .delete("blue", &DeleteParams::default())
            .await
            .expect("a user deletes it");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let planes = world.namespace().api::<TenantControlPlane>();
        match planes
            .get_opt("blue")
            .await
            .map_err(|error| error.to_string())?
        {
            None => Ok(()),
            Some(plane) => Err(format!(
                "still there: {:?}",
                plane.status.map(|status| status.conditions)
            )),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![("steward.butlerlabs.dev/v1alpha1", "TenantControlPlane")]
    }
}

#[tokio::test]
async fn a_control_plane_ends_up_the_same_whatever_goes_wrong() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    stage::store(&server, "default", &etcd).await;
    let summary = at_every_write(&server, &Making).await;
    reached(&summary, 14);
}

#[tokio::test]
async fn a_control_plane_with_many_settings_ends_up_the_same_whatever_goes_wrong() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    stage::store(&server, "default", &etcd).await;
    let summary = at_every_write(&server, &Disturbed(MakingMore)).await;
    reached(&summary, 19);
}

#[tokio::test]
async fn a_control_plane_is_gone_whatever_goes_wrong() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    stage::store(&server, "default", &etcd).await;
    let summary = at_every_write(&server, &Disturbed(Ending)).await;
    reached(&summary, 2);
}
