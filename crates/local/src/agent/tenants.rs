//! Follows every tenant of the book through the kubeconfig that its control plane left in the management cluster.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use butler_fabric::Layout;
use butler_runtime::task::{self, Task};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    addresses::Given,
    follow::{self, Sight},
};
use crate::ledger::{Ledger, Tenant};

/// A cluster is being made: nothing tells when its kubeconfig is there, because Secrets are not watched.
const LOOK: Duration = Duration::from_secs(1);
/// A kubeconfig is renewed long before it ends.
const RENEWAL: Duration = Duration::from_mins(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Tenants that are followed.
pub(super) struct Tenants {
    management: Client,
    layout: Layout,
    sights: mpsc::Sender<Sight>,
    given: watch::Receiver<Given>,
    followed: BTreeMap<String, (Tenant, Task)>,
}

impl Tenants {
    pub(super) fn new(
        management: Client,
        layout: Layout,
        sights: mpsc::Sender<Sight>,
        given: watch::Receiver<Given>,
    ) -> Self {
        Self {
            management,
            layout,
            sights,
            given,
            followed: BTreeMap::new(),
        }
    }

    /// Follows those of the book, and no other.
    pub(super) fn keep(&mut self, ledger: &Ledger) {
        let wanted: BTreeMap<_, _> = ledger.tenants().collect();
        self.followed
            .retain(|id, (held, _)| wanted.get(id.as_str()) == Some(&&*held));
        for (id, tenant) in wanted {
            if self.followed.contains_key(id) {
                continue;
            }
            let following = follow_tenant(
                id.to_owned(),
                tenant.clone(),
                self.management.clone(),
                self.layout,
                self.sights.clone(),
                self.given.clone(),
            );
            let task = task::spawn("tenant", following);
            self.followed.insert(id.to_owned(), (tenant.clone(), task));
        }
    }
}

/// Never ends.
async fn follow_tenant(
    id: String,
    tenant: Tenant,
    management: Client,
    layout: Layout,
    sights: mpsc::Sender<Sight>,
    given: watch::Receiver<Given>,
) {
    let mut held: Option<(Vec<u8>, Task)> = None;
    let mut said = String::new();
    loop {
        match timeout(PATIENCE, kubeconfig(&management, &tenant)).await {
            Ok(Ok(text)) if held.as_ref().is_some_and(|(held, _)| *held == text) => {}
            Ok(Ok(text)) => match client(&text, layout).await {
                Ok(client) => {
                    let following =
                        follow::cluster(id.clone(), client, sights.clone(), given.clone());
                    held = Some((text, task::spawn("follow tenant", following)));
                }
                Err(error) => tell(&mut said, &tenant, error.to_string()),
            },
            Ok(Err(error)) => tell(&mut said, &tenant, error.to_string()),
            Err(late) => tell(&mut said, &tenant, late.to_string()),
        }
        sleep(if held.is_some() { RENEWAL } else { LOOK }).await;
    }
}

/// Once for each reason: it is asked for every second.
fn tell(said: &mut String, tenant: &Tenant, reason: String) {
    if *said != reason {
        tracing::info!(
            tenant = tenant.name,
            reason,
            "a tenant cannot be followed yet"
        );
        *said = reason;
    }
}

type Trouble = Box<dyn std::error::Error + Send + Sync>;

async fn kubeconfig(management: &Client, tenant: &Tenant) -> Result<Vec<u8>, Trouble> {
    let api: Api<Secret> = Api::namespaced(management.clone(), &tenant.namespace);
    let name = format!("{}-kubeconfig", tenant.cluster);
    let secret = api.get_opt(&name).await?;
    let value = secret.and_then(|secret| secret.data?.remove("value"));
    Ok(value
        .ok_or_else(|| format!("Secret {name} is not there"))?
        .0)
}

/// A client for a tenant's API server, which must be one of the platform: nothing here leaves the machine.
async fn client(kubeconfig: &[u8], layout: Layout) -> Result<Client, Trouble> {
    let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(kubeconfig)?)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let host = config.cluster_url.host().unwrap_or_default();
    let ours = |address: Ipv4Addr| layout.balancers().contains(&address);
    let ours = host.parse().is_ok_and(ours);
    if !ours {
        return Err(format!("its address {host} is no load balancer of this platform").into());
    }
    config.connect_timeout = Some(PATIENCE);
    Ok(Client::try_from(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(server: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: '{server}', \
             insecure-skip-tls-verify: true}}}}]\nusers: [{{name: a, user: {{token: none}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
        )
    }

    #[tokio::test]
    async fn only_an_api_server_of_the_platform_is_ever_called() {
        let layout = Layout::new("10.40.0.0/24".parse().unwrap()).unwrap();
        for elsewhere in [
            "https://192.0.2.7:6443",
            "https://example.com",
            "https://10.40.0.1",
        ] {
            let refused = client(kubeconfig(elsewhere).as_bytes(), layout).await;
            let error = refused.err().expect("it is elsewhere").to_string();
            assert!(
                error.contains("no load balancer of this platform"),
                "{error}"
            );
        }
        let ours = kubeconfig("https://10.40.0.130:6443");
        assert!(client(ours.as_bytes(), layout).await.is_ok());
    }
}
