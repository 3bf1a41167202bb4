//! Cluster API itself beside a test server: the real core manager with its webhooks, and the real `clusterctl`.
//!
//! The manager is an administrator of the server: what it may do is not what is tested with it. It ends with the
//! value that holds it, and with the process; its webhooks stay and refuse every write to its kinds from then on.

use std::{
    fs,
    path::Path,
    process::{Output, Stdio},
};

use butler_toolchain::Toolchain;
use serde_json::{Value, json};
use tokio::{net::TcpStream, process::Command};

use crate::{Error, Server, components, guardian::Guardian, host, pki};

const MANAGER: &str = "cluster-api-manager";
/// Whom the manager's certificate is for.
const HERE: &str = "127.0.0.1";

/// A running core manager.
#[derive(Debug)]
pub struct ClusterApi {
    guardian: Guardian,
}

impl ClusterApi {
    /// Starts the manager, with managed topologies, and puts its webhooks in front of its kinds.
    ///
    /// # Errors
    /// When it is not in the tool cache or does not start.
    pub async fn start(server: &Server) -> Result<Self, Error> {
        let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
        let program = toolchain.binary(MANAGER, None).map_err(Error::toolchain)?;
        let manifests = toolchain
            .cluster_api_manifests()
            .map_err(Error::toolchain)?;
        let mut guardian = Guardian::new()?;
        let authority = pki::authority().map_err(Error::certificate("authority"))?;
        let serving = pki::serving(&authority, &[HERE]).map_err(Error::certificate(MANAGER))?;
        let folder = guardian.folder().to_owned();
        for (name, content) in [("tls.crt", &serving.certificate), ("tls.key", &serving.key)] {
            let file = folder.join(name);
            fs::write(&file, content).map_err(Error::file("write", &file))?;
        }
        let port = host::free_port()?;
        guardian.start(MANAGER, &program, &arguments(server, &folder, port)?)?;
        host::until(&guardian, MANAGER, "Cluster API to listen", async || {
            let connected = TcpStream::connect((HERE, port)).await;
            connected.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        let started = Self { guardian };
        for configuration in webhooks(&manifests, port, &authority.certificate)? {
            server.apply_yaml(&configuration.to_string()).await;
        }
        Ok(started)
    }

    /// What the manager has written so far.
    pub fn log(&self) -> String {
        let file = self.guardian.folder().join(format!("{MANAGER}.log"));
        fs::read_to_string(file).unwrap_or_default()
    }
}

fn arguments(server: &Server, folder: &Path, port: u16) -> Result<Vec<String>, Error> {
    Ok(vec![
        format!("--kubeconfig={}", server.kubeconfig().display()),
        format!("--webhook-port={port}"),
        format!("--webhook-cert-dir={}", folder.display()),
        format!("--health-addr={HERE}:{}", host::free_port()?),
        "--diagnostics-address=0".to_owned(),
        // Once a second for each object is for fleets.
        "--feature-gates=ClusterTopology=true,ReconcilerRateLimiting=false".to_owned(),
    ])
}

/// The manager's own webhook configurations, which name a Service that is not there, with its address instead.
fn webhooks(manifests: &Path, port: u16, authority: &str) -> Result<Vec<Value>, Error> {
    let file = manifests.join("config/webhook/manifests.yaml");
    let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
    let mut found: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|source| Error::Manifest {
            file: file.clone(),
            source: Box::new(source),
        })?;
    found.retain(|document| !document.is_null());
    for configuration in &mut found {
        let hooks = configuration["webhooks"].as_array_mut();
        for hook in hooks.into_iter().flatten() {
            let path = hook["clientConfig"]["service"]["path"]
                .as_str()
                .unwrap_or_default();
            hook["clientConfig"] = json!({
                "url": format!("https://{HERE}:{port}{path}"),
                "caBundle": components::base64(authority),
            });
        }
    }
    Ok(found)
}

/// Runs `clusterctl` against this server, which is the one that `--kubeconfig` means unless it is given.
///
/// # Errors
/// When it is not in the tool cache.
///
/// # Panics
/// When it cannot be run at all.
pub async fn clusterctl(server: &Server, arguments: &[&str]) -> Result<Output, Error> {
    let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
    let program = toolchain
        .binary("clusterctl", None)
        .map_err(Error::toolchain)?;
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", server.kubeconfig())
        // What it remembers goes with the server, and it asks nobody for newer releases.
        .env("HOME", server.folder())
        .env("XDG_CONFIG_HOME", server.folder())
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await;
    Ok(output.unwrap_or_else(|error| panic!("could not run clusterctl: {error}")))
}
