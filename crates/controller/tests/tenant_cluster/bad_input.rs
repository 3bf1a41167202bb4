//! What cannot be carried out is said with its cause and a remedy, heals when it is put right, and leaves nothing.

use butler_api::butler::TenantCluster;
use butler_testkit::{PATIENCE, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    DEMO, clusters,
    driver::{Driver, WITHOUT_IMAGE},
    sources::{nutanix, set_password},
    stage,
};

/// Waits until the `Ready` condition says something.
async fn says(clusters: &Api<TenantCluster>, text: &str) -> String {
    let of = |demo: &TenantCluster| {
        let conditions = demo.status.iter().flat_map(|status| &status.conditions);
        let ready = conditions.into_iter().find(|it| it.type_ == "Ready");
        ready.map(|it| (it.status.clone(), it.message.clone()))
    };
    let demo = wait_for(clusters, "demo", text, PATIENCE, |demo| {
        of(demo).is_some_and(|(status, said)| status == "False" && said.contains(text))
    });
    of(&demo.await).unwrap().1
}

#[tokio::test]
async fn a_namespace_that_somebody_else_has_is_named_and_left_alone_and_its_going_heals() {
    let server = crate::stage().await;
    let documents = DEMO.replace("NAMESPACE", "team-x");
    server.apply_yaml(&documents).await;
    let clusters = clusters(&server, "team-x");
    let uid = clusters.get("demo").await.unwrap().uid().unwrap();
    let home = format!("demo-{}", &uid[..8]);
    let namespaces: Api<Namespace> = Api::all(server.client());
    let foreign = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}});
    let foreign = serde_json::from_value(foreign).unwrap();
    let made = namespaces.create(&PostParams::default(), &foreign).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let said = says(&clusters, "does not belong to this cluster").await;
    assert!(said.contains(&home) && said.contains("remove it"), "{said}");
    let before = made.unwrap().metadata.labels;
    let after = namespaces.get(&home).await.unwrap().metadata.labels;
    assert_eq!(after, before, "it is left alone");

    let none = DeleteParams::default();
    namespaces.delete(&home, &none).await.unwrap();
    wait_until_gone(&namespaces, &home).await;
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
}

#[tokio::test]
async fn credentials_that_are_missing_are_named_and_their_arrival_heals() {
    let server = nutanix().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-y"))
        .await;
    let clusters = clusters(&server, "team-y");
    let said = says(&clusters, "the credentials of the provider have no key").await;
    assert!(said.contains("add it to the Secret"), "{said}");
    set_password(&server, "sesame").await;
    let demo = wait_for(&clusters, "demo", "the credentials", PATIENCE, |demo| {
        let said = json!(demo.status).to_string();
        !said.contains("have no key") && said.contains("WorkersReady")
    });
    let said = json!(demo.await.status).to_string();
    assert!(!said.contains("sesame"), "{said}");
    let none = DeleteParams::default();
    clusters.delete("demo", &none).await.unwrap();
    wait_until_gone(&clusters, "demo").await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    let ours = ListParams::default().labels("butler.butlerlabs.dev/source-name=demo");
    assert!(namespaces.list(&ours).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn an_image_that_is_missing_is_named_and_a_release_that_has_one_heals() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let documents = DEMO.replace("NAMESPACE", "team-i");
    let documents = documents.replace("v1.34.4", WITHOUT_IMAGE);
    server.apply_yaml(&documents).await;
    let clusters = clusters(&server, "team-i");
    let said = says(&clusters, "there is no image of v1.34.99").await;
    assert!(said.contains("machine demo-workers-0"), "{said}");

    crate::patch(&clusters, json!({"spec": {"kubernetesVersion": "v1.35.4"}})).await;
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
}

#[tokio::test]
async fn clusters_of_one_name_in_two_teams_have_nothing_in_common() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    for team in ["team-p", "team-q"] {
        server.apply_yaml(&DEMO.replace("NAMESPACE", team)).await;
    }
    let [one, other] = ["team-p", "team-q"].map(|team| clusters(&server, team));
    let mut homes = Vec::new();
    for demo in [&one, &other] {
        let demo = wait_for_condition(demo, "demo", "Ready", "True").await;
        homes.push(demo.status.unwrap().tenant_namespace.unwrap());
    }
    assert_ne!(homes[0], homes[1]);

    let namespaces: Api<Namespace> = Api::all(server.client());
    let before = namespaces.get(&homes[1]).await.unwrap();
    let none = DeleteParams::default();
    one.delete("demo", &none).await.unwrap();
    wait_until_gone(&one, "demo").await;
    assert!(namespaces.get_opt(&homes[0]).await.unwrap().is_none());
    let after = namespaces.get(&homes[1]).await.unwrap();
    assert_eq!(after.metadata, before.metadata);
    wait_for_condition(&other, "demo", "Ready", "True").await;
}

#[tokio::test]
async fn an_impossible_version_and_a_network_too_small_for_the_workers_are_refused_at_once() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-z"))
        .await;
    let clusters = clusters(&server, "team-z");
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let parameters = PatchParams::default();
    let refusal = async |change: Value| {
        let change = Patch::Merge(&change);
        match clusters.patch("demo", &parameters, &change).await {
            Err(kube::Error::Api(status)) if status.code == 422 => status.message,
            other => panic!("{change:?} was not refused: {other:?}"),
        }
    };
    for version in ["v1.36.0", "v1.33.9", "latest"] {
        let said = refusal(json!({"spec": {"kubernetesVersion": version}})).await;
        assert!(said.contains("kubernetesVersion"), "{said}");
    }
    let mut small = clusters.get("demo").await.unwrap();
    small.metadata = kube::api::ObjectMeta {
        name: Some("small".to_owned()),
        ..kube::api::ObjectMeta::default()
    };
    small.spec.networking.pod_cidr = "10.244.0.0/24".to_owned();
    let refused = clusters.create(&PostParams::default(), &small).await;
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("podCIDR"), "{said}");
    // What was refused did no harm, and what is possible is carried out.
    crate::patch(&clusters, json!({"spec": {"kubernetesVersion": "v1.35.4"}})).await;
    wait_for(&clusters, "demo", "the upgrade", PATIENCE, |demo| {
        let state = demo
            .status
            .as_ref()
            .and_then(|status| status.observed_state.as_ref());
        state.and_then(|state| state.kubernetes_version.as_deref()) == Some("v1.35.4")
    })
    .await;
}
