//! [`Server`]: the handle tests hold on a running API server, their own or a shared one.

use std::{
    env, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use kube::{Client, Config};
use tokio::sync::OnceCell;

use crate::{
    User,
    binaries::Binaries,
    guardian::Guardian,
    host::{self, Access, Boot},
    snapshot::Snapshot,
};

/// Names the folder of a running server that tests shall use instead of starting one.
pub const SHARED_SERVER: &str = "BUTLER_TEST_SERVER";

/// Why a server could not be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A component is not in the tool cache.
    #[error(
        "could not find the components of a server; `cargo xtask toolchain` makes them available"
    )]
    Toolchain(#[source] Box<butler_toolchain::Error>),
    /// A file or folder could not be used.
    #[error("could not {action} {file:?}")]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        file: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A Cluster API manifest is not YAML.
    #[error("could not read the definition in {file:?}")]
    Manifest {
        /// The manifest.
        file: PathBuf,
        /// Why not.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// A custom resource definition was refused.
    #[error("could not install the definition {name}")]
    Install {
        /// Its name.
        name: String,
        /// The server's answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// A certificate could not be made.
    #[error("could not make a certificate for {name:?}")]
    Certificate {
        /// Whose.
        name: String,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// A client could not be made.
    #[error("could not make a client for {user:?}")]
    Client {
        /// For whom.
        user: String,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// No port of this machine is free.
    #[error("could not find a free port on 127.0.0.1")]
    Port(#[source] io::Error),
    /// A component ended instead of serving.
    #[error("{component} ended by itself; the end of its log:\n{log}")]
    Ended {
        /// Which one.
        component: &'static str,
        /// Its last lines.
        log: String,
    },
    /// A component took longer than is sensible.
    #[error("gave up waiting for {what}; last seen: {last}")]
    Late {
        /// What was awaited.
        what: String,
        /// What was there instead.
        last: String,
    },
}

impl Error {
    pub(crate) fn toolchain(source: butler_toolchain::Error) -> Self {
        Self::Toolchain(Box::new(source))
    }

    pub(crate) fn file(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::File {
            action,
            file,
            source: Box::new(source),
        }
    }

    pub(crate) fn certificate(name: &str) -> impl FnOnce(rcgen::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Certificate { name, source }
    }

    pub(crate) fn client(user: &str) -> impl FnOnce(kube::Error) -> Self {
        let user = user.to_owned();
        move |source| Self::Client {
            user,
            source: Box::new(source),
        }
    }
}

/// What a server is made of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    controller_manager: bool,
}

impl Options {
    /// Runs the controllers of Kubernetes too: garbage collection, namespace deletion, service accounts.
    #[must_use]
    pub fn with_controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }
}

/// A running API server with Butler's and Cluster API's custom resources.
///
/// Cloning is cheap. A server that this process started ends with its last clone; a shared one that this
/// process started ends with the process.
#[derive(Clone)]
pub struct Server {
    access: Arc<Access>,
    client: Client,
    guardian: Option<Arc<Guardian>>,
}

impl Server {
    /// Starts a server for this test alone, for tests of singletons or with the controller manager.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let (access, guardian) = boot(&options).await?;
        Self::over(Arc::new(access), Some(Arc::new(guardian)))
    }

    /// Connects to the server whose folder is given.
    pub fn connect(folder: &Path) -> Result<Self, Error> {
        Self::over(Arc::new(Access::of(folder)?), None)
    }

    /// The server that this test run shares: the one named by `BUTLER_TEST_SERVER`, or else one that is
    /// started on first use and kept for the life of this process.
    ///
    /// # Panics
    /// When it cannot be started or reached; the message has the whole chain of causes.
    pub async fn shared() -> Self {
        // Only what is not bound to a runtime: every `#[tokio::test]` has its own.
        static SHARED: OnceCell<(Arc<Access>, Option<Arc<Guardian>>)> = OnceCell::const_new();
        let result = SHARED.get_or_try_init(|| async {
            if let Some(folder) = env::var_os(SHARED_SERVER) {
                return Ok((Arc::new(Access::of(Path::new(&folder))?), None));
            }
            let (access, guardian) = Box::pin(boot(&Options::default())).await?;
            Ok((Arc::new(access), Some(Arc::new(guardian))))
        });
        let server = match result.await {
            Ok((access, guardian)) => Self::over(Arc::clone(access), guardian.clone()),
            Err(error) => Err(error),
        };
        server.unwrap_or_else(|error| panic!("no API server to test with: {}", chain(&error)))
    }

    fn over(access: Arc<Access>, guardian: Option<Arc<Guardian>>) -> Result<Self, Error> {
        let client = client(access.config(&User::admin())?, User::admin().name())?;
        Ok(Self {
            access,
            client,
            guardian,
        })
    }

    /// A client of the admin; clones share one connection.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The folder with the server's kubeconfig, audit log and component logs.
    pub fn folder(&self) -> &Path {
        &self.access.folder
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.access.folder.join("kubeconfig")
    }

    /// Where the API answers.
    pub fn url(&self) -> String {
        self.access.url.to_string()
    }

    /// Client settings of the admin, to build a client of a special make on.
    pub fn config(&self) -> Config {
        self.config_for(&User::admin())
    }

    /// A client of this user.
    ///
    /// A user with at most one group shows a certificate; the subject of a certificate made here holds no
    /// more, so for the others the admin impersonates. RBAC decides the same for both.
    pub fn client_for(&self, user: &User) -> Client {
        if user.groups().len() > 1 {
            return self.impersonate(user);
        }
        must(client(self.config_for(user), user.name()))
    }

    /// A client of the admin who acts as this user.
    pub fn impersonate(&self, user: &User) -> Client {
        let mut config = self.config();
        config.auth_info.impersonate = Some(user.name().to_owned());
        config.auth_info.impersonate_groups = Some(user.groups().to_vec());
        must(client(config, user.name()))
    }

    /// The same server, used as another user: every helper then acts as them.
    #[must_use]
    pub fn as_user(&self, user: &User) -> Self {
        Self {
            client: self.client_for(user),
            ..self.clone()
        }
    }

    /// A client of the admin with a user agent, by which its requests are found in the audit log.
    pub fn client_called(&self, agent: &str) -> Client {
        must(client(self.config_called(agent), User::admin().name()))
    }

    /// Client settings of the admin with a user agent.
    pub(crate) fn config_called(&self, agent: &str) -> Config {
        let mut config = self.config();
        let agent = http::HeaderValue::from_str(agent)
            .unwrap_or_else(|_| panic!("{agent:?} cannot be a user agent"));
        config.headers.push((http::header::USER_AGENT, agent));
        config
    }

    /// Why the server is not running any more, if this process started it.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.guardian.as_deref().and_then(host::failure)
    }

    fn config_for(&self, user: &User) -> Config {
        must(self.access.config(user))
    }
}

async fn boot(options: &Options) -> Result<(Access, Guardian), Error> {
    let binaries = Binaries::locate()?;
    let snapshot = Snapshot::ensure(&binaries).await?;
    let mut boot = Boot::start(&binaries, Some(&snapshot), options.controller_manager).await?;
    if options.controller_manager {
        boot.start_controller_manager(&binaries).await?;
    }
    Ok(boot.into_parts())
}

fn client(config: Config, user: &str) -> Result<Client, Error> {
    Client::try_from(config).map_err(Error::client(user))
}

pub(crate) fn must<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// The answer of the server, or a panic that says what could not be done.
pub(crate) fn must_answer<T>(result: Result<T, kube::Error>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("could not {what}: {}", chain(&error)))
}

/// An error and everything that caused it, in one line each.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str("\n  because: ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
