//! Addons that Butler installed, handed over to Flux with the files of `butlerctl cluster export`.

use std::{collections::BTreeMap, fs, process::Command};

use butler_api::butler::{TenantAddon, TenantCluster};
use butler_testkit::{
    PATIENCE,
    audit::Mark,
    flux::{self, Flux},
    wait_for, wait_for_condition, wait_until_gone,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, SYNC},
    git::TOKEN,
    registry::Registry,
};

const ADDONS: [&str; 4] = ["saturn-flux", SYNC, "web", "shop"];
/// What the releases of the small chart are made of, by their names and UIDs.
type Identities = BTreeMap<String, String>;

impl Fleet {
    /// Two releases of the small chart: one with a workload and a password, and one of a registry that waits for it.
    async fn install_two(&self, registry: &Registry) {
        let scene = &self.scene;
        let values = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "values", "namespace": scene.namespace,
                "labels": {"butler.butlerlabs.dev/for-addons": "true"}},
            "stringData": {"password": "hunter2-hunter2"}});
        self.apply(&values).await;
        let from = json!([{"secret": "values", "key": "password", "targetPath": "password"}]);
        let web =
            json!({"spec": {"values": {"greeting": "hi", "workload": "app"}, "valuesFrom": from}});
        scene.add("web", &web).await;
        let needs = json!([{"name": "web"}]);
        let chart =
            json!({"repository": registry.url(), "plainHttp": true, "credentialsRef": null});
        let shop =
            json!({"spec": {"helm": chart, "values": {"greeting": "welcome"}, "dependsOn": needs}});
        scene.add("shop", &shop).await;
        self.run_workload("web").await;
    }

    /// Nobody runs containers here: what their controllers would make of a Deployment, where Helm looks for it.
    async fn run_workload(&self, name: &str) {
        let client = || self.scene.server.client();
        let deployments: Api<Deployment> = Api::namespaced(client(), name);
        let made = wait_for(&deployments, name, "its creation", PATIENCE, |_| true).await;
        let spec = made.spec.clone().unwrap();
        let owner = made.controller_owner_ref(&()).unwrap();
        let replicas = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": name, "ownerReferences": [owner],
                "labels": spec.selector.match_labels},
            "spec": {"replicas": 1, "selector": spec.selector, "template": spec.template}});
        self.apply(&replicas).await;
        let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
            "availableReplicas": 1}});
        let (params, status) = (PatchParams::default(), Patch::Merge(&status));
        let sets: Api<ReplicaSet> = Api::namespaced(client(), name);
        sets.patch_status(name, &params, &status).await.unwrap();
        let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1,
            "availableReplicas": 1, "updatedReplicas": 1}});
        let status = Patch::Merge(&status);
        let patched = deployments.patch_status(name, &params, &status).await;
        patched.unwrap();
    }

    async fn follow_policy(&self, mode: &str) {
        let clusters: Api<TenantCluster> =
            Api::namespaced(self.scene.server.client(), &self.scene.namespace);
        let change = json!({"spec": {"managementPolicy": {"mode": mode}}});
        let (params, change) = (PatchParams::default(), Patch::Merge(&change));
        clusters.patch("saturn", &params, &change).await.unwrap();
        for name in ADDONS {
            self.scene.until(name, "Installed", "Observed").await;
        }
    }

    /// What the program says that people have to see to.
    fn export(&self) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_butlerctl"))
            .args(["-n", &self.scene.namespace, "cluster", "export", "saturn"])
            .arg("--output-dir")
            .arg(self.git.folder())
            .env("KUBECONFIG", self.scene.server.kubeconfig())
            .env("HOME", self.scene.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    }

    /// Makes the Secrets that the notes of an export name, like those of the management cluster.
    async fn see_to(&self, notes: &str) {
        let held = self.scene.secrets(&self.scene.namespace);
        for name in ["repository", "values", "fleet"] {
            assert!(notes.contains(&format!("Secret {name}")), "{notes}");
            let data = held.get(name).await.unwrap().data;
            let copy = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
                "metadata": {"name": name, "namespace": "flux-system"}});
            self.apply(&copy).await;
        }
    }

    fn helm_releases(&self) -> Api<DynamicObject> {
        self.of_flux("helm", "v2", "HelmRelease")
    }

    async fn identities(&self) -> Identities {
        let mut found = Identities::new();
        let client = || self.scene.server.client();
        for name in ["web", "shop"] {
            let maps: Api<ConfigMap> = Api::namespaced(client(), name);
            let secrets: Api<Secret> = Api::namespaced(client(), name);
            note(&mut found, &maps.get(name).await.unwrap());
            note(&mut found, &secrets.get(name).await.unwrap());
        }
        let deployments: Api<Deployment> = Api::namespaced(client(), "web");
        note(&mut found, &deployments.get("web").await.unwrap());
        found
    }

    /// Status and chart of each revision of a release, oldest first.
    fn history(&self, release: &str) -> Vec<(String, String)> {
        let namespace = ["--namespace", release, "-o", "json"];
        let text = self
            .scene
            .helm(&[&["history", release][..], &namespace].concat());
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.iter()
            .map(|one| (text(&one["status"]), text(&one["chart"])))
            .collect()
    }

    /// A pass over the addon after somebody touched it, which has seen this revision.
    async fn look_again(&self, name: &str, revision: i64) -> TenantAddon {
        self.touch(name, &format!("revision-{revision}")).await;
        let what = format!("a look at revision {revision}");
        wait_for(&self.scene.addons(), name, &what, PATIENCE, |addon| {
            let release = addon.status.as_ref();
            let release = release.and_then(|status| status.helm_release.as_ref());
            release.is_some_and(|release| {
                release.revision == Some(revision) && release.status.as_deref() == Some("deployed")
            })
        })
        .await
    }

    /// Asserts that only Flux wrote to the two releases.
    async fn only_flux_wrote_since(&self, mark: Mark) {
        let writes = self.scene.server.writes(mark).await;
        let others = writes.only(|event| {
            ["web", "shop"].contains(&event.namespace()) && event.user() != flux::USER
        });
        assert_eq!(others.count(), 0, "{others}");
    }
}

