//! Keys for encryption at rest: which ones are used, when another is made, and when one is forgotten. Pure:
//! bytes that nobody can foresee are an argument.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use serde::{Deserialize, Serialize};

use super::encryption::{self, Key, Stage};
use crate::{
    names::{self, Part},
    spec::{ControlPlane, EncryptionProvider},
};

/// How long a key is, whatever encrypts with it.
pub const KEY_LENGTH: usize = 32;
/// How names of keys begin that are made here; a number follows.
const PREFIX: &str = "key-";

/// Why keys of a user cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no Secret of this name.
    #[error("there is no Secret {0}; make it, with entries of {KEY_LENGTH} random bytes")]
    NoSecret(String),
    /// It has no entries.
    #[error("Secret {0} has no entries; add one of {KEY_LENGTH} random bytes")]
    Empty(String),
    /// An entry is no key.
    #[error("entry {entry} of Secret {secret} has {length} bytes; a key has {KEY_LENGTH}")]
    Length {
        /// The Secret.
        secret: String,
        /// The entry.
        entry: String,
        /// What it has.
        length: usize,
    },
}

impl KeyError {
    /// One word for a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSecret(_) => "KeySecretNotFound",
            Self::Empty(_) | Self::Length { .. } => "KeysUnusable",
        }
    }
}

/// Reads keys that a user brings: the first by name writes.
pub fn brought(name: &str, secret: Option<&Secret>) -> Result<Vec<Key>, KeyError> {
    let secret = secret.ok_or_else(|| KeyError::NoSecret(name.to_owned()))?;
    let entries = secret.data.iter().flatten();
    let read = |(entry, bytes): (&String, &ByteString)| {
        if bytes.0.len() != KEY_LENGTH {
            return Err(KeyError::Length {
                secret: name.to_owned(),
                entry: entry.clone(),
                length: bytes.0.len(),
            });
        }
        Ok(Key {
            name: entry.clone(),
            secret: bytes.0.clone(),
        })
    };
    let keys = entries.map(read).collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(KeyError::Empty(name.to_owned()));
    }
    Ok(keys)
}

/// Whether keys are made here for this control plane.
pub fn are_made(spec: &ControlPlane) -> bool {
    let service =
        |provider: &EncryptionProvider| matches!(provider, EncryptionProvider::Kms { .. });
    spec.encryption
        .as_ref()
        .is_some_and(|wanted| wanted.key_secret.is_none() && !service(&wanted.provider))
}

/// The file of their Secret.
const FILE: &str = "keys.json";

#[derive(Deserialize, Serialize)]
struct Entry {
    name: String,
    secret: ByteString,
}

/// Keys that were made here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The newest first.
    pub keys: Vec<Key>,
    /// The request for another key that was last followed.
    pub rotation: Option<String>,
}

impl Made {
    /// Reads their Secret.
    pub fn of(secret: &Secret) -> Self {
        let annotations = secret.metadata.annotations.as_ref();
        let file = secret.data.as_ref().and_then(|data| data.get(FILE));
        let entries: Vec<Entry> = file
            .and_then(|file| serde_json::from_slice(&file.0).ok())
            .unwrap_or_default();
        let key = |Entry { name, secret }| Key {
            name,
            secret: secret.0,
        };
        Self {
            keys: entries.into_iter().map(key).collect(),
            rotation: annotations.and_then(|all| all.get(names::ENCRYPTION_ROTATION).cloned()),
        }
    }

    /// Their Secret. One file has them all: it is made by a create, and an apply takes away no entry of one.
    pub fn secret(&self, spec: &ControlPlane) -> Secret {
        let entry = |key: &Key| Entry {
            name: key.name.clone(),
            secret: ByteString(key.secret.clone()),
        };
        let entries: Vec<Entry> = self.keys.iter().map(entry).collect();
        let file = serde_json::to_vec(&entries).expect("names and bytes can be written as JSON");
        let mut secret = super::secret(spec, Part::EncryptionKeys, FILE, file);
        let word = self.rotation.clone();
        secret.metadata.annotations =
            word.map(|word| BTreeMap::from([(names::ENCRYPTION_ROTATION.to_owned(), word)]));
        secret
    }

