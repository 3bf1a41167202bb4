//! Starting the components of one server and waiting until they answer.
//!
//! What it starts is owned by a [`Guardian`]; users see a [`Server`](crate::Server), which may also be one that
//! another process started.

use std::{
    fs,
    net::TcpListener,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use http::Request;
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
use kube::{Api, Client, Config};
use tokio::time::{Instant, sleep};

use crate::{
    User,
    binaries::Binaries,
    components,
    definitions::{self, Served},
    guardian::Guardian,
    pki::{self, Pair},
    server::Error,
    snapshot::Snapshot,
};

/// Longer than the slowest start seen on a busy machine, short enough to fail a run with a reason.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often a starting component is asked; nothing can be watched before it answers.
const INTERVAL: Duration = Duration::from_millis(15);

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// How to reach a server, and with its folder everything else about it.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) folder: PathBuf,
    pub(crate) url: http::Uri,
    pub(crate) authority: Pair,
}

impl Access {
    /// Reads how to reach the server of a folder.
    pub(crate) fn of(folder: &Path) -> Result<Self, Error> {
        let read = |name: &str| {
            let file = folder.join(name);
            fs::read_to_string(&file).map_err(Error::file("read", &file))
        };
        let url = read("url")?.trim().parse().map_err(|source| Error::File {
            action: "understand",
            file: folder.join("url"),
            source: Box::new(source),
        })?;
        let authority = Pair {
            certificate: read("ca.crt")?,
            key: read("ca.key")?,
        };
        Ok(Self {
            folder: folder.to_owned(),
            url,
            authority,
        })
    }

    /// Client settings of a user who shows a certificate of this server's authority.
    pub(crate) fn config(&self, user: &User) -> Result<Config, Error> {
        let pair = pki::client(&self.authority, user).map_err(Error::certificate(user.name()))?;
        let mut config = Config::new(self.url.clone());
        config.root_cert = Some(vec![certificate_der(&self.authority.certificate)]);
        config.auth_info.client_certificate_data = Some(components::base64(&pair.certificate));
        config.auth_info.client_key_data = Some(components::base64(&pair.key).into());
        Ok(config)
    }
}

/// A running server that this process started.
pub(crate) struct Boot {
    guardian: Guardian,
    access: Access,
    client: Client,
}

impl Boot {
    /// Starts the components, from a snapshot or with nothing in etcd, and waits until they answer.
    pub(crate) async fn start(
        binaries: &Binaries,
        snapshot: Option<&Snapshot>,
        controller_manager: bool,
    ) -> Result<Self, Error> {
        let mut tries_left = 3;
        loop {
            tries_left -= 1;
            match Self::attempt(binaries, snapshot, controller_manager).await {
                // Most likely somebody took the port between our look and its use.
                Err(Error::Ended { .. }) if tries_left > 0 => {}
                result => return result,
            }
        }
    }

    async fn attempt(
        binaries: &Binaries,
        snapshot: Option<&Snapshot>,
        controller_manager: bool,
    ) -> Result<Self, Error> {
        let mut guardian = Guardian::new()?;
        let folder = guardian.folder().to_owned();
        if let Some(snapshot) = snapshot {
            snapshot.copy_to(&folder.join("etcd"))?;
        }
        guardian.start(ETCD, &binaries.etcd, &components::etcd(&folder))?;
        let port = free_port()?;
        write_files(&folder, port)?;
        let access = Access::of(&folder)?;
        let socket = folder.join("etcd.sock");
        until(&guardian, ETCD, "etcd to listen", async || {
            UnixStream::connect(&socket).map_err(|error| error.to_string())
        })
        .await?;
        let arguments = components::kube_apiserver(&folder, port, controller_manager);
        guardian.start(API_SERVER, &binaries.kube_apiserver, &arguments)?;
        let mut config = access.config(&User::admin())?;
        config.default_retry = false;
        let client = Client::try_from(config).map_err(Error::client(User::admin().name()))?;
        let boot = Self {
            guardian,
            access,
            client,
        };
        boot.wait_until_ready().await?;
        if let Some(snapshot) = snapshot {
            boot.wait_until_served(&snapshot.served).await?;
        }
        Ok(boot)
    }

    /// Starts the controllers of Kubernetes itself.
    pub(crate) async fn start_controller_manager(
        &mut self,
        binaries: &Binaries,
    ) -> Result<(), Error> {
        let arguments = components::kube_controller_manager(&self.access.folder);
        self.guardian.start(
            CONTROLLER_MANAGER,
            &binaries.kube_controller_manager,
            &arguments,
        )?;
        // A snapshot holds the authority of the server it was made with: ours there means it works.
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        until(
            &self.guardian,
            CONTROLLER_MANAGER,
            "it to publish our authority",
            async || {
                let published = api
                    .get("kube-root-ca.crt")
                    .await
                    .map_err(|error| error.to_string())?;
                let authority = published.data.and_then(|mut data| data.remove("ca.crt"));
                let ours =
                    authority.is_some_and(|theirs| theirs == self.access.authority.certificate);
                ours.then_some(())
                    .ok_or_else(|| "another authority".to_owned())
            },
        )
        .await
    }

