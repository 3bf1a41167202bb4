//! Encryption at rest: which provider writes and which ones still read, for every resource.
//!
//! While pods are replaced, old and new API servers share the store, so nothing may be written that an old
//! one cannot read. A provider is therefore first made known to all pods, and only when they all run with
//! it does it write. Providers that are no longer wanted stay as readers, because objects that they wrote
//! are still in the store. Where things stand is read from the live configuration; nothing is remembered
//! elsewhere.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::spec::{ControlPlane, Encryption, EncryptionProvider};

/// File with the configuration, and the key of its Secret.
pub const FILE: &str = "encryption.yaml";

/// A key, by its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Name; the first one by name encrypts.
    pub name: String,
    /// Thirty-two bytes.
    pub secret: Vec<u8>,
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Key")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What is known about encryption now.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The keys to encrypt with, unless a key service is used.
    pub keys: Vec<Key>,
    /// The live configuration: content of [`FILE`] in its Secret.
    pub live: Option<Vec<u8>>,
    /// Whether all pods run with the live configuration.
    pub rolled_out: bool,
    /// Whether no API server has ever run: then nothing can be unreadable.
    pub fresh: bool,
}

impl fmt::Debug for Facts {
    /// The live configuration has keys in it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            keys,
            live,
            rolled_out,
            fresh,
        } = self;
        formatter
            .debug_struct("Facts")
            .field("keys", keys)
            .field("live", &live.is_some())
            .field("rolled_out", rolled_out)
            .field("fresh", fresh)
            .finish()
    }
}

/// Providers by resource; the first one writes.
type Rules = BTreeMap<String, Vec<Value>>;

/// Whether the API server gets an encryption configuration.
pub fn is_used(spec: &ControlPlane, facts: &Facts) -> bool {
    spec.encryption.is_some() || facts.live.is_some()
}

/// The next configuration.
pub fn config(spec: &ControlPlane, facts: &Facts) -> Option<Value> {
    if !is_used(spec, facts) {
        return None;
    }
    let live = facts.live.as_deref().map(read).unwrap_or_default();
    let wanted = spec.encryption.as_ref();
    let named = wanted
        .map(|wanted| wanted.resources.clone())
        .unwrap_or_default();
    let mut rules = Rules::new();
    for resource in live.keys().chain(&named) {
        let held = live
            .get(resource)
            .cloned()
            .unwrap_or_else(|| vec![identity()]);
        let writer = writer(wanted, resource, &facts.keys);
        rules.insert(resource.clone(), step(&held, &writer, facts));
    }
    Some(write(&rules))
}

fn identity() -> Value {
    json!({ "identity": {} })
}

/// What is to write a resource, in the end.
fn writer(wanted: Option<&Encryption>, resource: &str, keys: &[Key]) -> Value {
    let Some(wanted) = wanted else {
        return identity();
    };
    if !wanted
        .resources
        .iter()
        .any(|pattern| covers(pattern, resource))
    {
        return identity();
    }
    let keyed = |name: &str| {
        let mut keys: Vec<&Key> = keys.iter().collect();
        keys.sort_unstable_by_key(|key| &key.name);
        let entry =
            |key: &&Key| json!({ "name": key.name, "secret": ByteString(key.secret.clone()) });
        json!({ name: { "keys": keys.iter().map(entry).collect::<Vec<_>>() } })
    };
    match &wanted.provider {
        EncryptionProvider::Secretbox => keyed("secretbox"),
        EncryptionProvider::AesCbc => keyed("aescbc"),
        EncryptionProvider::AesGcm => keyed("aesgcm"),
        EncryptionProvider::Kms {
            name,
            endpoint,
            timeout,
        } => json!({
            "kms": { "apiVersion": "v2", "name": name, "endpoint": endpoint, "timeout": timeout }
        }),
    }
}

