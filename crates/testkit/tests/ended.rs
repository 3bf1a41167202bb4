//! What `make up` relies on: a server that cannot go on says so.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::{fs, process::Command, time::Duration};

use butler_testkit::{Error, Options, Server};

#[tokio::test]
async fn a_component_that_dies_is_noticed_by_its_name() {
    let server = Server::start(Options::default()).await.unwrap();
    let pid = fs::read_to_string(server.folder().join("etcd.pid")).unwrap();
    let killed = Command::new("kill")
        .args(["-s", "KILL", pid.trim()])
        .status()
        .unwrap();
    assert!(killed.success());
    let ended = tokio::time::timeout(Duration::from_secs(10), server.ended()).await;
    let error = ended.expect("the end of etcd is noticed within ten seconds");
    assert!(
        matches!(
            error,
            Error::Ended {
                component: "etcd",
                ..
            }
        ),
        "{error:?}"
    );
}
