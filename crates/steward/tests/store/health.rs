//! Stores that cannot be used, and how fast that is said.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use butler_steward::store::{
    Error, Sessions, Settings,
    health::{Reason, Verdict, judge, probe},
    setup::{Tenancy, ensure},
};
use butler_testkit::etcd::TlsEtcd;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use super::stage::{Stage, settings, settings_with, tenant};

async fn verdict(settings: &Settings) -> Verdict {
    let begun = Instant::now();
    let session = Sessions::default().get(settings).unwrap();
    let verdict = judge(&probe(&session).await, Tenancy::Shared);
    let taken = begun.elapsed();
    assert!(
        taken < Duration::from_secs(12),
        "{verdict:?} took {taken:?}"
    );
    assert!(!verdict.message.contains("BEGIN"), "{}", verdict.message);
    verdict
}

/// An address where nobody listens.
async fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_store_that_works_says_so_and_names_members_that_are_missing() {
    let etcd = TlsEtcd::start().await.unwrap();
    let ready = verdict(&settings(&etcd, "root")).await;
    assert_eq!(ready.reason, Reason::Ready);
    assert_eq!(ready.message, "1 of 1 members answer");
    let gone = closed().await;
    let settings = Settings {
        endpoints: vec![gone.clone(), etcd.endpoint()],
        ..settings(&etcd, "root")
    };
    let degraded = verdict(&settings).await;
    assert_eq!(degraded.reason, Reason::Degraded);
    let message = format!("1 of 2 members answer: {gone} does not (Unreachable)");
    assert_eq!(degraded.message, message);
    let session = Sessions::default().get(&settings).unwrap();
    for uid in ["1", "2", "3"] {
        let tenant = tenant("a", "b", uid);
        ensure(&session, &tenant, Tenancy::Shared).await.unwrap();
    }
}

#[tokio::test]
async fn one_session_serves_all_passes_until_the_settings_change() {
    let etcd = TlsEtcd::start().await.unwrap();
    let (sessions, before) = (Sessions::default(), settings(&etcd, "root"));
    let first = sessions.get(&before).unwrap();
    assert!(Arc::ptr_eq(&first, &sessions.get(&before).unwrap()));
    let after = Settings {
        endpoints: vec![etcd.endpoint(), closed().await],
        ..before
    };
    assert!(!Arc::ptr_eq(&first, &sessions.get(&after).unwrap()));
}

#[tokio::test]
async fn an_address_without_a_store_is_unreachable_at_once() {
    let etcd = TlsEtcd::start().await.unwrap();
    let begun = Instant::now();
    let settings = Settings {
        endpoints: vec![closed().await],
        ..settings(&etcd, "root")
    };
    let verdict = verdict(&settings).await;
    assert_eq!(verdict.reason, Reason::Unreachable);
    assert!(
        verdict.message.contains("Connection refused"),
        "{}",
        verdict.message
    );
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn an_address_that_never_answers_is_given_up() {
    let etcd = TlsEtcd::start().await.unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings {
        endpoints: vec![silent.local_addr().unwrap().to_string()],
        ..settings(&etcd, "root")
    };
    assert_eq!(verdict(&settings).await.reason, Reason::Unreachable);
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let (etcd, other) = tokio::join!(TlsEtcd::start(), TlsEtcd::start());
    let (etcd, other) = (etcd.unwrap(), other.unwrap());
    let settings = settings_with(&etcd, |material| {
        material.authority = other.authority().0.as_bytes().to_vec();
    });
    let verdict = verdict(&settings).await;
    assert_eq!(verdict.reason, Reason::TlsRefused, "{}", verdict.message);
}

#[tokio::test]
async fn a_client_certificate_of_another_authority_is_refused() {
    let (etcd, other) = tokio::join!(TlsEtcd::start(), TlsEtcd::start());
    let (etcd, other) = (etcd.unwrap(), other.unwrap());
    let settings = settings_with(&etcd, |material| {
        let (certificate, key) = other.client("root");
        material.client = Some((certificate.into_bytes(), key.into_bytes()));
    });
    let verdict = verdict(&settings).await;
    assert_eq!(verdict.reason, Reason::TlsRefused, "{}", verdict.message);
}

#[tokio::test]
async fn a_port_that_does_not_speak_tls_is_refused() {
    let etcd = TlsEtcd::start().await.unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings {
        endpoints: vec![plain.local_addr().unwrap().to_string()],
        ..settings(&etcd, "root")
    };
    let answering = async {
        loop {
            let (mut socket, _) = plain.accept().await.unwrap();
            // The other side may be gone already.
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    };
    let verdict = tokio::select! {
        () = answering => unreachable!("the listener never ends"),
        verdict = verdict(&settings) => verdict,
    };
    assert_eq!(verdict.reason, Reason::TlsRefused, "{}", verdict.message);
}

#[tokio::test]
async fn users_who_are_not_administrators_are_refused() {
    let stage = Stage::start().await;
    let tenant = tenant("a", "b", "1");
    ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    for user in ["nobody", tenant.user()] {
        let verdict = verdict(&settings(&stage.etcd, user)).await;
        assert_eq!(
            verdict.reason,
            Reason::CredentialsRefused,
            "{}",
            verdict.message
        );
    }
    stage.root.add_user("steward", "secret").await;
    let settings = settings_with(&stage.etcd, |material| {
        material.basic = Some((b"steward".to_vec(), b"wrong".to_vec()));
    });
    let verdict = verdict(&settings).await;
    assert_eq!(
        verdict.reason,
        Reason::CredentialsRefused,
        "{}",
        verdict.message
    );
    assert!(!verdict.message.contains("wrong"), "{}", verdict.message);
}

#[tokio::test]
async fn an_open_store_takes_one_tenant_and_not_several() {
    let stage = Stage::with(TlsEtcd::start_open().await.unwrap());
    let report = probe(&stage.session).await;
    assert_eq!(judge(&report, Tenancy::Shared).reason, Reason::AuthDisabled);
    assert!(judge(&report, Tenancy::Dedicated).is_ready());
    let tenant = tenant("a", "b", "1");
    let refused = ensure(&stage.session, &tenant, Tenancy::Shared).await;
    assert!(matches!(refused, Err(Error::Open { .. })), "{refused:?}");
    let outcome = ensure(&stage.session, &tenant, Tenancy::Dedicated)
        .await
        .unwrap();
    assert_eq!((outcome.enforced, outcome.writes), (false, 1));
    stage.fill(&tenant, 2).await;
}
