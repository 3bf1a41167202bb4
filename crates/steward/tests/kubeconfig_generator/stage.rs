//! A management API server, Steward without a store, and control planes whose Secrets are made by hand.

use butler_api::steward::{KubeconfigGenerator, TenantControlPlane};
use butler_pki::{
    Algorithm, Certificate, Contents, Fresh, Jitter, Kubeconfig, Lifetimes, SecretKind,
    ServerNames, Servers, Tenant, Wanted, carry_out, plan,
};
use butler_runtime::{
    clock::{Clock, SystemClock},
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_steward::{Reach, Settings, Surroundings, rbac};
use butler_testkit::{Namespace, Options, PATIENCE, Server, User, wait_for};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const AGENT: &str = "steward-test";

pub(crate) async fn server() -> Server {
    Server::start(Options::default())
        .await
        .expect("an API server starts")
}

/// Steward as a future.
pub(crate) async fn work(client: Client) {
    let settings = Settings {
        default_store: "default".to_owned(),
        management_domain: "cluster.local".to_owned(),
        reach: Reach::Endpoint,
    };
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        &Metrics::default(),
        Readiness::default(),
        settings,
    );
    butler_steward::run(client, surroundings, CancellationToken::new()).await;
}

/// Steward until dropped.
pub(crate) fn steward(server: &Server) -> Task {
    task::spawn("steward", work(server.client_called(AGENT)))
}

/// Steward until dropped, with the rights that it is installed with and no others.
pub(crate) async fn installed_steward(server: &Server) -> Task {
    server
        .apply_yaml(include_str!("../../../../rbac/steward.yaml"))
        .await;
    let account = User::service_account(rbac::NAMESPACE, rbac::ACCOUNT);
    task::spawn("steward", work(server.impersonate(&account)))
}

/// A control plane with these labels.
pub(crate) async fn control_plane(home: &Namespace, name: &str, labels: &str) {
    home.apply_yaml(&format!(
        "apiVersion: steward.butlerlabs.dev/v1alpha1
kind: TenantControlPlane
metadata: {{name: {name}, labels: {labels}}}
spec:
  controlPlane:
    deployment: {{replicas: 1}}
    service: {{serviceType: ClusterIP}}
  kubernetes: {{version: v1.35.4}}
"
    ))
    .await;
}

fn wanted(home: &Namespace, name: &str, endpoint: &str) -> Wanted {
    let tenant = Tenant {
        name: name.to_owned(),
        namespace: home.name().to_owned(),
    };
    let names = ServerNames {
        tenant: &tenant.name,
        namespace: &tenant.namespace,
        cluster_domain: "cluster.local",
        management_domain: "cluster.local",
        service_ranges: &["10.96.0.0/16".parse().unwrap()],
        endpoints: &[endpoint.parse().unwrap()],
        extra: &[],
    };
    Wanted {
        algorithm: Algorithm::EcdsaP256,
        replace_other_algorithms: false,
        lifetimes: Lifetimes::default(),
        authority: None,
        server_names: names.collect(),
        servers: Servers::new(&tenant, 6443, endpoint, 6443),
        store: None,
        tunnel: false,
        rotation: None,
        tenant,
    }
}

/// Writes the authority and the administrators' kubeconfigs of a control plane, around what is held already.
pub(crate) async fn certificates(
    home: &Namespace,
    name: &str,
    endpoint: &str,
    held: &Contents,
    now: Timestamp,
) -> Contents {
    let wanted = wanted(home, name, endpoint);
    let plan = plan(&wanted, held, now, Jitter::NONE);
    let contents = carry_out(&plan, &wanted, held, &mut Fresh, now).unwrap();
    let secrets = home.api::<Secret>();
    for kind in [SecretKind::Ca, SecretKind::AdminKubeconfig] {
        let mut secret =
            serde_json::to_value(contents[&kind].to_secret(kind, &wanted.tenant)).unwrap();
        secret["apiVersion"] = "v1".into();
        secret["kind"] = "Secret".into();
        let params = PatchParams::apply("by-hand").force();
        let patch = Patch::Apply(&secret);
        secrets
            .patch(&kind.name(name), &params, &patch)
            .await
            .unwrap();
    }
    contents
}

/// Makes or changes a generator.
pub(crate) async fn generator(server: &Server, name: &str, spec: Value) {
    let generator = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "KubeconfigGenerator",
        "metadata": {"name": name},
        "spec": spec,
    });
    server.apply_yaml(&generator.to_string()).await;
}

/// Sets or removes labels.
pub(crate) async fn label<K>(api: &Api<K>, name: &str, labels: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let change = json!({"metadata": {"labels": labels}});
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(&change))
        .await
        .unwrap();
}

/// Waits until the status speaks of this generation and of so many control planes with and without kubeconfig.
pub(crate) async fn counted(
    server: &Server,
    name: &str,
    available: i32,
    resources: i32,
) -> KubeconfigGenerator {
    let generators: Api<KubeconfigGenerator> = Api::all(server.client());
    let what = format!("{available} of {resources} control planes to be served");
    wait_for(&generators, name, &what, PATIENCE, |generator| {
        let status = generator.status.clone().unwrap_or_default();
        status.observed_generation == generator.metadata.generation
            && status.available_resources == Some(available)
            && status.resources == Some(resources)
    })
    .await
}

/// The kubeconfig in a Secret and its certificate.
pub(crate) fn read(secret: &Secret) -> (Kubeconfig, Certificate) {
    let file = &secret.data.as_ref().unwrap()["value"].0;
    let kubeconfig = Kubeconfig::from_yaml(file).unwrap();
    let certificate = Certificate::from_pem(&kubeconfig.certificate).unwrap();
    (kubeconfig, certificate)
}

/// Changes something about a control plane, as its controller does when its certificates change.
pub(crate) async fn touch(home: &Namespace, name: &str, how: &str) {
    label(
        &home.api::<TenantControlPlane>(),
        name,
        json!({"touched": how}),
    )
    .await;
}

/// The time.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
