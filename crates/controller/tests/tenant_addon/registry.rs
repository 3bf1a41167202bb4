//! An OCI registry on this machine.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use butler_testkit::PATIENCE;
use butler_toolchain::Toolchain;
use serde_json::json;
use tempfile::TempDir;
use tokio::{net::TcpStream, time::timeout};

use crate::repository::helm;

/// The real registry with the small chart in it, which ends with the test, also when that is killed.
pub(crate) struct Registry {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    /// With a certificate, or without TLS.
    pub(crate) async fn start(chart: &Path, certificate: Option<(&str, &str)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let file = |name: &str| folder.path().join(name);
        let mut http = json!({"addr": address.to_string()});
        if let Some((certificate, key)) = certificate {
            fs::write(file("tls.crt"), certificate).unwrap();
            fs::write(file("tls.key"), key).unwrap();
            http["tls"] = json!({"certificate": file("tls.crt"), "key": file("tls.key")});
        }
        let config = json!({
            "version": "0.1", "log": {"level": "error"}, "http": http,
            "storage": {"filesystem": {"rootdirectory": file("storage")}},
        });
        fs::write(file("registry.yaml"), config.to_string()).unwrap();
        let program = Toolchain::locate()
            .unwrap()
            .binary("registry", None)
            .unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .arg("serve")
            .arg(file("registry.yaml"))
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let answered = timeout(PATIENCE, answers).await;
        answered.expect("the registry answers");
        let mut push = Command::new(helm());
        push.arg("push")
            .arg(chart)
            .arg(format!("oci://{address}/charts"));
        match certificate {
            Some(_) => push.arg("--ca-file").arg(file("tls.crt")),
            None => push.arg("--plain-http"),
        };
        let pushed = push.env("HOME", folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&pushed.stderr);
        assert!(pushed.status.success(), "{said}");
        Self {
            child,
            address,
            _folder: folder,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("oci://{}/charts", self.address)
    }
}
