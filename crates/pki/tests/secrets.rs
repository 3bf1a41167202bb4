//! The Secrets as objects: names, labels and annotations that existing tools look for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use butler_pki::{
    Algorithm, Fresh, Jitter, Lifetimes, SecretKind, Subject, UserKubeconfig,
    capi::Cluster,
    layout::{CHECKSUM, read},
    user::SubjectError,
};
use k8s_openapi::api::core::v1::Secret;
use support::{authority, day, issued, tenant, wanted};

fn label<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

#[test]
fn secrets_read_back_as_they_were_written_and_strangers_are_passed_over() {
    let held = issued(&wanted());
    let tenant = tenant();
    let mut secrets: Vec<Secret> = held
        .iter()
        .map(|(kind, content)| content.to_secret(*kind, &tenant))
        .collect();
    let mut stranger = secrets[0].clone();
    stranger.metadata.namespace = Some("team-b".into());
    secrets.insert(0, stranger);
    secrets.push(Secret::default());
    assert_eq!(read(&tenant, &secrets), held);
}

#[test]
fn names_and_labels_are_those_that_tools_look_for() {
    let held = issued(&wanted());
    let secrets: Vec<Secret> = held
        .iter()
        .map(|(kind, content)| content.to_secret(*kind, &tenant()))
        .collect();
    let shown: Vec<_> = secrets
        .iter()
        .map(|secret| {
            let lifecycle = "steward.butlerlabs.dev/certificate_lifecycle_controller";
            (
                secret.metadata.name.as_deref().unwrap(),
                label(secret, lifecycle),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("blue-ca", None),
            ("blue-front-proxy-ca-certificate", None),
            ("blue-sa-certificate", None),
            ("blue-api-server-certificate", Some("x509")),
            ("blue-api-server-kubelet-client-certificate", Some("x509")),
            ("blue-front-proxy-client-certificate", Some("x509")),
            ("blue-datastore-certificate", Some("x509")),
            ("blue-admin-kubeconfig", Some("kubeconfig")),
            ("blue-controller-manager-kubeconfig", Some("kubeconfig")),
            ("blue-scheduler-kubeconfig", Some("kubeconfig")),
            ("blue-konnectivity-kubeconfig", Some("kubeconfig")),
        ]
    );
    for secret in &secrets {
        assert_eq!(
            label(secret, "steward.butlerlabs.dev/project"),
            Some("steward")
        );
        assert_eq!(label(secret, "steward.butlerlabs.dev/name"), Some("blue"));
        let checksum = &secret.metadata.annotations.as_ref().unwrap()[CHECKSUM];
        assert_eq!(checksum.len(), 32, "it fits a label");
    }
}

#[test]
fn cluster_api_finds_its_kubeconfig_and_authority() {
    let held = issued(&wanted());
    let cluster = Cluster {
        name: "prod",
        namespace: "team-a",
        tenant: "blue",
    };
    let admin = &held[&SecretKind::AdminKubeconfig];
    let kubeconfig = cluster.kubeconfig(admin, "admin.conf").unwrap();
    assert_eq!(kubeconfig.metadata.name.as_deref(), Some("prod-kubeconfig"));
    assert_eq!(kubeconfig.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    assert_eq!(
        label(&kubeconfig, "cluster.x-k8s.io/cluster-name"),
        Some("prod")
    );
    assert_eq!(
        kubeconfig.data.unwrap()["value"].0,
        admin.data["admin.conf"]
    );
    assert_eq!(cluster.kubeconfig(admin, "other.conf"), None);
    let ca = cluster.authority(&held[&SecretKind::Ca]).unwrap();
    assert_eq!(ca.metadata.name.as_deref(), Some("prod-ca"));
    assert_eq!(
        ca.data.unwrap().into_keys().collect::<Vec<_>>(),
        ["tls.crt", "tls.key"]
    );
}

#[test]
fn a_generated_kubeconfig_follows_its_user_its_server_and_requests() {
    let authority = authority("kubernetes");
    let mut wanted = UserKubeconfig {
        generator: "readers".into(),
        tenant: tenant(),
        subject: Subject::user("jane", &["view".into()]).unwrap(),
        server: "https://192.0.2.10:6443".into(),
        algorithm: Algorithm::EcdsaP256,
        lifetime: Lifetimes::default().leaf,
    };
    let mut held = None;
    let mut pass = |wanted: &UserKubeconfig, ask: bool| {
        let mut before = held.clone();
        if let (true, Some(content)) = (ask, &mut before) {
            let content: &mut butler_pki::Content = content;
            content.rotate = Some(String::new());
        }
        let step = wanted.plan(before.as_ref(), &authority, day(1), Jitter::NONE);
        let after = wanted
            .issue(&step, before.as_ref(), &authority, &mut Fresh, day(1))
            .unwrap();
        let next = wanted.plan(Some(&after), &authority, day(1), Jitter::NONE);
        assert!(!next.action.changes());
        held = Some(after);
        format!("{:?}", step.action)
            .split_whitespace()
            .take(4)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(pass(&wanted, false), "Issue { reason: Missing");
    assert_eq!(pass(&wanted, false), "Keep");
    assert_eq!(pass(&wanted, true), "Issue { reason: Requested");
    wanted.server = "https://new.example.com:443".into();
    assert_eq!(pass(&wanted, false), "Rewrite { reason: Server");
    wanted.subject = Subject::user("jane", &["edit".into(), "view".into()]).unwrap();
    assert_eq!(pass(&wanted, false), "Issue { reason: Subject");
    let secret = wanted.to_secret(held.as_ref().unwrap());
    assert_eq!(secret.metadata.name.as_deref(), Some("blue-readers"));
    assert_eq!(
        label(&secret, "steward.butlerlabs.dev/managed-by"),
        Some("readers")
    );
    assert_eq!(
        label(&secret, "steward.butlerlabs.dev/managed-for"),
        Some("blue")
    );
}

#[test]
fn users_that_no_certificate_can_name_are_refused() {
    assert!(Subject::user(&"x".repeat(64), &[]).is_ok());
    for bad in ["", "a\nb", &"x".repeat(65)] {
        assert_eq!(Subject::user(bad, &[]), Err(SubjectError(bad.into())));
        assert_eq!(
            Subject::user("jane", &[bad.into()]),
            Err(SubjectError(bad.into()))
        );
    }
}
