//! The rules about the Secrets beside a Cluster.

use butler_testkit::{Namespace, PATIENCE, wait_for};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use crate::{stage, text};

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const TYPE: &str = "cluster.x-k8s.io/secret";

async fn by_the_rules(home: &Namespace, name: &str) -> Secret {
    let secret: Secret = home.get(name).await;
    assert_eq!(secret.type_.as_deref(), Some(TYPE), "{name}");
    assert_eq!(secret.labels()[CLUSTER_NAME], "sky", "{name}");
    let owners: Vec<&String> = secret.owner_references().iter().map(|o| &o.kind).collect();
    assert_eq!(owners, ["StewardControlPlane"], "{name}");
    secret
}

#[tokio::test]
async fn cluster_kubeconfig_management_the_secret_is_there_and_follows_every_renewal() {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let secret = by_the_rules(&home, "sky-kubeconfig").await;
    assert_eq!(text(&secret, "value"), "kubeconfig one");

    stage::secrets(&home, "blue", "kubeconfig two").await;
    let renewed = json!({"status": {"kubeconfig": {"admin": {"checksum": "two"}}}});
    stage::report(&home, "blue", &renewed).await;
    let secrets = home.api::<Secret>();
    let what = "the renewed kubeconfig";
    wait_for(&secrets, "sky-kubeconfig", what, PATIENCE, |secret| {
        text(secret, "value") == "kubeconfig two"
    })
    .await;
}

#[tokio::test]
async fn cluster_certificate_management_the_authority_is_there_and_other_keys_stay_where_they_are_used()
 {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let secret = by_the_rules(&home, "sky-ca").await;
    assert_eq!(text(&secret, "tls.crt"), "certificate");
    assert_eq!(text(&secret, "tls.key"), "key");
    // Nothing of Cluster API reads these: no second copy of a private key is made.
    for name in ["sky-etcd", "sky-proxy", "sky-sa"] {
        let found = home.api::<Secret>().get_opt(name).await.unwrap();
        assert!(found.is_none(), "{name}");
    }
}
