//! The tunnel to nodes, with the real programs at both ends.

use std::{fs, process::Stdio};

use butler_testkit::pods::PodOptions;
use butler_toolchain::Toolchain;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::{
    serving::{SOON, is_ready, kubectl, platform_with},
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
            ("--admin-server-port", _) => "--admin-server-port=0".to_owned(),
            ("--health-server-port", _) => "--health-server-port=0".to_owned(),
            (name, value) => format!("{name}={value}"),
        },
    );
    let program = Toolchain::locate()
        .unwrap()
        .binary("proxy-agent", None)
        .unwrap();
    let mut agent = Command::new(program)
        .args(flags)
        .arg("--v=4")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    let connected = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let done = line.contains("Connected to server");
            said.push(line);
            if done {
                return true;
            }
        }
        false
    };
    let waited = tokio::time::timeout(SOON, connected).await;
    assert!(
        waited == Ok(true),
        "the agent did not connect:\n{}",
        said.join("\n")
    );
}
