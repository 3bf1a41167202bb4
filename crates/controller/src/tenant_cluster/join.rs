//! How machines without a bootstrap provider join: a token that the tenant knows, kept beside the cluster and renewed in
//! time, and for Talos an authority of their own.
//!
//! The tenant hears of a token before any machine does. A tenant that does not answer keeps the token it has.

use std::{collections::HashMap, sync::Mutex};

use butler_capi::{
    TenantSpec,
    names::Identity,
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
use butler_runtime::{
    error::{ApiError, chain},
    sync::lock,
};
use butler_steward::names::Part;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};

use super::{Controller, carry_out::Place, inside::Unreached};
use crate::MANAGER;

/// Letters of a token: as many as divide the values of a byte fairly after the last few are thrown away.
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Values of a byte below this are spread evenly over the letters.
const FAIR: u8 = 252;

/// Why machines could not be told how to join.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("there is no kubeconfig of the control plane yet")]
    NoKubeconfig,
    #[error(transparent)]
    Unreached(#[from] Unreached),
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
        if !node::needs_ticket(spec) {
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
        let get = async |name: &str| {
            let found = secrets.get_opt(name).await;
            found.map_err(ApiError::of("get", "Secret", &format!("{here}/{name}")))
        };
        // What the watch shows is there. That something is not there is asked once more: a watch that is behind would make
        // a second token or, worse, a second authority.
        let watched = |name: &str| self.children.secrets.open(Some(here), name);
        if node::needs_trust(spec) {
            let name = identity.trust();
            let mut held = watched(&name).and_then(|held| node::kept_trust(&held));
            if held.is_none() {
                held = get(&name).await?.as_ref().and_then(node::kept_trust);
            }
            inputs.talos = Some(held.map_or_else(|| new_trust(identity.cluster(), now), Ok)?);
        }
        let Some(authority) = get(&authority_name(identity)).await? else {
            return Ok(());
        };
        let lasts = |held: &BootstrapToken| {
            let kept = node::renew(Some(held), "", now);
            matches!(kept, Ok(Ticket::Keep { .. }))
        };
        let name = identity.join();
        let mut held = watched(&name).and_then(|held| node::kept_token(&held));
        if !held.as_ref().is_some_and(lasts) {
            held = get(&name).await?.as_ref().and_then(node::kept_token);
        }
        let token = match node::renew(held.as_ref(), &new_token()?, now)? {
            Ticket::Keep { token, .. } => {
                self.look_after(identity, &token, now).await;
                token
            }
            Ticket::Renew(fresh) => match (self.announce(identity, &fresh).await, held) {
                (Ok(()), _) => fresh,
                (Err(trouble), Some(held)) if held.expires > now => {
                    tracing::warn!(
                        error = chain(&trouble),
                        "a token for joining could not be renewed yet"
                    );
                    held
                }
                (Err(trouble), _) => return Err(trouble),
            },
        };
        inputs.join = certificate(&authority).map(|authority| JoinTicket {
            endpoint,
            authority,
            token,
        });
        Ok(())
    }

    /// Now and then asks the tenant whether it still knows the token, and tells it again if not. A tenant that does not
    /// answer is asked another time.
    async fn look_after(&self, identity: &Identity, token: &BootstrapToken, now: Timestamp) {
        if !self.looks.is_due(&identity.uid, now) {
            return;
        }
        if let Err(trouble) = self.announce(identity, token).await {
            tracing::warn!(
                error = chain(&trouble),
                "could not see whether the tenant still knows its token for joining"
            );
        }
    }

    /// Tells the tenant of a token that it does not know.
    async fn announce(&self, identity: &Identity, token: &BootstrapToken) -> Result<(), Trouble> {
        let cluster = identity.cluster();
        let tenant = self.inside(identity).await?.ok_or(Trouble::NoKubeconfig)?;
        let secret = node::token_secret(token);
        let name = secret.metadata.name.clone().unwrap_or_default();
        let whole = format!("kube-system/{name} of {cluster}");
        let secrets: Api<Secret> = Api::namespaced(tenant, "kube-system");
        let held = secrets.get_opt(&name).await;
        let held = held.map_err(ApiError::of("get", "Secret", &whole))?;
        if node::is_known(held.as_ref(), token) {
            return Ok(());
        }
        let parameters = PatchParams::apply(MANAGER).force();
        let told = secrets
            .patch(&name, &parameters, &Patch::Apply(&secret))
            .await;
        told.map_err(ApiError::of("apply", "Secret", &whole))?;
        tracing::info!(
            cluster,
            token = token.id(),
            "the tenant was told how machines join"
        );
        Ok(())
    }
}

/// When the tokens of clusters were last looked after, by UID. A restart counts as a look: tokens are rarely deleted, and a
/// whole fleet is not to be asked in that moment.
#[derive(Default)]
pub(super) struct Looks(Mutex<HashMap<String, Timestamp>>);

impl Looks {
    /// Whether it is time for another look, which counts from now on.
    fn is_due(&self, uid: &str, now: Timestamp) -> bool {
        let mut looks = lock(&self.0);
        let Some(last) = looks.get_mut(uid) else {
            looks.insert(uid.to_owned(), now);
            return false;
        };
        let is_due = now.duration_since(*last) >= node::look_after(uid);
        if is_due {
            *last = now;
        }
        is_due
    }

    /// The cluster is gone.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

/// The Secret with the authority of a cluster.
pub(super) fn authority_name(identity: &Identity) -> String {
    Part::Ca.name(identity.cluster())
}

pub(super) fn certificate(authority: &Secret) -> Option<String> {
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
pub(super) fn new_trust(cluster: &str, now: Timestamp) -> Result<TalosTrust, Trouble> {
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
    fn a_tenant_is_asked_about_its_token_when_it_is_time_and_not_before() {
        let looks = Looks::default();
        let first: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let later = first + node::look_after("a");
        let early = later - jiff::SignedDuration::from_secs(1);
        assert!(!looks.is_due("a", first), "a restart counts as a look");
        assert!(!looks.is_due("a", early));
        assert!(looks.is_due("a", later));
        assert!(!looks.is_due("a", later), "once");
        looks.forget("a");
        assert!(!looks.is_due("a", later));
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
