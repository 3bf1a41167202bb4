//! What openssl and kubeadm say about our files. Without them nothing is proved, so a missing one is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use butler_pki::{
    Algorithm, Authority, AuthorityError, Certificate, Contents, Fresh, Jitter, Lifetimes,
    PrivateKey, Subject, UserKubeconfig, Wanted, carry_out, plan, profile::Purpose,
};
use butler_toolchain::Toolchain;
use jiff::Timestamp;
use support::{tenant, wanted};
use tempfile::TempDir;

#[allow(
    clippy::disallowed_methods,
    reason = "the tools compare with the real clock"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

fn run(command: &mut Command) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.success(), text)
}

fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let (well, text) = run(Command::new("openssl").args(arguments).current_dir(folder));
    assert!(well, "openssl {}:\n{text}", arguments.join(" "));
    text
}

/// Writes the files of a new control plane as they are mounted.
fn write(wanted: &Wanted) -> (TempDir, Contents) {
    let folder = tempfile::tempdir().unwrap();
    let now = now();
    let plan = plan(wanted, &Contents::new(), now, Jitter::NONE);
    let held = carry_out(&plan, wanted, &Contents::new(), &mut Fresh, now).unwrap();
    for (kind, content) in &held {
        let store = *kind == butler_pki::SecretKind::DataStore;
        for (file, text) in &content.data {
            let name = if store {
                format!("store-{file}")
            } else {
                file.clone()
            };
            fs::write(folder.path().join(name), text).unwrap();
        }
    }
    (folder, held)
}

#[test]
fn openssl_verifies_every_certificate_for_its_purpose_and_no_other() {
    for algorithm in [Algorithm::EcdsaP256, Algorithm::Rsa2048] {
        let (folder, _) = write(&Wanted {
            algorithm,
            ..wanted()
        });
        let folder = folder.path();
        for (authority, certificate, purpose, other) in [
            ("ca.crt", "apiserver.crt", "sslserver", "sslclient"),
            (
                "ca.crt",
                "apiserver-kubelet-client.crt",
                "sslclient",
                "sslserver",
            ),
            (
                "front-proxy-ca.crt",
                "front-proxy-client.crt",
                "sslclient",
                "sslserver",
            ),
            ("store-ca.crt", "store-server.crt", "sslclient", "sslserver"),
        ] {
            let verify = ["verify", "-x509_strict", "-CAfile", authority, "-purpose"];
            let text = openssl(folder, &[&verify[..], &[purpose, certificate]].concat());
            assert_eq!(text.trim(), format!("{certificate}: OK"));
            let mut wrong = Command::new("openssl");
            wrong
                .args(verify)
                .args([other, certificate])
                .current_dir(folder);
            assert!(!run(&mut wrong).0, "{certificate} must not be a {other}");
        }
        let host = ["verify", "-CAfile", "ca.crt", "-verify_hostname"];
        openssl(
            folder,
            &[&host[..], &["blue.team-a.svc", "apiserver.crt"]].concat(),
        );
        let address = [
            "verify",
            "-CAfile",
            "ca.crt",
            "-verify_ip",
            "10.96.0.1",
            "apiserver.crt",
        ];
        openssl(folder, &address);
        let public = openssl(folder, &["pkey", "-in", "sa.key", "-pubout"]);
        assert_eq!(public, fs::read_to_string(folder.join("sa.pub")).unwrap());
    }
}