    /// The keys as they should be: one more when there is none or another is asked for, and none but the newest once
    /// everything is written with it.
    ///
    /// `live` is the live configuration: where their Secret was lost, its keys are taken over. `fresh` is what a new key
    /// is made of.
    pub fn next(
        held: Option<&Self>,
        asked: Option<&str>,
        live: Option<&[u8]>,
        stage: Option<Stage>,
        fresh: [u8; KEY_LENGTH],
    ) -> Self {
        let recovered = || Self {
            keys: live.map(encryption::keys_of).unwrap_or_default(),
            rotation: asked.map(str::to_owned),
        };
        let mut next = held.cloned().unwrap_or_else(recovered);
        let another = asked.is_some() && next.rotation.as_deref() != asked;
        if next.keys.is_empty() || another {
            let newest = next.keys.iter().map(|key| number(&key.name)).max();
            let name = format!("{PREFIX}{}", newest.unwrap_or(0) + 1);
            let secret = fresh.to_vec();
            next.keys.insert(0, Key { name, secret });
            next.rotation = asked.map(str::to_owned);
        } else if stage == Some(Stage::Settled) {
            next.keys.truncate(1);
        }
        next
    }
}

/// The number of a key that was made here; 0 for any other.
fn number(name: &str) -> u64 {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::fixture::plane;

    fn secret(data: &serde_json::Value) -> Secret {
        serde_json::from_value(json!({"metadata": {"name": "mine"}, "data": data})).unwrap()
    }

    #[test]
    fn keys_of_a_user_must_be_there_and_of_the_right_length() {
        let long = serde_json::to_value(ByteString(vec![1; 32])).unwrap();
        let short = serde_json::to_value(ByteString(vec![1; 16])).unwrap();
        let table = [
            (None, "KeySecretNotFound", "there is no Secret mine"),
            (Some(json!({})), "KeysUnusable", "has no entries"),
            (
                Some(json!({"a": short})),
                "KeysUnusable",
                "entry a of Secret mine has 16 bytes",
            ),
            (
                Some(json!({"a": long, "b": short})),
                "KeysUnusable",
                "entry b",
            ),
        ];
        for (data, reason, words) in table {
            let held = data.as_ref().map(secret);
            let error = brought("mine", held.as_ref()).unwrap_err();
            assert_eq!(error.reason(), reason);
            assert!(error.to_string().contains(words), "{error}");
        }
        let keys = brought("mine", Some(&secret(&json!({"b": long, "a": long})))).unwrap();
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    fn names(made: &Made) -> Vec<&str> {
        made.keys.iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn one_request_makes_one_key_and_the_old_one_goes_only_in_the_end() {
        let next =
            |held: Option<&Made>, asked, stage| Made::next(held, asked, None, stage, [1; 32]);
        let first = next(None, None, None);
        assert_eq!(names(&first), ["key-1"]);
        assert_eq!(next(Some(&first), None, Some(Stage::Settled)), first);
        let second = next(Some(&first), Some("spring"), Some(Stage::Settled));
        assert_eq!(names(&second), ["key-2", "key-1"]);
        for stage in [Stage::Learning, Stage::RollingOut, Stage::Rewriting] {
            assert_eq!(next(Some(&second), Some("spring"), Some(stage)), second);
        }
        let third = next(Some(&second), Some("spring"), Some(Stage::Settled));
        assert_eq!(names(&third), ["key-2"]);
    }

    #[test]
    fn a_request_that_is_older_than_the_first_key_makes_no_second_one() {
        let first = Made::next(None, Some("spring"), None, None, [1; 32]);
        let again = Made::next(Some(&first), Some("spring"), None, None, [2; 32]);
        assert_eq!(again, first);
    }

    #[test]
    fn the_tenth_key_is_newer_than_the_ninth_and_a_secret_keeps_them_all() {
        let key = |name: &str| Key {
            name: name.into(),
            secret: vec![1; 32],
        };
        let made = Made {
            keys: vec![key("key-10"), key("key-9")],
            rotation: Some("now".into()),
        };
        assert_eq!(Made::of(&made.secret(&plane(&json!({})))), made);
    }

    #[test]
    fn keys_whose_secret_was_lost_are_found_in_the_configuration() {
        let entry = json!({"name": "key-3", "secret": ByteString(vec![7; 32])});
        let config = json!({"resources": [
            {"resources": ["secrets"], "providers": [{"secretbox": {"keys": [entry]}}, {"identity": {}}]},
        ]});
        let live = config.to_string().into_bytes();
        let made = Made::next(None, None, Some(&live), None, [1; 32]);
        assert_eq!(names(&made), ["key-3"]);
        assert_eq!(made.keys[0].secret, vec![7; 32]);
    }
}
