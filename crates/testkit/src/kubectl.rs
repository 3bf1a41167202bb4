//! The real kubectl against a test server.

use std::process::{Output, Stdio};

use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{Server, binaries::Binaries, server::must};

impl Server {
    /// Runs kubectl as the admin and returns what it printed.
    ///
    /// # Panics
    /// When it fails; the message has what it said.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments, "").await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kubectl {} failed with {}:\n{}{}",
            arguments.join(" "),
            output.status,
            text(&output.stderr),
            text(&output.stdout),
        );
        text(&output.stdout)
    }

    /// Runs kubectl as the admin with something to read, such as a manifest for `-f -`.
    pub async fn try_kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let kubectl = must(Binaries::locate()).kubectl;
        let mut child = Command::new(&kubectl)
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            // Its cache of what the server serves belongs to this server, and goes with it.
            .env("KUBECACHEDIR", self.folder().join("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("could not run kubectl: {error}"));
        let mut stdin = child.stdin.take().expect("the pipe was just asked for");
        // A command that reads nothing may end before everything is written; its status tells.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await;
        output.unwrap_or_else(|error| panic!("could not wait for kubectl: {error}"))
    }
}
