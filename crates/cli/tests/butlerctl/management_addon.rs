//! What an addon of the platform would change, by the real Helm on a real API server.

use butler_api::butler::AddonDefinition;
use butler_testkit::{Options, Server};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    program::{Ran, bare_admin, run},
    repository::{Repository, helm},
    stage,
};

struct Scene {
    server: Server,
    _repository: Repository,
}

impl Scene {
    async fn new() -> Self {
        let (server, repository) = (
            stage::server(Options::default()).await,
            Repository::start().await,
        );
        let secret = |name: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
                "metadata": {"name": name, "namespace": "butler-system",
                    "labels": {"butler.butlerlabs.dev/for-addons": "true"}}})
        };
        let chart = json!({"repository": repository.url(), "name": "small", "defaultVersion": "1.0.0",
            "credentialsRef": {"name": "repository"}});
        let from = json!([{"secret": "web", "key": "password", "targetPath": "password"}]);
        for object in [
            secret(
                "repository",
                json!({"username": "ada", "password": "sesame-open"}),
            ),
            secret("web", json!({"password": "hunter2-and-more"})),
            json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
                "metadata": {"name": "small"},
                "spec": {"displayName": "Small", "description": "A small chart.", "category": "other",
                    "chart": chart, "kubernetesVersions": ">=1.20",
                    "defaults": {"values": {"greeting": "from the catalogue"}}}}),
            json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ManagementAddon",
                "metadata": {"name": "blue"}, "spec": {"addon": "small", "valuesFrom": from}}),
        ] {
            server.apply_yaml(&object.to_string()).await;
        }
        Self {
            server,
            _repository: repository,
        }
    }

    async fn plan(&self, arguments: &[&str]) -> Ran {
        let mut command = bare_admin();
        command
            .args(["addon", "plan", "--kubeconfig"])
            .arg(self.server.kubeconfig())
            .args(arguments)
            .arg("--helm")
            .arg(helm());
        run(command).await
    }
}

#[tokio::test]
async fn people_of_the_platform_see_what_their_addon_would_change_and_nothing_of_it_happens() {
    let scene = Scene::new().await;
    let text = scene.plan(&["blue", "--diff"]).await.good();
    let first = "Release blue-system/blue: small none -> 1.0.0\n";
    assert!(text.starts_with(first), "{text}");
    assert!(
        text.contains("\ncreate   ConfigMap   ") && text.contains("\ncreate   Secret      "),
        "{text}"
    );
    assert!(text.contains("+  greeting: from the catalogue\n"), "{text}");
    let shows_secret = ["hunter2", "sesame"].iter().any(|it| text.contains(it));
    assert!(!shows_secret, "{text}");
    let namespaces: Api<Namespace> = Api::all(scene.server.client());
    let made = namespaces.get_opt("blue-system").await.unwrap();
    assert!(made.is_none(), "a plan makes nothing");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addon.yaml");
    let other = json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ManagementAddon",
        "metadata": {"name": "green"}, "spec": {"addon": "small", "values": {"greeting": "hi"}}});
    std::fs::write(&file, other.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let ran = scene.plan(&["-f", file, "--exit-code", "-o", "json"]).await;
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found["release"], "green-system/green");
    let said = ran.bad(7);
    assert!(
        said.contains("ManagementAddon green would change 2 objects"),
        "{said}"
    );
}

#[tokio::test]
async fn what_the_controller_would_refuse_the_plan_refuses_for_the_same_reason() {
    let scene = Scene::new().await;
    let said = scene.plan(&["nothing"]).await.bad(3);
    assert!(
        said.contains("there is no ManagementAddon nothing"),
        "{said}"
    );
    let params = PatchParams::default();
    let old = Patch::Merge(json!({"spec": {"kubernetesVersions": "<1.20"}}));
    let entries: Api<AddonDefinition> = Api::all(scene.server.client());
    entries.patch("small", &params, &old).await.unwrap();
    let said = scene.plan(&["blue"]).await.bad(6);
    assert!(said.contains("it runs on Kubernetes <1.20"), "{said}");

    let accounts: Api<ServiceAccount> = Api::namespaced(scene.server.client(), "butler-system");
    let none = DeleteParams::default();
    let gone = accounts.delete("butler-management-addons", &none).await;
    gone.unwrap();
    let said = scene.plan(&["blue"]).await.bad(6);
    assert!(said.contains("managementAddons.enabled=true"), "{said}");
}
