//! Whose permissions Helm has on the management cluster.
//!
//! Charts need almost any permission, and the controller shall not have them all: it asks for tokens of an account that is
//! there only where the platform's people want such addons. Taking that account away takes the permissions away.

use butler_api::names::SYSTEM_NAMESPACE;
use butler_runtime::{
    clock::SharedClock,
    error::{ApiError, chain, is_not_found},
};
use butler_steward::tenant::client::connect;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, Config, api::PostParams};
use serde_json::json;
use tokio::sync::Mutex;

use crate::addon_engine::Trouble;

/// The account.
pub const ACCOUNT: &str = "butler-management-addons";
/// How long a token lives.
const LIFE: SignedDuration = SignedDuration::from_hours(2);
/// A token with less left is replaced: a step of Helm must not outlive it.
const LEAST: SignedDuration = SignedDuration::from_hours(1);

/// Where the management cluster's API server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Management {
    /// Its address.
    pub server: String,
    /// The authorities that signed its certificate, in DER; none are the machine's own.
    pub authorities: Vec<Vec<u8>>,
}

impl From<&Config> for Management {
    fn from(config: &Config) -> Self {
        Self {
            server: config.cluster_url.to_string(),
            authorities: config.root_cert.clone().unwrap_or_default(),
        }
    }
}

pub(super) struct Account {
    client: Client,
    management: Option<Management>,
    clock: SharedClock,
    held: Mutex<Option<Held>>,
}

struct Held {
    kubeconfig: Vec<u8>,
    client: Client,
    until: Timestamp,
}

impl Account {
    /// The account on `management`, or on the cluster that this process finds itself in.
    pub(super) fn new(client: Client, management: Option<Management>, clock: SharedClock) -> Self {
        Self {
            client,
            management,
            clock,
            held: Mutex::default(),
        }
    }

    /// A kubeconfig with a token, and a client made from it.
    pub(super) async fn get(&self) -> Result<Result<(Vec<u8>, Client), Trouble>, ApiError> {
        let mut held = self.held.lock().await;
        let now = self.clock.now();
        if let Some(held) = held.as_ref()
            && held.until.duration_since(now) > LEAST
        {
            return Ok(Ok((held.kubeconfig.clone(), held.client.clone())));
        }
        let Some(token) = self.token().await? else {
            let message = format!(
                "there is no ServiceAccount {ACCOUNT} in namespace {SYSTEM_NAMESPACE}: install chart butler with \
                 managementAddons.enabled=true"
            );
            return Ok(Err(Trouble::new("NoAccount", message)));
        };
        let management = match &self.management {
            Some(management) => management.clone(),
            None => match Config::infer().await {
                Ok(config) => Management::from(&config),
                Err(error) => return Ok(Err(Trouble::new("NoCluster", chain(&error)))),
            },
        };
        let kubeconfig = kubeconfig(&management, &token).into_bytes();
        let client = match connect(&kubeconfig).await {
            Ok(client) => client,
            Err(error) => return Ok(Err(Trouble::new("NoCluster", chain(&error)))),
        };
        *held = Some(Held {
            kubeconfig: kubeconfig.clone(),
            client: client.clone(),
            until: now + LIFE,
        });
        Ok(Ok((kubeconfig, client)))
    }

    /// A new token; nothing where the account is not there.
    async fn token(&self) -> Result<Option<String>, ApiError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let wanted = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(LIFE.as_secs()),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        match accounts
            .create_token_request(ACCOUNT, &params, &wanted)
            .await
        {
            Ok(made) => Ok(made.status.map(|status| status.token)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(ApiError::of("make", "token of account", ACCOUNT)(error)),
        }
    }
}

fn kubeconfig(management: &Management, token: &str) -> String {
    let mut cluster = json!({"server": management.server});
    if !management.authorities.is_empty() {
        let all: String = management.authorities.iter().map(|der| pem(der)).collect();
        let all = k8s_openapi::ByteString(all.into_bytes());
        butler_addons::values::lay_over(&mut cluster, &json!({"certificate-authority-data": all}));
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "management",
        "contexts": [{"name": "management", "context": {"cluster": "management", "user": ACCOUNT}}],
        "clusters": [{"name": "management", "cluster": cluster}],
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
    })
    .to_string()
}

/// A certificate as files hold it.
fn pem(der: &[u8]) -> String {
    // The only encoder at hand is that of Kubernetes' own bytes.
    let encoded = json!(k8s_openapi::ByteString(der.to_vec()));
    let encoded = encoded.as_str().unwrap_or_default();
    let mut lines = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in encoded.as_bytes().chunks(64) {
        lines.extend(line.iter().copied().map(char::from));
        lines.push('\n');
    }
    lines.push_str("-----END CERTIFICATE-----\n");
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_carries_everything_itself() {
        let management = Management {
            server: "https://10.0.0.1:6443".to_owned(),
            authorities: vec![vec![7; 100]],
        };
        let text = kubeconfig(&management, "t0ken");
        assert!(text.contains("https://10.0.0.1:6443") && text.contains("t0ken"));
        assert!(text.contains("certificate-authority-data"));
        let lines: Vec<usize> = pem(&[7; 100]).lines().map(str::len).collect();
        assert_eq!(lines, [27, 64, 64, 8, 25], "100 bytes are 136 letters");
    }
}
