//! What every command says when something is not right, and the exit codes of that.

use serde_json::json;

use crate::program::{Desk, bare, run};

#[tokio::test]
async fn a_cluster_that_is_not_there_ends_with_3_and_a_way_to_find_it() {
    let desk = Desk::new().await;
    for command in [
        &["get", "nothing"][..],
        &["scale", "nothing", "-w", "1"],
        &["upgrade", "nothing", "--to", "v1.35.4"],
        &["kubeconfig", "nothing"],
        &["retry", "nothing"],
        &["destroy", "nothing", "-y"],
        &["plan", "nothing"],
        &["export", "nothing"],
    ] {
        let text = desk.cluster_command(command).await.bad(3);
        assert!(
            text.contains("there is no TenantCluster") && text.contains("cluster list"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn who_may_not_is_told_so_with_4() {
    let desk = Desk::with(json!({})).await;
    let folder = tempfile::tempdir().unwrap();
    let nobody = desk.kubeconfig_of_nobody(folder.path());
    for command in [
        &["list"][..],
        &["get", "my-cluster"],
        &["create", "x", "--version", "v1.35.4"],
    ] {
        let text = run(desk.command_with(&nobody, command)).await.bad(4);
        assert!(
            text.contains("nobody@example.com") && text.contains("ask an administrator"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_command_line_or_kubeconfig_that_is_not_right_ends_with_2() {
    let desk = Desk::new().await;
    for command in [
        &["scale", "my-cluster"][..],
        &["scale", "my-cluster", "-w", "-1"],
        &["upgrade", "my-cluster", "--to", "1.35"],
        &["create", "my-cluster"],
        &["create", "-f", "/nonexistent/file.yaml"],
        &["plan", "my-cluster", "--offline"],
        &["get", "my-cluster", "-o", "xml"],
    ] {
        let ran = desk.cluster_command(command).await;
        assert_eq!(ran.code, 2, "{command:?}: {ran:#?}");
    }
    let mut lost = bare();
    lost.args(["--kubeconfig", "/nonexistent/kubeconfig", "cluster", "list"]);
    let text = run(lost).await.bad(2);
    assert!(text.contains("/nonexistent/kubeconfig"), "{text}");
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_named_as_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let mut command = bare();
    command.args(["--kubeconfig", file.to_str().unwrap(), "cluster", "list"]);
    let text = run(command).await.bad(1);
    assert!(text.contains("is the management cluster up"), "{text}");
}

#[tokio::test]
async fn completion_and_version_need_nothing() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = bare();
        command.args(["completion", shell]);
        assert!(run(command).await.good().contains("butlerctl"), "{shell}");
    }
    let mut version = bare();
    version.arg("version");
    assert_eq!(
        run(version).await.good(),
        format!("butlerctl {}\n", env!("CARGO_PKG_VERSION"))
    );
}