#[test]
fn keys_in_the_formats_of_openssl_and_kubeadm_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let made: [(&[&str], &str); 5] = [
        (
            &["genrsa", "-traditional", "-out", "key", "2048"],
            "RSA-2048",
        ),
        (&["genrsa", "-out", "key", "3072"], "RSA-3072"),
        (
            &["ecparam", "-name", "prime256v1", "-genkey", "-out", "key"],
            "ECDSA-P256",
        ),
        (
            &[
                "ecparam",
                "-name",
                "secp384r1",
                "-genkey",
                "-noout",
                "-out",
                "key",
            ],
            "ECDSA-P384",
        ),
        (
            &[
                "genpkey",
                "-algorithm",
                "EC",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-out",
                "key",
            ],
            "ECDSA-P256",
        ),
    ];
    for (arguments, kind) in made {
        openssl(folder.path(), arguments);
        let text = fs::read(folder.path().join("key")).unwrap();
        let key = PrivateKey::from_pem(&text).unwrap();
        assert_eq!(key.kind().to_string(), kind);
        let public = openssl(folder.path(), &["pkey", "-in", "key", "-pubout"]);
        assert_eq!(public, key.public_pem());
    }
}

/// An authority made by openssl.
fn company(folder: &Path, name: &str, extensions: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let mut arguments = vec![
        "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-days", "30",
    ];
    arguments.extend(["-subj", name, "-keyout", "key", "-out", "crt"]);
    for extension in extensions {
        arguments.extend(["-addext", extension]);
    }
    openssl(folder, &arguments);
    (
        fs::read(folder.join("crt")).unwrap(),
        fs::read(folder.join("key")).unwrap(),
    )
}

const BOTH: [Purpose; 2] = [Purpose::ServerAuth, Purpose::ClientAuth];

#[test]
fn an_authority_with_repeated_parts_in_its_name_signs_what_openssl_verifies() {
    let made = tempfile::tempdir().unwrap();
    let name = "/DC=com/DC=example/O=One+O=Two/OU=Ünit/CN=Root";
    let (certificate, key) = company(made.path(), name, &[]);
    let authority = Authority::from_pem(&certificate, &key).unwrap();
    authority.check(&BOTH, now()).unwrap();
    let (folder, _) = write(&Wanted {
        authority: Some(authority),
        ..wanted()
    });
    let purpose = [
        "verify",
        "-CAfile",
        "ca.crt",
        "-purpose",
        "sslserver",
        "apiserver.crt",
    ];
    openssl(folder.path(), &purpose);
}

#[test]
fn an_authority_that_cannot_be_used_is_refused_in_words() {
    let made = tempfile::tempdir().unwrap();
    let (certificate, key) = company(
        made.path(),
        "/CN=x",
        &["basicConstraints=critical,CA:FALSE"],
    );
    assert_eq!(
        Authority::from_pem(&certificate, &key),
        Err(AuthorityError::NotAuthority)
    );
    let (_, other) = company(made.path(), "/CN=x", &[]);
    assert_eq!(
        Authority::from_pem(&certificate, &other),
        Err(AuthorityError::WrongKey)
    );
    let (certificate, key) = company(made.path(), "/CN=x", &["keyUsage=digitalSignature"]);
    assert_eq!(
        Authority::from_pem(&certificate, &key),
        Err(AuthorityError::NotAuthority)
    );
    let (certificate, key) = company(made.path(), "/CN=x", &["extendedKeyUsage=serverAuth"]);
    let limited = Authority::from_pem(&certificate, &key).unwrap();
    assert_eq!(
        limited.check(&BOTH, now()),
        Err(AuthorityError::Limited(Purpose::ClientAuth))
    );
    let end = limited.certificate().not_after();
    let over = limited.check(&[Purpose::ServerAuth], end).unwrap_err();
    assert_eq!(over, AuthorityError::Expired(end));
}

