//! What is kept of joining between two looks, in Secrets beside the cluster: the token that machines are told, and what
//! Talos machines trust.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::{BootstrapToken, TalosTrust};
use crate::{names::Identity, secret::Hidden};

const TOKEN: &str = "token";
const EXPIRES: &str = "expires";
const AUTHORITY: &str = "os-ca.crt";
const AUTHORITY_KEY: &str = "os-ca.key";

/// The Secret that keeps a token.
pub(crate) fn token_kept(identity: &Identity, token: &BootstrapToken) -> Secret {
    let entries = [
        (TOKEN, token.text().reveal().to_owned()),
        (EXPIRES, token.expires.to_string()),
    ];
    secret(identity, &identity.join(), entries)
}

/// The token that a Secret keeps. What is no token is as good as none.
pub fn kept_token(secret: &Secret) -> Option<BootstrapToken> {
    let expires = text(secret, EXPIRES)?.parse().ok()?;
    BootstrapToken::new(text(secret, TOKEN)?, expires).ok()
}

/// The Secret that keeps what Talos machines trust.
pub(crate) fn trust_kept(identity: &Identity, trust: &TalosTrust) -> Secret {
    let entries = [
        (AUTHORITY, trust.authority.clone()),
        (AUTHORITY_KEY, trust.key.reveal().to_owned()),
        (TOKEN, trust.token.reveal().to_owned()),
    ];
    secret(identity, &identity.trust(), entries)
}

/// What a Secret keeps for Talos machines.
pub fn kept_trust(secret: &Secret) -> Option<TalosTrust> {
    Some(TalosTrust {
        authority: text(secret, AUTHORITY)?.to_owned(),
        key: Hidden::new(text(secret, AUTHORITY_KEY)?),
        token: Hidden::new(text(secret, TOKEN)?),
    })
}

fn secret<const N: usize>(identity: &Identity, name: &str, entries: [(&str, String); N]) -> Secret {
    let entries = entries.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    Secret {
        metadata: identity.metadata(name),
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from(entries)),
        ..Secret::default()
    }
}

fn text<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    let held = secret.data.as_ref()?.get(key)?;
    str::from_utf8(&held.0).ok().filter(|text| !text.is_empty())
}
