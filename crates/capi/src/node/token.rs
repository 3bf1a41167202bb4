//! Bootstrap tokens: short-lived, renewed in time, and never used for anything but joining.
//!
//! The value and the moment are arguments. A token lives for [`TOKEN_LIFE`] and is renewed when a third of that is
//! left, so that a machine that is made at any moment has hours to join with it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use thiserror::Error;

use crate::secret::Hidden;

/// How long a token is valid.
pub const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(12);

/// How much of its life is left when it is renewed.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(4);

/// How often the tenant is asked at least whether it still knows its token, and how far clusters are apart in that.
const ASK_EVERY: SignedDuration = SignedDuration::from_mins(10);
const APART: u64 = 300;

/// Group whose members may ask for a node's certificate, as kubeadm names it.
const JOINERS: &str = "system:bootstrappers:kubeadm:default-node-token";

/// A token that machines join with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapToken {
    id: String,
    secret: Hidden,
    /// When it ends.
    pub expires: Timestamp,
}

/// Text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a bootstrap token is six and sixteen lower-case letters or digits with a dot between them"
)]
pub struct TokenError;

impl BootstrapToken {
    /// A token from its text.
    pub fn new(text: &str, expires: Timestamp) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError)?;
        let good = |part: &str, length: usize| {
            part.len() == length
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !good(id, 6) || !good(secret, 16) {
            return Err(TokenError);
        }
        Ok(Self {
            id: id.to_owned(),
            secret: Hidden::new(secret),
            expires,
        })
    }

    /// The public half.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// When it is to be renewed.
    pub(crate) fn due(&self) -> Timestamp {
        let due = self.expires.checked_sub(RENEW_BEFORE);
        due.unwrap_or(Timestamp::MIN)
    }

    /// All of it, for a place that is secret.
    pub fn text(&self) -> Hidden {
        Hidden::new(format!("{}.{}", self.id, self.secret.reveal()))
    }
}

/// What to do about the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// The one there is lasts.
    Keep {
        /// It.
        token: BootstrapToken,
        /// When to look again.
        until: Timestamp,
    },
    /// Use this new one. The old one ends by itself, so a machine that is joining with it is not disturbed.
    Renew(BootstrapToken),
}

impl Ticket {
    /// The token that machines are told.
    pub const fn token(&self) -> &BootstrapToken {
        match self {
            Self::Keep { token, .. } | Self::Renew(token) => token,
        }
    }
}

