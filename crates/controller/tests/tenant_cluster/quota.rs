//! Limits of teams and providers: refused before anything is made, held when something stands, healed by correction.

use butler_api::butler::{ProviderConfig, Team, TenantCluster};
use butler_testkit::{PATIENCE, Server, wait_for, wait_for_condition};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    clusters,
    driver::{self, Driver},
    stage,
};

/// A team with these limits, whose namespace is there.
async fn team(server: &Server, name: &str, limits: &Value) -> Api<Team> {
    let team = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "Team",
        "metadata": {"name": name}, "spec": {"resourceLimits": limits},
    });
    server.apply_yaml(&team.to_string()).await;
    let teams = Api::all(server.client());
    wait_for_condition(&teams, name, "Ready", "True").await;
    teams
}

fn cluster(name: &str, spec: &Value) -> TenantCluster {
    let mut whole = json!({
        "kubernetesVersion": "v1.34.4", "providerConfigRef": {"name": "local"}, "workers": {"replicas": 2},
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let object = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": {"name": name}, "spec": whole,
    });
    serde_json::from_value(object).unwrap()
}

async fn make(clusters: &Api<TenantCluster>, name: &str) -> TenantCluster {
    let made = cluster(name, &json!({}));
    clusters
        .create(&PostParams::default(), &made)
        .await
        .unwrap()
}

fn condition(cluster: &TenantCluster, kind: &str) -> Option<Condition> {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|it| it.type_ == kind).cloned()
}

async fn refused(clusters: &Api<TenantCluster>, name: &str) -> Condition {
    let found = wait_for_condition(clusters, name, "QuotaSatisfied", "False").await;
    assert_eq!(condition(&found, "Ready").unwrap().status, "False");
    condition(&found, "QuotaSatisfied").unwrap()
}

async fn homes(server: &Server) -> Vec<String> {
    let namespaces: Api<Namespace> = Api::all(server.client());
    let ours = ListParams::default().labels("butler.butlerlabs.dev/source-namespace");
    let found = namespaces.list(&ours).await.unwrap();
    found.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn one_cluster_too_many_is_refused_with_figures_and_made_when_another_goes() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    team(&server, "few", &json!({"maxClusters": 1})).await;
    let clusters = clusters(&server, "few");
    make(&clusters, "first").await;
    let first = wait_for_condition(&clusters, "first", "Ready", "True").await;
    assert_eq!(condition(&first, "QuotaSatisfied").unwrap().status, "True");
    make(&clusters, "second").await;
    let said = refused(&clusters, "second").await;
    assert_eq!(said.reason, "QuotaExceeded");
    assert!(said.message.contains("2 of 1 clusters"), "{}", said.message);
    assert!(
        said.message.contains("maxClusters of Team few"),
        "{}",
        said.message
    );
    assert_eq!(
        homes(&server).await.len(),
        1,
        "nothing was made of the second"
    );
    assert!(
        clusters
            .get("second")
            .await
            .unwrap()
            .finalizers()
            .is_empty()
    );

    clusters
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    wait_for_condition(&clusters, "second", "Ready", "True").await;
}

#[tokio::test]
async fn clusters_that_are_made_at_once_never_have_more_than_their_team_may() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let teams = team(
        &server,
        "crowd",
        &json!({"maxClusters": 3, "maxTotalNodes": 7}),
    )
    .await;
    let clusters = clusters(&server, "crowd");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| format!("cluster-{name}"));
    let made = names.iter().map(|name| make(&clusters, name));
    futures::future::join_all(made).await;
    let mut admitted = Vec::new();
    for name in &names {
        let known = wait_for(&clusters, name, "a verdict", PATIENCE, |it| {
            condition(it, "QuotaSatisfied").is_some()
        });
        let known = condition(&known.await, "QuotaSatisfied").unwrap();
        admitted.extend((known.status == "True").then_some(name));
    }
    assert_eq!(admitted.len(), 3, "{admitted:?}");
    assert_eq!(homes(&server).await.len(), 3);

    let wide = json!({"spec": {"resourceLimits": {"maxClusters": 8, "maxTotalNodes": 16}}});
    let parameters = PatchParams::default();
    teams
        .patch("crowd", &parameters, &Patch::Merge(&wide))
        .await
        .unwrap();
    for name in &names {
        wait_for_condition(&clusters, name, "Ready", "True").await;
    }
}

