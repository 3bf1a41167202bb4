//! A platform without Cluster API: clusters say what is missing, and what was never made can go.

use butler_testkit::{Options, PATIENCE, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams},
};

use crate::{DEMO, PROVIDER, clusters, driver::Driver, stage};

const MACHINES: &str = "machines.cluster.x-k8s.io";

#[tokio::test]
async fn without_cluster_api_clusters_say_what_is_missing_can_go_and_go_on_once_it_is_there() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(PROVIDER).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let machines = definitions.get(MACHINES).await.unwrap();
    let gone = definitions.delete(MACHINES, &DeleteParams::default()).await;
    gone.unwrap();
    wait_until_gone(&definitions, MACHINES).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-m"))
        .await;
    let doomed = DEMO.replace("NAMESPACE", "team-n").replace(
        "namespace: team-n}",
        "namespace: team-n, finalizers: [butler.butlerlabs.dev/tenantcluster]}",
    );
    server.apply_yaml(&doomed).await;

    let waiting = clusters(&server, "team-m");
    wait_for(&waiting, "demo", "what is missing", PATIENCE, |demo| {
        let mut held = demo.status.iter().flat_map(|status| &status.conditions);
        held.any(|it| it.reason == "ClusterAPIMissing" && it.message.contains(MACHINES))
    })
    .await;
    let leaving = clusters(&server, "team-n");
    let gone = leaving.delete("demo", &DeleteParams::default()).await;
    gone.unwrap();
    wait_until_gone(&leaving, "demo").await;

    let again = CustomResourceDefinition {
        metadata: ObjectMeta {
            name: machines.metadata.name,
            labels: machines.metadata.labels,
            annotations: machines.metadata.annotations,
            ..ObjectMeta::default()
        },
        status: None,
        ..machines
    };
    let made = definitions.create(&PostParams::default(), &again).await;
    made.unwrap();
    let _driver = Driver::start(&server.client());
    wait_for_condition(&waiting, "demo", "Ready", "True").await;
}
