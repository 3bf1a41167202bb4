//! A cluster that names a repository: it is ready when Flux follows it, and not before.

use butler_testkit::{PATIENCE, flux::Flux, wait_for, wait_for_condition};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::{Api, api::ListParams};

use crate::{
    fleet::{Fleet, SYNC},
    git::TOKEN,
};

const WRONG: &str = "glpat-7Qx-the-wrong-one";
/// What Flux says of a token that the repository does not know.
const REFUSED: &str = "authentication required";

impl Fleet {
    fn commit_greeting(&self, text: &str) {
        let metadata = "metadata: {name: greeting, namespace: default}";
        let map =
            format!("{{apiVersion: v1, kind: ConfigMap, {metadata}, data: {{text: {text}}}}}");
        self.git.write("clusters/saturn/greeting.yaml", &map);
        self.git.commit(text);
    }

    async fn until_greeted(&self, text: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(self.scene.server.client(), "default");
        let what = format!("the greeting {text} of the repository");
        wait_for(&maps, "greeting", &what, PATIENCE, |map| {
            map.data.as_ref().is_some_and(|data| data["text"] == text)
        })
        .await;
    }

    /// Everything that people see who may not read Secrets.
    async fn public_texts(&self) -> Vec<String> {
        let events: Api<Event> = Api::all(self.scene.server.client());
        let events = events.list(&ListParams::default()).await.unwrap();
        let addons = self.scene.addons().list(&ListParams::default()).await;
        let of_flux = ["get", "gitrepositories,kustomizations", "-A", "-o", "json"];
        vec![
            serde_json::to_string(&events).unwrap(),
            serde_json::to_string(&addons.unwrap()).unwrap(),
            self.scene.server.kubectl(&of_flux).await,
        ]
    }
}

#[tokio::test]
#[ignore = "needs Flux from the group platform: make e2e"]
async fn a_repository_is_ready_once_the_real_flux_follows_it_and_says_what_is_wrong_with_it() {
    let fleet = Fleet::new().await;
    fleet.commit_greeting("hello");
    fleet.give_token(WRONG).await;
    let _controllers = fleet.scene.run();
    fleet.tell_flux("1s").await;
    // Nobody sees to it yet.
    fleet.until_sync("False", "GitRepository flux-system").await;

    let flux = Flux::start(&fleet.scene.server).await.unwrap();
    fleet.until_sync("False", REFUSED).await;

    fleet.give_token(TOKEN).await;
    fleet.until_sync("True", "").await;
    fleet.until_greeted("hello").await;
    fleet.commit_greeting("goodbye");
    fleet.until_greeted("goodbye").await;

    let broken = "{apiVersion: v1, kind: Nonsense, metadata: {name: broken}}";
    fleet.git.write("clusters/saturn/broken.yaml", broken);
    fleet.git.commit("Break it");
    let kustomizations = fleet.of_flux("kustomize", "v1", "Kustomization");
    wait_for_condition(&kustomizations, "flux-system", "Ready", "False").await;
    fleet.touch(SYNC, "broken").await;
    fleet.until_sync("False", "Nonsense").await;

    let texts = [fleet.public_texts().await, vec![flux.log().unwrap()]].concat();
    for text in texts {
        for token in [TOKEN, WRONG] {
            assert!(!text.contains(token), "a token in {text}");
        }
    }
}

#[tokio::test]
#[ignore = "needs Flux from the group platform: make e2e"]
async fn another_token_is_tried_at_once_however_seldom_the_repository_is_asked() {
    let fleet = Fleet::new().await;
    fleet.commit_greeting("hello");
    fleet.give_token(TOKEN).await;
    let _controllers = fleet.scene.run();
    let _flux = Flux::start(&fleet.scene.server).await.unwrap();
    fleet.tell_flux("1h").await;
    fleet.until_sync("True", "").await;

    fleet.give_token(WRONG).await;
    fleet.touch(SYNC, "wrong").await;
    fleet.until_sync("False", REFUSED).await;
    fleet.give_token(TOKEN).await;
    fleet.touch(SYNC, "right").await;
    fleet.until_sync("True", "").await;
}