#[tokio::test]
async fn a_scale_up_over_the_limit_holds_the_workers_until_the_limit_is_raised() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let teams = team(&server, "small", &json!({"maxTotalNodes": 3})).await;
    let clusters = clusters(&server, "small");
    make(&clusters, "demo").await;
    let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();

    crate::patch(&clusters, json!({"spec": {"workers": {"replicas": 5}}})).await;
    let held = wait_for_condition(&clusters, "demo", "QuotaSatisfied", "False").await;
    let said = condition(&held, "QuotaSatisfied").unwrap();
    assert!(said.message.contains("5 of 3 workers"), "{}", said.message);
    assert_eq!(condition(&held, "Ready").unwrap().status, "True");
    let pool = driver::object(&server, &home, "MachineDeployment", "demo-workers").await;
    assert_eq!(pool.unwrap()["spec"]["replicas"], 2);

    // A lower limit takes nothing away.
    let parameters = PatchParams::default();
    let limit = |most: u32| json!({"spec": {"resourceLimits": {"maxTotalNodes": most}}});
    teams
        .patch("small", &parameters, &Patch::Merge(&limit(1)))
        .await
        .unwrap();
    wait_for(&clusters, "demo", "the new figures", PATIENCE, |demo| {
        condition(demo, "QuotaSatisfied").is_some_and(|it| it.message.contains("5 of 1 workers"))
    })
    .await;
    let pool = driver::object(&server, &home, "MachineDeployment", "demo-workers").await;
    assert_eq!(pool.unwrap()["spec"]["replicas"], 2);

    teams
        .patch("small", &parameters, &Patch::Merge(&limit(5)))
        .await
        .unwrap();
    driver::until(
        &server,
        &home,
        "MachineDeployment",
        "demo-workers",
        |pool| pool["spec"]["replicas"] == 5,
    )
    .await;
    wait_for_condition(&clusters, "demo", "QuotaSatisfied", "True").await;
}

#[tokio::test]
async fn a_providers_limit_holds_in_every_namespace_and_raising_it_heals() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let providers: Api<ProviderConfig> = Api::namespaced(server.client(), "butler-system");
    let limit = |most: u32| json!({"spec": {"limits": {"maxNodesPerTeam": most}}});
    let parameters = PatchParams::default();
    providers
        .patch("local", &parameters, &Patch::Merge(&limit(1)))
        .await
        .unwrap();
    team(&server, "plain", &json!({})).await;
    let clusters = clusters(&server, "plain");
    make(&clusters, "demo").await;
    let said = refused(&clusters, "demo").await;
    assert!(
        said.message
            .contains("2 of 1 workers on ProviderConfig butler-system/local"),
        "{}",
        said.message
    );
    providers
        .patch("local", &parameters, &Patch::Merge(&limit(2)))
        .await
        .unwrap();
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
}

#[tokio::test]
async fn a_cluster_cannot_pass_for_one_of_another_team() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    team(&server, "poor", &json!({"maxClusters": 0})).await;
    team(&server, "rich", &json!({})).await;
    let clusters = clusters(&server, "poor");
    let made = cluster("demo", &json!({"teamRef": {"name": "rich"}}));
    clusters
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let demo = wait_for_condition(&clusters, "demo", "Ready", "False").await;
    let said = condition(&demo, "Ready").unwrap();
    assert_eq!(said.reason, "NamespaceMismatch");
    assert!(said.message.contains("namespace rich"), "{}", said.message);
}

/// Waits until a team says that it uses this.
async fn uses(teams: &Api<Team>, name: &str, usage: &Value) -> Team {
    let what = format!("to use {usage}");
    wait_for(teams, name, &what, PATIENCE, |team| {
        let status = team.status.as_ref();
        let said = status.and_then(|status| status.resource_usage.as_ref());
        let said = json!(said);
        let mut wanted = usage.as_object().unwrap().iter();
        wanted.all(|(key, value)| said[key] == *value)
    })
    .await
}

#[tokio::test]
async fn a_team_says_what_its_clusters_were_granted_and_when_that_is_near_or_above_its_limits() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let teams = team(
        &server,
        "users",
        &json!({"maxClusters": 3, "maxTotalNodes": 4}),
    )
    .await;
    uses(&teams, "users", &json!({"clusters": 0, "totalNodes": 0})).await;
    let clusters = clusters(&server, "users");
    make(&clusters, "one").await;
    wait_for_condition(&clusters, "one", "Ready", "True").await;
    let of_one = json!({"clusters": 1, "totalNodes": 2, "totalCPU": "8", "nodeUtilization": 50, "clusterUtilization": 33});
    uses(&teams, "users", &of_one).await;
    make(&clusters, "two").await;
    wait_for_condition(&clusters, "two", "Ready", "True").await;
    make(&clusters, "refused").await;
    refused(&clusters, "refused").await;
    let full = json!({"clusters": 2, "totalNodes": 4, "nodeUtilization": 100});
    let full = uses(&teams, "users", &full).await.status.unwrap();
    assert_eq!(json!(full.quota_status), "Warning");
    assert!(full.quota_message.unwrap().contains("4 of 4 workers"));

    // Fewer are allowed than there are.
    let lower = Patch::Merge(json!({"spec": {"resourceLimits": {"maxTotalNodes": 3}}}));
    let parameters = PatchParams::default();
    teams.patch("users", &parameters, &lower).await.unwrap();
    let above = wait_for_condition(&teams, "users", "QuotaExceeded", "True").await;
    let said = above.status.unwrap().quota_message.unwrap();
    assert!(said.contains("4 of 3 workers"), "{said}");
    for name in ["one", "two", "refused"] {
        let gone = clusters.delete(name, &DeleteParams::default()).await;
        gone.unwrap();
    }
    let nothing = json!({"clusters": 0, "totalNodes": 0, "totalCPU": "0"});
    uses(&teams, "users", &nothing).await;
    wait_for_condition(&teams, "users", "QuotaExceeded", "False").await;
}
