//! What `make up` relies on: a server that runs until it is told to stop, and says so when it cannot go on.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::{fs, future::pending, os::unix::fs::PermissionsExt as _, process::Command};

use butler_testkit::{Error, Options, serve};

#[tokio::test]
async fn a_server_lives_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut seen = None;
    let ready = async |server: &butler_testkit::Server| {
        let mode = fs::metadata(&kubeconfig).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{mode:o}");
        assert_eq!(
            fs::read(&kubeconfig).unwrap(),
            fs::read(server.kubeconfig()).unwrap()
        );
        seen = Some(server.folder().to_owned());
        stop.send(()).unwrap();
    };
    let stopped = async { stopped.await.unwrap() };
    serve(Options::default(), Some(kubeconfig.clone()), ready, stopped)
        .await
        .unwrap();
    assert!(!seen.unwrap().exists());
    assert!(!kubeconfig.exists());
}

#[tokio::test]
async fn a_component_that_dies_ends_the_service_with_its_name() {
    let ready = async |server: &butler_testkit::Server| {
        let pid = fs::read_to_string(server.folder().join("etcd.pid")).unwrap();
        let killed = Command::new("kill")
            .args(["-s", "KILL", pid.trim()])
            .status()
            .unwrap();
        assert!(killed.success());
    };
    let result = serve(Options::default(), None, ready, pending()).await;
    assert!(
        matches!(
            result,
            Err(Error::Ended {
                component: "etcd",
                ..
            })
        ),
        "{result:?}"
    );
}
