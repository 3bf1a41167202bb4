//! A certificate authority that a user brings.

use butler_pki::{
    Algorithm, Authority, Certificate, Fresh, KeySource as _, Lifetimes, PrivateKey,
    profile::Profile, validity::Validity,
};
use butler_runtime::clock::SystemClock;
use butler_testkit::{etcd::TlsEtcd, wait_for};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, Service},
};
use serde_json::json;

use crate::{serving::SOON, stage};

fn authority(name: &str) -> Authority {
    let key = Fresh.key(Algorithm::EcdsaP256).unwrap();
    let validity = Validity::starting(SystemClock::shared().now(), Lifetimes::default().authority);
    Authority::create(&Profile::authority(name), key, [1; 16], validity).unwrap()
}

fn secret(authority: &Authority) -> String {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": bytes(&authority.bundle()), "tls.key": bytes(authority.key().to_pem().as_str())},
    })
    .to_string()
}

#[tokio::test]
async fn an_authority_of_a_user_signs_and_another_one_waits_for_permission() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    let wish = "certificates: {authoritySecretRef: {name: mine}, keyAlgorithm: RSA-2048}";
    home.apply_yaml(&stage::with_kubernetes("blue", wish)).await;
    wait_for(&home.api::<Service>(), "blue", "its Service", SOON, |_| {
        true
    })
    .await;
    stage::give_address(&home, "blue", "127.0.0.76").await;
    stage::refused(&home, "blue", "CertificatesReady", "AuthorityMissing").await;
    let secrets = home.api::<Secret>();
    assert!(
        secrets.get_opt("blue-ca").await.unwrap().is_none(),
        "nothing is made instead"
    );

    let first = authority("Example Corp");
    home.apply_yaml(&secret(&first)).await;
    let serving = wait_for(&secrets, "blue-api-server-certificate", "it", SOON, |_| {
        true
    })
    .await;
    let data = serving.data.unwrap();
    let certificate = Certificate::from_pem(&data["apiserver.crt"].0).unwrap();
    assert!(certificate.is_signed_by(first.certificate()));
    let key = PrivateKey::from_pem(&data["apiserver.key"].0).unwrap();
    assert_eq!(key.kind().to_string(), "RSA-2048");

    home.apply_yaml(&secret(&authority("Example Corp"))).await;
    let message = stage::refused(&home, "blue", "CertificatesReady", "Blocked").await;
    assert!(message.contains("nodes trust the one in use"), "{message}");
    let held: Secret = home.get("blue-ca").await;
    assert_eq!(held.data.unwrap()["ca.crt"].0, first.bundle().as_bytes());
}