fn note<K: Resource<DynamicType = ()>>(found: &mut Identities, object: &K) {
    let name = format!("{} {}", K::kind(&()), object.name_any());
    found.insert(name, object.uid().unwrap());
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(status, chart): &(&str, &str)| ((*status).to_owned(), (*chart).to_owned());
    all.iter().map(owned).collect()
}

#[tokio::test]
#[ignore = "needs Flux from the group platform: make e2e"]
async fn flux_takes_over_the_releases_that_stand_and_butler_leaves_them_to_it() {
    let fleet = Fleet::new().await;
    let scene = &fleet.scene;
    let start = "{apiVersion: v1, kind: ConfigMap, metadata: {name: start, namespace: default}}";
    fleet.git.write("clusters/saturn/start.yaml", start);
    fleet.git.commit("Start");
    fleet.give_token(TOKEN).await;
    let _controllers = scene.run();
    let _flux = Flux::start(&scene.server).await.unwrap();
    fleet.tell_flux("1s").await;
    let registry = Registry::start(&scene.repository.archive(), None).await;
    fleet.install_two(&registry).await;
    for name in ADDONS {
        scene.until(name, "Ready", "Ready").await;
    }
    let before = fleet.identities().await;

    fleet.follow_policy("GitOps").await;
    let mark = scene.server.mark().await;
    let notes = fleet.export();
    fleet.see_to(&notes).await;
    fleet.git.commit("Take the addons over");
    for name in ADDONS {
        wait_for_condition(&fleet.helm_releases(), name, "Ready", "True").await;
    }
    let taken_over = pairs(&[("superseded", "small-1.0.0"), ("deployed", "small-1.0.0")]);
    for name in ["web", "shop"] {
        assert_eq!(fleet.history(name), taken_over, "{name} goes on as it was");
        let addon = fleet.look_again(name, 2).await;
        let said = addon.status.unwrap().message.unwrap();
        assert!(said.starts_with("it is installed as asked for"), "{said}");
    }
    assert_eq!(fleet.identities().await, before, "nothing was made anew");

    let file = fleet.git.path("apps/saturn/release-web.yaml");
    let written = fs::read_to_string(&file).unwrap();
    let changed = written
        .replace("1.0.0", "2.0.0")
        .replace("greeting: hi", "greeting: bye");
    fs::write(&file, changed).unwrap();
    fleet.git.commit("Say goodbye");
    let maps: Api<ConfigMap> = Api::namespaced(scene.server.client(), "web");
    let map = wait_for(&maps, "web", "version 2.0.0", PATIENCE, |map| {
        map.data
            .as_ref()
            .is_some_and(|data| data["version"] == "2.0.0")
    })
    .await;
    assert_eq!(map.data.unwrap()["greeting"], "bye");
    wait_for_condition(&fleet.helm_releases(), "web", "Ready", "True").await;
    let secret = scene.secrets("web").get("web").await.unwrap();
    assert_eq!(
        secret.data.unwrap()["password"].0,
        b"hunter2-hunter2",
        "the Secret's values lie over the others"
    );

    let addon = fleet.look_again("web", 3).await;
    let status = addon.status.unwrap();
    assert_eq!(status.installed_version.as_deref(), Some("2.0.0"));
    let said = status.message.unwrap();
    assert!(
        said.starts_with("another version or other values are installed"),
        "{said}"
    );
    fleet.only_flux_wrote_since(mark).await;

    let deleted = scene.addons().delete("web", &DeleteParams::default()).await;
    deleted.unwrap();
    wait_until_gone(&scene.addons(), "web").await;
    assert_eq!(fleet.identities().await, before, "its release stands");
    assert_eq!(fleet.history("web").len(), 3);
    fleet.only_flux_wrote_since(mark).await;
}