#[test]
fn a_user_with_many_groups_keeps_all_of_them() {
    let authority = support::authority("kubernetes");
    let groups = ["system:masters", "a", "Ünits", "team-b@example.com"].map(str::to_owned);
    let wanted = UserKubeconfig {
        generator: "readers".into(),
        tenant: tenant(),
        subject: Subject::user("jane@example.com", &groups).unwrap(),
        server: "https://192.0.2.10:6443".into(),
        algorithm: Algorithm::EcdsaP256,
        lifetime: Lifetimes::default().leaf,
    };
    let now = support::start();
    let step = wanted.plan(None, &authority, now, Jitter::NONE);
    let content = wanted
        .issue(&step, None, &authority, &mut Fresh, now)
        .unwrap();
    let config = butler_pki::Kubeconfig::from_yaml(&content.data["value"]).unwrap();
    let certificate = Certificate::from_pem(&config.certificate).unwrap();
    assert_eq!(*certificate.subject(), wanted.subject);
    assert!(
        !wanted
            .plan(Some(&content), &authority, now, Jitter::NONE)
            .action
            .changes()
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("crt"), &config.certificate).unwrap();
    let show = [
        "x509",
        "-in",
        "crt",
        "-noout",
        "-subject",
        "-nameopt",
        "multiline,utf8,-esc_msb",
    ];
    let text = openssl(folder.path(), &show);
    for group in &groups {
        assert!(text.contains(group), "{text}");
    }
}

/// A kubeadm configuration for the files of [`write`].
fn configuration(folder: &Path) -> String {
    format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
         localAPIEndpoint: {{advertiseAddress: 192.0.2.10, bindPort: 6443}}\n\
         nodeRegistration: {{name: blue}}\n---\n\
         apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
         kubernetesVersion: v1.35.4\nclusterName: blue\ncontrolPlaneEndpoint: 192.0.2.10:6443\n\
         certificatesDir: {folder}\n\
         networking: {{serviceSubnet: 10.96.0.0/16, dnsDomain: cluster.local}}\n\
         apiServer: {{certSANs: [tenant.example.com, blue.team-a.svc]}}\n\
         etcd: {{external: {{endpoints: [\"https://192.0.2.9:2379\"], caFile: {folder}/store-ca.crt, \
         certFile: {folder}/store-server.crt, keyFile: {folder}/store-server.key}}}}\n",
        folder = folder.display()
    )
}

#[test]
fn kubeadm_finds_every_file_valid_and_makes_none_anew() {
    let kubeadm = Toolchain::locate().and_then(|toolchain| toolchain.binary("kubeadm", None));
    let kubeadm = kubeadm.expect("the toolchain has kubeadm");
    for algorithm in [Algorithm::EcdsaP256, Algorithm::Rsa2048] {
        let (folder, _) = write(&Wanted {
            algorithm,
            ..wanted()
        });
        let folder = folder.path();
        let config = folder.join("kubeadm.yaml");
        fs::write(&config, configuration(folder)).unwrap();
        let kubeadm = |arguments: &[&str]| {
            let mut command = Command::new(&kubeadm);
            let (well, text) = run(command.args(arguments).arg("--config").arg(&config));
            assert!(well, "kubeadm {}:\n{text}", arguments.join(" "));
            text
        };
        let text = kubeadm(&["certs", "check-expiration"]);
        for (name, rest) in [
            ("apiserver", "364d"),
            ("apiserver-kubelet-client", "364d"),
            ("front-proxy-client", "364d"),
            ("ca", "9y"),
            ("front-proxy-ca", "9y"),
        ] {
            let line = text
                .lines()
                .find(|line| line.split_whitespace().next() == Some(name));
            assert!(
                line.is_some_and(|line| line.contains(rest)),
                "{name}:\n{text}"
            );
        }
        let text = kubeadm(&["init", "phase", "certs", "all"]);
        assert!(!text.contains("Generating"), "{text}");
        assert_eq!(text.matches("Using existing").count(), 5, "{text}");
        assert!(text.contains("Using the existing \"sa\" key"), "{text}");
        let files = folder.to_str().unwrap();
        let text = kubeadm(&[
            "init",
            "phase",
            "kubeconfig",
            "admin",
            "--kubeconfig-dir",
            files,
        ]);
        assert!(text.contains("Using existing kubeconfig file"), "{text}");
    }
}
