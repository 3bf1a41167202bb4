//! The tunnel to nodes, with the real programs at both ends.

use std::{fs, process::Stdio};

use butler_testkit::pods::PodOptions;
use butler_toolchain::Toolchain;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{ChildStderr, Command},
};

use crate::{
    serving::{Platform, SOON, is_ready, kubectl, platform_with, try_kubectl},
    stage,
};

#[tokio::test]
async fn an_agent_with_the_flags_it_is_given_reaches_the_server_beside_the_api_server() {
    let platform = platform_with(PodOptions::default()).await;
    let home = &platform.home;
    home.apply_yaml(&stage::control_plane("blue", "addons: {konnectivity: {}}"))
        .await;
    is_ready(home, "blue").await;
    let agents = [
        "get",
        "daemonset",
        "konnectivity-agent",
        "-n",
        "kube-system",
        "-o",
        "json",
    ];
    let agents: Value = serde_json::from_str(&kubectl(&platform, "blue", &agents).await).unwrap();
    let pod = &agents["spec"]["template"]["spec"];
    let audience = &pod["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["audience"];
    let audience = format!("--audience={}", audience.as_str().unwrap());
    let account = pod["serviceAccountName"].as_str().unwrap();
    let token = ["create", "token", account, "-n", "kube-system", &audience];
    let token = kubectl(&platform, "blue", &token).await;
    let made = [
        "wait",
        "configmap/kube-root-ca.crt",
        "-n",
        "kube-system",
        "--for=create",
        "--timeout=60s",
    ];
    kubectl(&platform, "blue", &made).await;
    let authority = [
        "get",
        "configmap",
        "kube-root-ca.crt",
        "-n",
        "kube-system",
        "-o=jsonpath={.data.ca\\.crt}",
    ];
    let authority = kubectl(&platform, "blue", &authority).await;

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    fs::write(file("token"), token.trim()).unwrap();
    fs::write(file("ca.crt"), authority).unwrap();
    // Only where the files are, and the ports of this machine, are other than in a pod.
    let flags = pod["containers"][0]["args"].as_array().unwrap().iter();
    let flags = flags.map(
        |flag| match flag.as_str().unwrap().split_once('=').unwrap() {
            ("--ca-cert", _) => format!("--ca-cert={}", file("ca.crt")),
            ("--service-account-token-path", _) => {
                format!("--service-account-token-path={}", file("token"))
            }
            ("--admin-server-port", _) => format!("--admin-server-port={}", free_port()),
            ("--health-server-port", _) => format!("--health-server-port={}", free_port()),
            (name, value) => format!("{name}={value}"),
        },
    );
    let program = Toolchain::locate()
        .unwrap()
        .binary("proxy-agent", None)
        .unwrap();
    let mut agent = Command::new(program)
        .args(flags)
        .args(["--v=4", "--health-server-host=127.0.0.1"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stderr.take().unwrap()).lines();
    says(&mut lines, "successfully connected to new proxy server").await;

    // What the API server wants of a node goes through the tunnel: nobody listens there, but the agent is asked.
    make_node_and_pod(&platform).await;
    let logs = try_kubectl(&platform, "blue", &["logs", "web"], "").await;
    assert!(!logs.status.success(), "nobody listens on this node");
    says(&mut lines, "dialAddress=\"127.0.0.1:10250\"").await;
}

/// A node at an address of this machine, and a pod on it.
async fn make_node_and_pod(platform: &Platform) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"nodeName": "worker", "containers": [{"name": "web", "image": "web:1"}]},
    });
    let account = [
        "wait",
        "serviceaccount/default",
        "--for=create",
        "--timeout=60s",
    ];
    kubectl(platform, "blue", &account).await;
    let addresses = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }});
    for (arguments, input) in [
        (vec!["create", "-f", "-"], node.to_string()),
        (
            vec!["patch", "node", "worker", "--subresource=status", "-p"],
            addresses.to_string(),
        ),
        (vec!["create", "-f", "-"], pod.to_string()),
    ] {
        let mut arguments = arguments;
        if arguments.contains(&"-p") {
            arguments.push(&input);
        }
        let output = try_kubectl(platform, "blue", &arguments, &input).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}

/// Waits until the agent says this.
async fn says(lines: &mut Lines<BufReader<ChildStderr>>, words: &str) {
    let mut said = Vec::new();
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let done = line.contains(words);
            said.push(line);
            if done {
                return true;
            }
        }
        false
    };
    let waited = tokio::time::timeout(SOON, found).await;
    assert!(
        waited == Ok(true),
        "the agent did not say {words:?}:\n{}",
        said.join("\n")
    );
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
