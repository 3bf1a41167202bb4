//! How machines without a bootstrap provider join: a token that the tenant knows, kept beside the cluster and renewed in
//! time, and for Talos an authority of their own.
//!
//! The tenant hears of a token before any machine does. A tenant that does not answer keeps the token it has.

use butler_capi::{
    TenantSpec,
    node::{self, BootstrapToken, JoinTicket, TalosTrust, Ticket, TokenError},
    observe::{Inputs, Observed},
    secret::Hidden,
};
use butler_pki::{
    authority::{Authority, SignError},
    key::{Algorithm, KeyError},
    profile::Profile,
    source::{Fresh, KeySource as _},
    validity::{Lifetimes, Validity},
};
use butler_runtime::error::{ApiError, chain};
use butler_steward::{
    names::Part,
    tenant::client::{ClientError, connect},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};

use super::{Controller, carry_out::Place};
use crate::{MANAGER, tenant_addresses::services};

/// Letters of a token: as many as divide the values of a byte fairly after the last few are thrown away.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Values of a byte below this are spread evenly over the letters.
const FAIR: u8 = 252;

/// Why machines could not be told how to join.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("there is no kubeconfig of the control plane yet")]
    NoKubeconfig,
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("could not make a token")]
    Token(#[from] TokenError),
    #[error("could not make a key")]
    Key(#[from] KeyError),
    #[error("could not make an authority for Talos machines")]
    Authority(#[from] SignError),
}

impl Controller {
    /// Adds how machines join to what is known, where machines of the cluster have to be told by us.
    pub(super) async fn add_joining(
        &self,
        spec: &TenantSpec,
        place: &Place<'_>,
        observed: &mut Observed,
        now: Timestamp,
    ) {
        if observed.deletion.is_some() || !node::needs_ticket(spec) {
            return;
        }
        let serving = observed.control_plane.as_ref().filter(|it| it.initialized);
        let Some(endpoint) = serving.and_then(|it| it.endpoint.clone()) else {
            return;
        };
        if let Err(trouble) = self
            .joining(spec, place, endpoint, now, &mut observed.inputs)
            .await
        {
            // The plan says that it waits, and looks again soon.
            tracing::warn!(
                error = chain(&trouble),
                "machines cannot be told how to join yet"
            );
        }
    }

    async fn joining(
        &self,
        spec: &TenantSpec,
        place: &Place<'_>,
        endpoint: String,
        now: Timestamp,
        inputs: &mut Inputs,
    ) -> Result<(), Trouble> {
        let (identity, here) = (&spec.identity, place.namespace);
        let secrets: Api<Secret> = Api::namespaced(self.applier.client().clone(), here);
        // Not from the watch: one that is behind would make a second token or, worse, a second authority.
        let get = async |name: &str| {
            let found = secrets.get_opt(name).await;
            found.map_err(ApiError::of("get", "Secret", &format!("{here}/{name}")))
        };
        if node::needs_trust(spec) {
            let held = get(&identity.trust()).await?;
            let held = held.as_ref().and_then(node::kept_trust);
            inputs.talos = Some(held.map_or_else(|| new_trust(identity.cluster(), now), Ok)?);
        }
        let Some(authority) = get(&Part::Ca.name(identity.cluster())).await? else {
            return Ok(());
        };
        let held = get(&identity.join()).await?;
        let held = held.as_ref().and_then(node::kept_token);
        let token = match node::renew(held.as_ref(), &new_token()?, now)? {
            Ticket::Keep { token, .. } => token,
            Ticket::Renew(fresh) => {
                match (self.announce(identity.cluster(), here, &fresh).await, held) {
                    (Ok(()), _) => fresh,
                    (Err(trouble), Some(held)) if held.expires > now => {
                        tracing::warn!(
                            error = chain(&trouble),
                            "a token for joining could not be renewed yet"
                        );
                        held
                    }
                    (Err(trouble), _) => return Err(trouble),
                }
            }
        };
        inputs.join = certificate(&authority).map(|authority| JoinTicket {
            endpoint,
            authority,
            token,
        });
        Ok(())
    }

    /// Tells the tenant of a token.
    async fn announce(
        &self,
        cluster: &str,
        namespace: &str,
        token: &BootstrapToken,
    ) -> Result<(), Trouble> {
        let management = self.applier.client();
        let name = Part::AdminKubeconfig.name(cluster);
        let held = services::kubeconfig_in(management, namespace, &name).await?;
        let (_, kubeconfig) = held.ok_or(Trouble::NoKubeconfig)?;
        let tenant: Client = connect(&kubeconfig).await?;
        let secret = node::token_secret(token);
        let name = secret.metadata.name.clone().unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(tenant, "kube-system");
        let parameters = PatchParams::apply(MANAGER).force();
        let told = secrets
            .patch(&name, &parameters, &Patch::Apply(&secret))
            .await;
        told.map_err(ApiError::of(
            "apply",
            "Secret",
            &format!("kube-system/{name} of {cluster}"),
        ))?;
        Ok(())
    }
}

fn certificate(authority: &Secret) -> Option<String> {
    let data = authority.data.as_ref()?;
    let held = ["tls.crt", "ca.crt"].iter().find_map(|key| data.get(*key));
    String::from_utf8(held?.0.clone()).ok()
}

/// The text of a token that nobody had before.
fn new_token() -> Result<String, KeyError> {
    let letters = letters(22)?;
    let (id, secret) = letters.split_at(6);
    Ok(format!("{id}.{secret}"))
}

fn letters(count: usize) -> Result<String, KeyError> {
    let mut text = String::new();
    while text.len() < count {
        let fair = Fresh.secret()?.into_iter().filter(|byte| *byte < FAIR);
        let letters = fair.filter_map(|byte| LETTERS.get(usize::from(byte) % LETTERS.len()));
        text.extend(
            letters
                .take(count - text.len())
                .map(|letter| char::from(*letter)),
        );
    }
    Ok(text)
}

/// An authority and a token for the machines of one cluster.
fn new_trust(cluster: &str, now: Timestamp) -> Result<TalosTrust, Trouble> {
    let profile = Profile::authority(&format!("{cluster} OS CA"));
    let validity = Validity::starting(now, Lifetimes::default().authority);
    let key = Fresh.key(Algorithm::EcdsaP256)?;
    let authority = Authority::create(&profile, key, Fresh.serial()?, validity)?;
    Ok(TalosTrust {
        authority: authority.certificate().to_pem(),
        key: Hidden::new(authority.key().to_pem().as_str()),
        token: Hidden::new(format!("butler.{}", letters(32)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_shape_that_kubernetes_knows_and_differ() {
        let now = Timestamp::UNIX_EPOCH;
        let (one, two) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, two);
        for text in [one, two] {
            BootstrapToken::new(&text, now).unwrap();
        }
    }

    #[test]
    fn talos_machines_of_a_cluster_trust_an_authority_of_their_own() {
        let now = "2026-11-16T00:00:00Z".parse().unwrap();
        let trust = new_trust("blue", now).unwrap();
        let read = Authority::from_pem(trust.authority.as_bytes(), trust.key.reveal().as_bytes());
        assert!(read.unwrap().certificate().is_authority());
        assert!(!format!("{trust:?}").contains("PRIVATE"));
    }
}