    /// Waits until the roles that gather the rules of others (`view`, `edit`, `admin`) have them.
    pub(crate) async fn wait_until_roles_are_filled(&self) -> Result<(), Error> {
        let api: Api<ClusterRole> = Api::all(self.client.clone());
        until(
            &self.guardian,
            CONTROLLER_MANAGER,
            "the roles view, edit and admin",
            async || {
                for name in ["view", "edit", "admin"] {
                    let role = api.get(name).await.map_err(|error| error.to_string())?;
                    if role.rules.is_none_or(|rules| rules.is_empty()) {
                        return Err(format!("{name} is empty"));
                    }
                }
                Ok(())
            },
        )
        .await
    }

    async fn wait_until_ready(&self) -> Result<(), Error> {
        until(
            &self.guardian,
            API_SERVER,
            "the API server to be ready",
            async || {
                let request = Request::get("/readyz").body(Vec::new());
                let answer = self
                    .client
                    .request_text(request.map_err(|e| e.to_string())?)
                    .await;
                answer.map_err(|error| error.to_string())
            },
        )
        .await
        .map(drop)
    }

    /// Waits until every given resource is in the server's discovery, which means established.
    pub(crate) async fn wait_until_served(&self, served: &Served) -> Result<(), Error> {
        until(
            &self.guardian,
            API_SERVER,
            "all custom resources to be served",
            async || match definitions::missing(&self.client, served).await {
                Ok(missing) if missing.is_empty() => Ok(()),
                Ok(missing) => Err(format!("{missing:?} not yet")),
                Err(error) => Err(error.to_string()),
            },
        )
        .await
    }

    /// Ends the components in order and keeps the folder.
    pub(crate) async fn stop(&mut self) -> Result<(), Error> {
        for name in [CONTROLLER_MANAGER, API_SERVER, ETCD] {
            self.guardian.stop(name)?;
            let deadline = Instant::now() + PATIENCE;
            while self.guardian.pid(name).is_some() {
                if Instant::now() > deadline {
                    return Err(Error::Late {
                        what: "a component to stop".to_owned(),
                        last: format!("{name} is still there"),
                    });
                }
                sleep(INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Where etcd keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.access.folder.join("etcd")
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The server as others see it, and what keeps it alive.
    pub(crate) fn into_parts(self) -> (Access, Guardian) {
        (self.access, self.guardian)
    }
}

/// Asks again and again until the answer is good, the component has ended, or patience has.
pub(crate) async fn until<T>(
    guardian: &Guardian,
    component: &'static str,
    what: &str,
    ask: impl AsyncFn() -> Result<T, String>,
) -> Result<T, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(last) => last,
        };
        if let Some(error) = ended(guardian, component) {
            return Err(error);
        }
        if Instant::now() > deadline {
            return Err(Error::Late {
                what: what.to_owned(),
                last,
            });
        }
        sleep(INTERVAL).await;
    }
}

/// Why a server is not running any more.
pub(crate) fn failure(guardian: &Guardian) -> Option<Error> {
    [ETCD, API_SERVER, CONTROLLER_MANAGER]
        .into_iter()
        .find_map(|name| ended(guardian, name))
}

fn ended(guardian: &Guardian, component: &'static str) -> Option<Error> {
    guardian.has_ended(component).then(|| {
        let log = tail(&guardian.folder().join(format!("{component}.log")));
        Error::Ended { component, log }
    })
}

/// Everything the components read, and what other processes need to reach this server.
fn write_files(folder: &Path, port: u16) -> Result<(), Error> {
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"];
    let url = format!("https://127.0.0.1:{port}");
    let authority = pki::authority().map_err(Error::certificate("authority"))?;
    let serving = pki::serving(&authority, &names).map_err(Error::certificate("kube-apiserver"))?;
    let admin = pki::client(&authority, &User::admin()).map_err(Error::certificate("admin"))?;
    let (private, public) = pki::token_keys().map_err(Error::certificate("tokens"))?;
    let kubeconfig =
        components::kubeconfig(&url, &authority.certificate, &admin.certificate, &admin.key);
    let files = [
        ("ca.crt", authority.certificate),
        ("ca.key", authority.key),
        ("apiserver.crt", serving.certificate),
        ("apiserver.key", serving.key),
        ("sa.key", private),
        ("sa.pub", public),
        ("audit-policy.yaml", components::AUDIT_POLICY.to_owned()),
        ("kubeconfig", kubeconfig),
        ("url", url),
    ];
    for (name, content) in files {
        let file = folder.join(name);
        fs::write(&file, content).map_err(Error::file("write", &file))?;
    }
    Ok(())
}

pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::Port)?;
    Ok(listener.local_addr().map_err(Error::Port)?.port())
}

/// The last lines of a log, which is where a component says why it ended.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(15).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// The bytes between the lines of a PEM certificate.
fn certificate_der(pem: &str) -> Vec<u8> {
    let encoded: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let bytes: k8s_openapi::ByteString = serde_json::from_value(encoded.into())
        .expect("a certificate we wrote is base64 between its markers");
    bytes.0
}
