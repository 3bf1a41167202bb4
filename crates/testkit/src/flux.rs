//! Flux itself beside a test server: the real controllers of sources, of kustomizations and of Helm releases.
//!
//! They are an administrator of their own to the server, by whose name the audit log tells their writes from those of
//! others. They listen on loopback only, and end with the value that holds them, and with the process.

use std::{fs, path::Path};

use butler_toolchain::Toolchain;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::{
    Error, Server, User,
    binaries::yaml_files,
    components, definitions,
    guardian::Guardian,
    host::{self, Access},
    pki, wait_for_condition,
};

/// Who Flux is to the API server.
pub const USER: &str = "flux";

const SOURCES: &str = "source-controller";
const KUSTOMIZATIONS: &str = "kustomize-controller";
const RELEASES: &str = "helm-controller";
/// What it is made of, as the toolchain names it.
pub const COMPONENTS: [&str; 3] = [SOURCES, KUSTOMIZATIONS, RELEASES];

const HERE: &str = "127.0.0.1";

/// The running controllers.
#[derive(Debug)]
pub struct Flux {
    guardian: Guardian,
}

impl Flux {
    /// Makes the server serve the kinds of Flux, as they are without anybody who sees to them.
    ///
    /// # Errors
    /// When they are not in the tool cache, or refused.
    pub async fn install_definitions(server: &Server) -> Result<(), Error> {
        let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
        let mut all = Vec::new();
        for component in COMPONENTS {
            let folder = toolchain.definitions(component).map_err(Error::toolchain)?;
            for file in yaml_files(&folder)? {
                all.push(definition(&file)?);
            }
        }
        definitions::install(&server.client(), &all).await?;
        let installed: Api<CustomResourceDefinition> = Api::all(server.client());
        for definition in &all {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            wait_for_condition(&installed, name, "Established", "True").await;
        }
        Ok(())
    }

    /// Starts the controllers on a server that serves their kinds.
    ///
    /// # Errors
    /// When they are not in the tool cache or do not start.
    pub async fn start(server: &Server) -> Result<Self, Error> {
        let toolchain = Toolchain::locate().map_err(Error::toolchain)?;
        let mut guardian = Guardian::new()?;
        let folder = guardian.folder().to_owned();
        write_kubeconfig(server, &folder)?;
        for name in COMPONENTS {
            let program = toolchain.binary(name, None).map_err(Error::toolchain)?;
            let port = host::free_port()?;
            let arguments = arguments(name, &program, &folder, port)?;
            guardian.start(name, Path::new("env"), &arguments)?;
            host::until(&guardian, name, "Flux to listen", async || {
                let connected = TcpStream::connect((HERE, port)).await;
                connected.map(drop).map_err(|error| error.to_string())
            })
            .await?;
        }
        Ok(Self { guardian })
    }

    /// What the controllers have written so far.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log(&self) -> Result<String, Error> {
        let mut all = String::new();
        for name in COMPONENTS {
            let file = self.guardian.folder().join(format!("{name}.log"));
            all += &fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        }
        Ok(all)
    }
}

fn definition(file: &Path) -> Result<Value, Error> {
    let text = fs::read_to_string(file).map_err(Error::file("read", file))?;
    serde_saphyr::from_str(&text).map_err(|source| Error::Manifest {
        file: file.to_owned(),
        source: Box::new(source),
    })
}

fn write_kubeconfig(server: &Server, folder: &Path) -> Result<(), Error> {
    let access = Access::of(server.folder())?;
    let user = User::named(USER).in_group("system:masters");
    let own = pki::client(&access.authority, &user).map_err(Error::certificate(USER))?;
    let authority = &access.authority.certificate;
    let text = components::kubeconfig(&server.url(), authority, &own.certificate, &own.key);
    let file = folder.join("kubeconfig");
    fs::write(&file, text).map_err(Error::file("write", &file))
}

/// The command for `env`: the controllers take the server from their environment only.
fn arguments(name: &str, program: &Path, folder: &Path, health: u16) -> Result<Vec<String>, Error> {
    let own = folder.join(format!("{name}-files"));
    fs::create_dir(&own).map_err(Error::file("make", &own))?;
    let mut all = vec![
        format!("KUBECONFIG={}", folder.join("kubeconfig").display()),
        format!("HOME={}", own.display()),
        format!("TMPDIR={}", own.display()),
        program.display().to_string(),
        format!("--health-addr={HERE}:{health}"),
        "--metrics-addr=0".to_owned(),
        "--events-addr=".to_owned(),
        "--enable-leader-election=false".to_owned(),
        // Half a minute is for fleets.
        "--requeue-dependency=1s".to_owned(),
    ];
    if name == SOURCES {
        let storage = format!("{HERE}:{}", host::free_port()?);
        all.push(format!("--storage-path={}", own.display()));
        all.push(format!("--storage-addr={storage}"));
        all.push(format!("--storage-adv-addr={storage}"));
    }
    Ok(all)
}
