//! Encryption at rest, looked at from the other side: what etcd holds.

use butler_api::steward::TenantControlPlane;
use butler_testkit::{pods::PodOptions, wait_for, wait_until_gone};
use k8s_openapi::api::core::v1::Secret;

use crate::{
    raw,
    serving::{Platform, SOON, is_ready, kubectl, platform_with},
    stage,
};

const WORD: &str = "word-that-nobody-may-read";

/// What etcd holds of a Secret of the tenant.
async fn stored(platform: &Platform, name: &str) -> Vec<u8> {
    let etcd = &platform.etcd;
    let root = raw::User::connect(&etcd.endpoint(), etcd.authority().0, etcd.client("root"));
    let end = format!("/secrets/default/{name}");
    let entries = root.everything().await.into_iter();
    let mut found = entries.filter(|entry| entry.key.ends_with(end.as_bytes()));
    let entry = found
        .next()
        .unwrap_or_else(|| panic!("etcd holds no {end}"));
    entry.value
}

fn shows(value: &[u8], text: &str) -> bool {
    value
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Waits until the condition `Encrypted` says so, for a reason, and about the newest spec.
async fn told(platform: &Platform, reason: &str) {
    let planes = platform.home.api::<TenantControlPlane>();
    let what = format!("Encrypted to say {reason}");
    wait_for(&planes, "blue", &what, SOON * 2, |plane| {
        let conditions = plane.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|held| {
            held.type_ == "Encrypted"
                && held.reason == reason
                && held.observed_generation == plane.metadata.generation
        })
    })
    .await;
}

async fn word(platform: &Platform, secret: &str) -> String {
    let path = "-o=jsonpath={.data.word}";
    let encoded = kubectl(platform, "blue", &["get", "secret", secret, path]).await;
    let bytes: k8s_openapi::ByteString = serde_json::from_value(encoded.into()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

async fn make(platform: &Platform, secret: &str) {
    let word = format!("--from-literal=word={WORD}");
    kubectl(
        platform,
        "blue",
        &["create", "secret", "generic", secret, &word],
    )
    .await;
}

#[tokio::test]
async fn what_a_tenant_keeps_is_encrypted_rotated_and_decrypted_without_losing_a_word() {
    let platform = platform_with(PodOptions::default()).await;
    let home = &platform.home;
    home.apply_yaml(&stage::control_plane("blue", "")).await;
    is_ready(home, "blue").await;
    make(&platform, "older").await;
    assert!(
        shows(&stored(&platform, "older").await, WORD),
        "plain at first"
    );

    home.apply_yaml(&stage::with_kubernetes("blue", "encryption: {}"))
        .await;
    told(&platform, "Encrypted").await;
    make(&platform, "newer").await;
    for secret in ["older", "newer"] {
        let value = stored(&platform, secret).await;
        assert!(
            value.starts_with(b"k8s:enc:secretbox:v1:key-1:"),
            "{secret}"
        );
        assert!(!shows(&value, WORD), "{secret} can be read in etcd");
        assert_eq!(word(&platform, secret).await, WORD);
    }

    let rotate = "encryption.steward.butlerlabs.dev/rotate=spring";
    let annotate = ["annotate", "tcp", "blue", "-n", home.name(), rotate];
    platform.server.kubectl(&annotate).await;
    let secrets = home.api::<Secret>();
    wait_for(
        &secrets,
        "blue-encryption-keys",
        "only the new key",
        SOON * 3,
        |secret| {
            let file = &secret.data.as_ref().unwrap()["keys.json"].0;
            shows(file, "key-2") && !shows(file, "key-1")
        },
    )
    .await;
    // The old key is gone from the pods too once this is told.
    told(&platform, "RollingOut").await;
    told(&platform, "Encrypted").await;
    for secret in ["older", "newer"] {
        let value = stored(&platform, secret).await;
        assert!(
            value.starts_with(b"k8s:enc:secretbox:v1:key-2:"),
            "{secret}"
        );
        assert_eq!(word(&platform, secret).await, WORD);
    }
    let config: Secret = home.get("blue-encryption").await;
    let config = &config.data.unwrap()["encryption.yaml"].0;
    assert!(!shows(config, "key-1"), "the old key is forgotten");

    home.apply_yaml(&stage::control_plane("blue", "")).await;
    told(&platform, "Decrypting").await;
    wait_for(
        &home.api::<TenantControlPlane>(),
        "blue",
        "nothing about encryption any more",
        SOON * 2,
        |plane| {
            let mut conditions = plane.status.iter().flat_map(|status| &status.conditions);
            !conditions.any(|held| held.type_ == "Encrypted")
        },
    )
    .await;
    for secret in ["older", "newer"] {
        assert!(shows(&stored(&platform, secret).await, WORD), "{secret}");
    }
    is_ready(home, "blue").await;
    for secret in ["blue-encryption", "blue-encryption-keys"] {
        wait_for_end(&platform, secret).await;
    }
    for secret in ["older", "newer"] {
        assert_eq!(word(&platform, secret).await, WORD);
    }
}

/// Keys go when the last pod that had them is replaced.
async fn wait_for_end(platform: &Platform, secret: &str) {
    let secrets = platform.home.api::<Secret>();
    let deployments = platform
        .home
        .api::<k8s_openapi::api::apps::v1::Deployment>();
    wait_for(&deployments, "blue", "a complete rollout", SOON, |live| {
        butler_steward::workload::state::Rollout::of(live).progress
            == butler_steward::workload::state::Progress::Complete
    })
    .await;
    wait_until_gone(&secrets, secret).await;
}

#[tokio::test]
async fn keys_of_a_user_are_asked_for_by_name_and_awaited() {
    let (server, etcd) = (
        crate::server().await,
        butler_testkit::etcd::TlsEtcd::start().await.unwrap(),
    );
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    let wish = "encryption: {provider: aescbc, keySecretRef: {name: mine}}";
    home.apply_yaml(&stage::with_kubernetes("blue", wish)).await;
    let services = home.api::<k8s_openapi::api::core::v1::Service>();
    wait_for(&services, "blue", "its Service", SOON, |_| true).await;
    stage::give_address(&home, "blue", "127.0.0.79").await;
    let deployments = home.api::<k8s_openapi::api::apps::v1::Deployment>();
    stage::refused(&home, "blue", "SettingsReady", "KeySecretNotFound").await;
    let none = deployments.get_opt("blue").await.unwrap();
    assert!(none.is_none(), "no pod runs unencrypted");
    let secret = |length: usize| {
        let bytes = serde_json::to_value(k8s_openapi::ByteString(vec![7; length])).unwrap();
        serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": {"first": bytes},
        })
        .to_string()
    };
    home.apply_yaml(&secret(16)).await;
    stage::refused(&home, "blue", "SettingsReady", "KeysUnusable").await;
    home.apply_yaml(&secret(32)).await;
    wait_for(&deployments, "blue", "its pods", SOON, |_| true).await;
    let config: Secret = home.get("blue-encryption").await;
    let config = String::from_utf8(config.data.unwrap()["encryption.yaml"].0.clone()).unwrap();
    assert!(
        config.contains(r#"{"aescbc":{"keys":[{"name":"first""#),
        "{config}"
    );
}