/// The next providers of one resource.
fn step(held: &[Value], writer: &Value, facts: &Facts) -> Vec<Value> {
    let writes_already = held
        .first()
        .is_some_and(|first| mark(first) == mark(writer));
    let known = held.iter().any(|provider| reads(provider, writer));
    let first = facts.fresh || writes_already || (known && facts.rolled_out);
    if !first && known {
        return held.to_vec();
    }
    let mut next = Vec::new();
    if !first {
        next.extend(held.first().cloned());
    }
    next.push(writer.clone());
    for provider in held {
        if !next.iter().any(|other| replaces(other, provider)) {
            next.push(provider.clone());
        }
    }
    if !next.contains(&identity()) {
        next.push(identity());
    }
    // Reading tries providers in order, and plain data looks like anything: it comes last, unless it writes.
    let plain = next
        .iter()
        .skip(1)
        .position(|provider| *provider == identity());
    if let Some(at) = plain {
        let last = next.remove(at + 1);
        next.push(last);
    }
    next
}

/// The kind of a provider and its body.
fn parts(provider: &Value) -> Option<(&str, &Value)> {
    let (kind, body) = provider.as_object()?.iter().next()?;
    Some((kind, body))
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = value.get(field).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn keys(body: &Value) -> impl Iterator<Item = &Value> {
    items(body, "keys")
}

/// What identifies the key that a provider writes with.
fn mark(provider: &Value) -> Option<(&str, &Value)> {
    let (kind, body) = parts(provider)?;
    let key = if kind == "kms" {
        body.get("name").unwrap_or(&Value::Null)
    } else {
        keys(body).next().unwrap_or(&Value::Null)
    };
    Some((kind, key))
}

/// Whether `provider` can read what `writer` writes.
fn reads(provider: &Value, writer: &Value) -> bool {
    let (Some((kind, body)), Some((wanted, key))) = (parts(provider), mark(writer)) else {
        return false;
    };
    kind == wanted
        && match kind {
            "identity" => true,
            "kms" => body.get("name") == Some(key),
            _ => keys(body).any(|known| known == key),
        }
}

/// Whether whatever `old` can read, `new` can read too.
fn replaces(new: &Value, old: &Value) -> bool {
    let (Some((kind, body)), Some((old_kind, old_body))) = (parts(new), parts(old)) else {
        return false;
    };
    kind == old_kind
        && match kind {
            "identity" => true,
            "kms" => body.get("name") == old_body.get("name"),
            _ => keys(old_body).all(|key| keys(body).any(|known| known == key)),
        }
}

/// Whether a pattern of resources means this one too.
fn covers(pattern: &str, resource: &str) -> bool {
    let group = |text: &str| {
        text.split_once('.')
            .map_or("", |(_, group)| group)
            .to_owned()
    };
    match pattern {
        "*.*" => true,
        _ if pattern == resource => true,
        _ => pattern.starts_with("*.") && group(pattern) == group(resource),
    }
}

/// A configuration that somebody spoilt counts as none: providers that are wanted are known again.
fn read(text: &[u8]) -> Rules {
    let config: Value = serde_json::from_slice(text).unwrap_or_default();
    let rule = |rule: &Value| {
        let providers: Vec<Value> = items(rule, "providers").cloned().collect();
        let named = items(rule, "resources").filter_map(Value::as_str);
        named
            .map(|resource| (resource.to_owned(), providers.clone()))
            .collect::<Vec<_>>()
    };
    items(&config, "resources").flat_map(rule).collect()
}

/// One rule for each resource; the first match counts, so wildcards come last.
fn write(rules: &Rules) -> Value {
    let mut ordered: Vec<_> = rules.iter().collect();
    let breadth = |resource: &str| match resource {
        "*.*" => 2,
        _ => u8::from(resource.starts_with('*')),
    };
    ordered.sort_by_key(|(resource, _)| (breadth(resource), *resource));
    let rule = |(resource, providers): (&String, &Vec<Value>)| json!({ "resources": [resource], "providers": providers });
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": ordered.into_iter().map(rule).collect::<Vec<_>>(),
    })
}
