//! The platform's configuration on a real API server.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod stage;

use butler_api::butler::ButlerConfig;
use butler_testkit::{Options, PATIENCE, wait_for, wait_for_condition};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

const CONFIG: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ButlerConfig
metadata: {name: butler}
spec: {multiTenancy: {mode: Optional}}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: Team
metadata: {name: rockets}
spec: {}
";

const CLUSTER: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: lone, namespace: butler-tenants}
spec: {kubernetesVersion: v1.35.4, workers: {replicas: 1}}
";

#[tokio::test]
async fn the_configuration_makes_the_default_namespace_and_counts_what_is_there() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(CONFIG).await;
    let configs: Api<ButlerConfig> = Api::all(server.client());
    wait_for_condition(&configs, "butler", "Ready", "True").await;
    let made = server.get::<Namespace>("butler-tenants").await;
    assert_eq!(
        made.metadata.labels.unwrap()["app.kubernetes.io/managed-by"],
        "butler"
    );

    server.apply_yaml(CLUSTER).await;
    let counts = |teams, clusters| {
        move |config: &ButlerConfig| {
            let status = config.status.as_ref();
            status.is_some_and(|status| {
                (status.team_count, status.cluster_count) == (Some(teams), Some(clusters))
            })
        }
    };
    wait_for(
        &configs,
        "butler",
        "one team, one cluster",
        PATIENCE,
        counts(1, 1),
    )
    .await;
    server
        .kubectl(&["delete", "tenantcluster", "lone", "-n", "butler-tenants"])
        .await;
    let config = wait_for(&configs, "butler", "no cluster", PATIENCE, counts(1, 0)).await;
    let status = config.status.unwrap();
    assert_eq!(status.tcp_proxy_required, Some(false));
    assert_eq!(status.observed_generation, Some(1));
}
