//! Our certificates beside those of kubeadm v1.35.4 (`kubeadm init phase certs all`, and the client
//! certificates of `kubeadm init phase kubeconfig all`, both with ECDSA-P256), read by a parser that is not ours.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::{collections::BTreeSet, fs, path::Path};

use butler_pki::{Contents, Kubeconfig, SecretKind};
use support::{issued, text, wanted};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    oid_registry::{
        OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER, OID_X509_EXT_SUBJECT_ALT_NAME,
        OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
    },
    pem::parse_x509_pem,
};

fn theirs(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubeadm");
    fs::read(folder.join(format!("{name}.crt"))).unwrap()
}

fn read<T>(pem: &[u8], look: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let (_, block) = parse_x509_pem(pem).unwrap();
    look(&block.parse_x509().unwrap())
}

/// All that is the same in every certificate of its kind: the subject and issuer in their encoding, the
/// algorithm, the days, and the extensions in their order, apart from values that hold keys or names.
#[derive(Debug, PartialEq)]
struct Shape {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    algorithm: String,
    days: i64,
    extensions: Vec<(String, bool, Vec<u8>)>,
}

fn shape(pem: &[u8]) -> Shape {
    let own_value = [
        OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
        OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER,
        OID_X509_EXT_SUBJECT_ALT_NAME,
    ];
    read(pem, |certificate| {
        let validity = certificate.validity();
        let extensions = certificate.extensions().iter().map(|extension| {
            let shared = !own_value.contains(&extension.oid);
            let value = if shared {
                extension.value.to_vec()
            } else {
                Vec::new()
            };
            (extension.oid.to_id_string(), extension.critical, value)
        });
        Shape {
            subject: certificate.subject().as_raw().to_vec(),
            issuer: certificate.issuer().as_raw().to_vec(),
            algorithm: certificate.signature_algorithm.algorithm.to_id_string(),
            // Whole days: kubeadm takes the start of its authority, a second or two earlier.
            days: (validity.not_after.timestamp() - validity.not_before.timestamp()) / 86_400,
            extensions: extensions.collect(),
        }
    })
}

fn names(pem: &[u8]) -> BTreeSet<String> {
    read(pem, |certificate| {
        let extension = certificate.subject_alternative_name().unwrap();
        let names = extension
            .iter()
            .flat_map(|extension| &extension.value.general_names);
        names
            .map(|name| match name {
                GeneralName::DNSName(name) => (*name).to_owned(),
                GeneralName::IPAddress(octets) => format!("{octets:?}"),
                other => panic!("neither kubeadm nor we write {other:?}"),
            })
            .collect()
    })
}

fn client(contents: &Contents, kind: SecretKind, file: &str) -> Vec<u8> {
    Kubeconfig::from_yaml(&text(contents, kind, file))
        .unwrap()
        .certificate
}

#[test]
fn every_certificate_has_the_shape_of_kubeadms() {
    let held = issued(&wanted());
    let pairs = [
        ("ca", text(&held, SecretKind::Ca, "ca.crt")),
        (
            "front-proxy-ca",
            text(&held, SecretKind::FrontProxyCa, "front-proxy-ca.crt"),
        ),
        (
            "apiserver",
            text(&held, SecretKind::ApiServer, "apiserver.crt"),
        ),
        (
            "apiserver-kubelet-client",
            text(
                &held,
                SecretKind::KubeletClient,
                "apiserver-kubelet-client.crt",
            ),
        ),
        (
            "front-proxy-client",
            text(
                &held,
                SecretKind::FrontProxyClient,
                "front-proxy-client.crt",
            ),
        ),
        (
            "admin",
            client(&held, SecretKind::AdminKubeconfig, "admin.conf"),
        ),
        (
            "super-admin",
            client(&held, SecretKind::AdminKubeconfig, "super-admin.conf"),
        ),
        (
            "controller-manager",
            client(
                &held,
                SecretKind::ControllerManagerKubeconfig,
                "controller-manager.conf",
            ),
        ),
        (
            "scheduler",
            client(&held, SecretKind::SchedulerKubeconfig, "scheduler.conf"),
        ),
    ];
    for (name, ours) in pairs {
        assert_eq!(shape(&ours), shape(&theirs(name)), "{name}");
    }
}

#[test]
fn authorities_carry_kubeadms_names() {
    let held = issued(&wanted());
    let ca = text(&held, SecretKind::Ca, "ca.crt");
    assert_eq!(names(&ca), names(&theirs("ca")));
    let front = text(&held, SecretKind::FrontProxyCa, "front-proxy-ca.crt");
    assert_eq!(names(&front), names(&theirs("front-proxy-ca")));
}

#[test]
fn the_api_server_answers_to_kubeadms_names_but_for_the_node_and_to_its_service() {
    let held = issued(&wanted());
    let ours = names(&text(&held, SecretKind::ApiServer, "apiserver.crt"));
    let mut theirs = names(&theirs("apiserver"));
    assert!(theirs.remove("node"), "kubeadm puts the machine's name in");
    let more: Vec<_> = ours.difference(&theirs).map(String::as_str).collect();
    assert_eq!(
        more,
        ["blue", "blue.team-a.svc", "blue.team-a.svc.cluster.local"]
    );
    assert!(theirs.is_subset(&ours));
}
