//! The management cluster that is spoken to: found as kubectl finds it.

use std::{future::Future, path::PathBuf, time::Duration};

use butler_api::butler::TenantCluster;
use butler_runtime::error::{chain, is_not_found};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::failure::{Code, Failure};

/// How long one answer may take. A command that hangs is worse than one that fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which management cluster.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// Kubeconfig of the management cluster [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Management cluster"
    )]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Management cluster"
    )]
    context: Option<String>,
}

/// Which management cluster, and where in it.
#[derive(clap::Args)]
pub(crate) struct Access {
    #[command(flatten)]
    which: Which,
    /// Namespace of the cluster [default: that of the context]
    #[arg(
        short,
        long,
        global = true,
        env = "BUTLER_NAMESPACE",
        value_name = "NAME",
        help_heading = "Management cluster"
    )]
    namespace: Option<String>,
}

/// A management cluster that can be asked.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Access {
    /// The namespace that was named on the command line.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Reads the kubeconfig. Nothing is sent yet.
    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        let config = self.which.config().await?;
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = client(config)?;
        Ok(Connection { client, namespace })
    }
}

/// A client that sends nothing yet.
pub(crate) fn client(config: Config) -> Result<Client, Failure> {
    Client::try_from(config)
        .map_err(|error| Failure::usage(format!("could not use the kubeconfig: {}", chain(&error))))
}

impl Which {
    /// Reads the kubeconfig.
    pub(crate) async fn config(&self) -> Result<Config, Failure> {
        let mut config = self.found().await?;
        config.connect_timeout = Some(Duration::from_secs(10));
        Ok(config)
    }

    async fn found(&self) -> Result<Config, Failure> {
        let wrong = |error: &dyn std::error::Error| {
            Failure::usage(format!(
                "could not use the kubeconfig: {}; name it with --kubeconfig or $KUBECONFIG, and its context with --context",
                chain(error)
            ))
        };
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        match (&self.kubeconfig, &self.context) {
            (Some(file), _) => {
                let read = Kubeconfig::read_from(file).map_err(|error| wrong(&error))?;
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| wrong(&error))
            }
            (None, Some(_)) => {
                let config = Config::from_kubeconfig(&options).await;
                config.map_err(|error| wrong(&error))
            }
            // Inside a pod there is no file, and the service account is meant.
            (None, None) => Config::infer().await.map_err(|error| wrong(&error)),
        }
    }
}

impl Connection {
    /// Clusters of the namespace.
    pub(crate) fn clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// How people know a cluster of the namespace.
    pub(crate) fn title(&self, name: &str) -> String {
        format!("TenantCluster {}/{name}", self.namespace)
    }

    /// A cluster that has to be there.
    pub(crate) async fn cluster(&self, name: &str) -> Result<TenantCluster, Failure> {
        let found = self.cluster_if_any(name).await?;
        found.ok_or_else(|| self.no_cluster(name))
    }

    /// A cluster that may be there.
    pub(crate) async fn cluster_if_any(
        &self,
        name: &str,
    ) -> Result<Option<TenantCluster>, Failure> {
        let what = format!("get {}", self.title(name));
        let api = self.clusters();
        let asked = within(&what, api.get(name)).await;
        match asked {
            Err(Failure {
                code: Code::NotFound,
                ..
            }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// There is no such cluster, and how to see which there are.
    pub(crate) fn no_cluster(&self, name: &str) -> Failure {
        Failure::new(
            Code::NotFound,
            format!(
                "there is no {}; `butlerctl cluster list -A` shows those that you may see",
                self.title(name)
            ),
        )
    }
}

/// One answer of the API server, or why there is none.
pub(crate) async fn within<T>(
    what: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|error| Failure::answer(what, &error)),
        Err(_) => Err(Failure::new(
            Code::Failed,
            format!(
                "could not {what}: the API server did not answer within {} s; is the management cluster well?",
                PATIENCE.as_secs()
            ),
        )),
    }
}

/// An object that may not be there.
pub(crate) async fn within_if_any<T>(
    what: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, Failure> {
    let request = async {
        match request.await {
            Err(error) if is_not_found(&error) => Ok(None),
            answer => answer.map(Some),
        }
    };
    within(what, request).await
}