/// How long after one look at a tenant's token the next one comes. Each cluster has its own time, so that a fleet that
/// was made or restarted together does not ask together.
pub fn look_after(uid: &str) -> SignedDuration {
    let mixed = uid.bytes().fold(0_u64, |mixed, byte| {
        mixed.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let apart = i64::try_from(mixed % APART).unwrap_or_default();
    ASK_EVERY + SignedDuration::from_secs(apart)
}

/// Whether what a tenant holds makes a token valid.
pub fn is_known(held: Option<&Secret>, token: &BootstrapToken) -> bool {
    let wanted = token_secret(token);
    let is_right = |held: &Secret| {
        let data = |secret: &Secret| secret.data.clone().unwrap_or_default();
        let held_data = data(held);
        let mut wanted_data = data(&wanted).into_iter();
        held.type_ == wanted.type_
            && wanted_data.all(|(key, value)| held_data.get(&key) == Some(&value))
    };
    held.is_some_and(is_right)
}

/// Decides whether a token lasts; `fresh` is the text of a new one, from a source of chance.
pub fn renew(
    held: Option<&BootstrapToken>,
    fresh: &str,
    now: Timestamp,
) -> Result<Ticket, TokenError> {
    if let Some(token) = held {
        let until = token.due();
        if until > now {
            return Ok(Ticket::Keep {
                token: token.clone(),
                until,
            });
        }
    }
    let expires = now.checked_add(TOKEN_LIFE).unwrap_or(Timestamp::MAX);
    BootstrapToken::new(fresh, expires).map(Ticket::Renew)
}

/// The Secret in the tenant's `kube-system` that makes a token valid. Kubernetes removes it when it ends.
pub fn token_secret(token: &BootstrapToken) -> Secret {
    let text = |text: &str| ByteString(text.as_bytes().to_vec());
    // Whole seconds: what reads this knows RFC 3339 without fractions.
    let expires = Timestamp::from_second(token.expires.as_second()).unwrap_or(token.expires);
    let data = [
        ("token-id", text(token.id())),
        ("token-secret", text(token.secret.reveal())),
        ("expiration", text(&expires.to_string())),
        ("usage-bootstrap-authentication", text("true")),
        ("usage-bootstrap-signing", text("true")),
        ("auth-extra-groups", text(JOINERS)),
        ("description", text("Joins machines; written by Butler.")),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("bootstrap-token-{}", token.id())),
            namespace: Some("kube-system".to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        data: Some(
            data.into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<BTreeMap<_, _>>(),
        ),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "aaaaaa.bbbbbbbbbbbbbbbb";
    const NEW: &str = "cccccc.dddddddddddddddd";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_is_kept_until_a_third_of_its_life_is_left_and_then_renewed() {
        let now = at("2026-11-15T00:00:00Z");
        let first = renew(None, OLD, now).unwrap();
        let Ticket::Renew(token) = &first else {
            panic!("there was none to keep")
        };
        assert_eq!(token.expires, at("2026-11-15T12:00:00Z"));
        let kept = renew(Some(token), NEW, at("2026-11-15T07:59:59Z")).unwrap();
        let until = at("2026-11-15T08:00:00Z");
        assert_eq!(
            kept,
            Ticket::Keep {
                token: token.clone(),
                until
            }
        );
        let next = renew(Some(token), NEW, until).unwrap();
        assert_eq!(next.token().id(), "cccccc");
    }

    #[test]
    fn a_token_is_looked_after_every_ten_to_fifteen_minutes_by_each_cluster_at_its_own_time() {
        let looks: std::collections::BTreeSet<SignedDuration> = (0..100)
            .map(|number| look_after(&format!("a7b8c9d0-0000-4000-8000-{number:012}")))
            .collect();
        assert!(looks.len() > 50, "{looks:?}");
        assert!(looks.iter().all(|look| (10..15).contains(&look.as_mins())));
    }

    #[test]
    fn a_token_that_was_deleted_or_changed_in_the_tenant_is_not_known_there() {
        let token = BootstrapToken::new(OLD, at("2026-11-15T12:00:00Z")).unwrap();
        let mut held = token_secret(&token);
        assert!(is_known(Some(&held), &token));
        assert!(!is_known(None, &token));
        let later = BootstrapToken::new(OLD, at("2026-11-15T13:00:00Z")).unwrap();
        assert!(!is_known(Some(&held), &later), "it would end too early");
        held.type_ = Some("Opaque".to_owned());
        assert!(!is_known(Some(&held), &token));
    }

    #[test]
    fn a_clock_that_goes_back_keeps_the_token() {
        let token = BootstrapToken::new(OLD, at("2026-11-15T12:00:00Z")).unwrap();
        let kept = renew(Some(&token), NEW, at("2026-11-14T00:00:00Z")).unwrap();
        assert_eq!(kept.token(), &token);
    }

    #[test]
    fn only_text_of_the_right_shape_is_a_token() {
        for text in [
            "",
            "abc.def",
            "aaaaaa.BBBBBBBBBBBBBBBB",
            "aaaaaabbbbbbbbbbbbbbbbbb",
        ] {
            assert_eq!(renew(None, text, Timestamp::UNIX_EPOCH), Err(TokenError));
        }
    }

    #[test]
    fn the_secret_of_a_token_ends_with_it_and_the_token_is_not_printed() {
        let token = BootstrapToken::new(OLD, at("2026-11-15T12:00:00.5Z")).unwrap();
        let secret = token_secret(&token);
        let data = secret.data.unwrap();
        assert_eq!(data["expiration"].0, b"2026-11-15T12:00:00Z");
        assert_eq!(
            secret.metadata.name.as_deref(),
            Some("bootstrap-token-aaaaaa")
        );
        assert!(!format!("{token:?}").contains("bbbb"));
    }
}
