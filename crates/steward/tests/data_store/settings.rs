//! Stores whose settings are wrong: what they say, what their tenants say, and that a correction is enough.

use butler_testkit::{Namespace, Server, etcd::TlsEtcd};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use crate::stage::{self, Keys, SLOW};

/// A store with something wrong in its Secret.
struct Case {
    name: &'static str,
    /// What the Secret holds; none where it is missing.
    keys: Option<Keys>,
    reason: &'static str,
    words: &'static str,
}

async fn is_refused(server: &Server, home: &Namespace, name: &str, reason: &str, words: &str) {
    let ready = stage::store_is(server, name, "Ready", "False", reason).await;
    assert!(ready.message.contains(words), "{name}: {}", ready.message);
    assert!(
        !ready.message.contains("BEGIN"),
        "{name}: {}",
        ready.message
    );
    let (_, told) = stage::plane_is(home, name, "StoreReady", "False", reason).await;
    assert!(
        told.message.contains(&format!("DataStore {name}")) && told.message.contains(words),
        "{name}: {}",
        told.message
    );
}

#[tokio::test]
async fn each_wrong_secret_is_named_and_its_correction_heals_store_and_tenant() {
    let (etcd, other) = tokio::join!(TlsEtcd::start(), TlsEtcd::start());
    let (server, etcd, other) = (stage::server().await, etcd.unwrap(), other.unwrap());
    let home = server.namespace("tenants").await;
    // Nothing is looked at by itself: it is the Secret that wakes its store, and the store its tenant.
    let _steward = stage::steward(&server, SLOW);
    let (good, foreign) = (Keys::of(&etcd), Keys::of(&other));
    let cases = [
        Case {
            name: "missing",
            keys: None,
            reason: "SecretNotFound",
            words: "tlsConfig.certificateAuthority.certificate",
        },
        Case {
            name: "garbage",
            keys: Some(Keys {
                ca: ("garbage".to_owned(), "garbage".to_owned()),
                ..good.clone()
            }),
            reason: "Invalid",
            words: "tlsConfig.certificateAuthority",
        },
        Case {
            name: "mixed-up",
            keys: Some(Keys {
                client: (good.client.0.clone(), etcd.client("root").1),
                ..good.clone()
            }),
            reason: "Invalid",
            words: "does not belong to the client certificate",
        },
        Case {
            name: "wrong-authority",
            keys: Some(Keys {
                ca: foreign.ca.clone(),
                ..good.clone()
            }),
            reason: "TlsRefused",
            words: "certificate",
        },
        Case {
            name: "wrong-client",
            keys: Some(Keys {
                client: foreign.client.clone(),
                ..good.clone()
            }),
            reason: "TlsRefused",
            words: "received fatal alert",
        },
        Case {
            name: "wrong-user",
            keys: Some(Keys {
                client: etcd.client("nobody"),
                ..good.clone()
            }),
            reason: "CredentialsRefused",
            words: "user name not found",
        },
    ];
    for case in &cases {
        if let Some(keys) = &case.keys {
            keys.write(&home, case.name).await;
        }
        let store = stage::store(case.name, &etcd.endpoints(), &home, case.name);
        server.apply_yaml(&store.to_string()).await;
        home.apply_yaml(&stage::control_plane(case.name, case.name))
            .await;
    }
    for case in &cases {
        is_refused(&server, &home, case.name, case.reason, case.words).await;
    }
    for case in &cases {
        good.write(&home, case.name).await;
        stage::store_is(&server, case.name, "Ready", "True", "Ready").await;
        stage::plane_is(&home, case.name, "StoreReady", "True", "Ready").await;
    }
}

#[tokio::test]
async fn a_store_that_does_not_speak_tls_heals_with_its_address() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server, SLOW);
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap().to_string();
    let _answering = butler_runtime::task::spawn("plain", async move {
        loop {
            let (mut socket, _) = plain.accept().await.unwrap();
            // The other side may be gone already.
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    Keys::of(&etcd).write(&home, "keys").await;
    let store = stage::store("plain", &[address], &home, "keys");
    server.apply_yaml(&store.to_string()).await;
    home.apply_yaml(&stage::control_plane("plain", "plain"))
        .await;
    is_refused(&server, &home, "plain", "TlsRefused", "").await;
    let store = stage::store("plain", &etcd.endpoints(), &home, "keys");
    server.apply_yaml(&store.to_string()).await;
    stage::plane_is(&home, "plain", "StoreReady", "True", "Ready").await;
}

#[tokio::test]
async fn what_is_not_built_and_what_has_no_address_is_refused() {
    let server = stage::server().await;
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server, SLOW);
    server
        .apply_yaml(
            "apiVersion: steward.butlerlabs.dev/v1alpha1
kind: DataStore
metadata: {name: sql}
spec:
  driver: PostgreSQL
  endpoints: ['postgres.example:5432']
  basicAuth: {username: {content: cm9vdA==}, password: {content: c2VjcmV0}}
",
        )
        .await;
    home.apply_yaml(&stage::control_plane("sql", "sql")).await;
    is_refused(&server, &home, "sql", "NotSupported", "PostgreSQL").await;
    let nowhere = stage::store("nowhere", &[], &home, "keys").to_string();
    let refused = server.try_apply_yaml(&nowhere).await.unwrap_err();
    assert!(
        format!("{refused:?}").contains("spec.endpoints"),
        "{refused:?}"
    );
}
