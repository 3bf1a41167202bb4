//! Encryption at rest: which provider writes and which ones still read, for every resource.
//!
//! While pods are replaced, old and new API servers share the store, so nothing may be written that an old
//! one cannot read. A provider is therefore first made known to all pods, and only when they all run with
//! it does it write. Then every object is written once more, and only then are providers forgotten that are
//! no longer wanted: until that moment objects of theirs are in the store. Turning encryption off is the same
//! with plain text as the writer. Where things stand is read from the live configuration and one mark on its
//! Secret; nothing is remembered elsewhere, so a pass that ends half-way is simply repeated.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::content;
use crate::spec::{ControlPlane, Encryption, EncryptionProvider};

/// File with the configuration, and the key of its Secret.
pub const FILE: &str = "encryption.yaml";

/// A key, by its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Name, which is written before everything that it encrypts.
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
    /// The keys to encrypt with, unless a key service is used: the first writes, all read.
    pub keys: Vec<Key>,
    /// The keys cannot be had at the moment: whatever stands goes on.
    pub held: bool,
    /// The live configuration: content of [`FILE`] in its Secret.
    pub live: Option<Vec<u8>>,
    /// [`Plan::writers`] of the configuration under which every object was last written once more.
    pub rewritten: Option<String>,
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
            held,
            live,
            rewritten,
            rolled_out,
            fresh,
        } = self;
        formatter
            .debug_struct("Facts")
            .field("keys", keys)
            .field("held", held)
            .field("live", &live.is_some())
            .field("rewritten", rewritten)
            .field("rolled_out", rolled_out)
            .field("fresh", fresh)
            .finish()
    }
}

/// How far a change of encryption has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is encrypted, and nothing has to be read that is.
    Plain,
    /// What is to write is made known to all pods first.
    Learning,
    /// Pods are replaced.
    RollingOut,
    /// Everything in the store is written once more.
    Rewriting,
    /// Everything is as it should be.
    Settled,
}

/// What is to be done about encryption next.
#[derive(Clone, PartialEq)]
pub struct Plan {
    /// The configuration; none when the API server needs none.
    pub config: Option<Value>,
    /// What stands for the providers that write.
    pub writers: String,
    /// [`Facts::rewritten`], as far as it still holds.
    pub rewritten: Option<String>,
    /// How far it has come.
    pub stage: Stage,
}

/// Providers by resource; the first one writes.
type Rules = BTreeMap<String, Vec<Value>>;

/// Whether the API server gets an encryption configuration.
pub fn is_used(spec: &ControlPlane, facts: &Facts) -> bool {
    config(spec, facts).is_some()
}

/// The next configuration.
pub fn config(spec: &ControlPlane, facts: &Facts) -> Option<Value> {
    plan(spec, facts).config
}

/// What is to be done next.
pub fn plan(spec: &ControlPlane, facts: &Facts) -> Plan {
    let live = facts.live.as_deref().map(read).unwrap_or_default();
    let written = writers(&live);
    let done = !live.is_empty() && facts.rewritten.as_ref() == Some(&written);
    let (rules, learning) = if facts.held {
        (live, false)
    } else {
        next(spec, facts, &live, done)
    };
    let config = (!rules.is_empty()).then(|| write(&rules));
    let writers = writers(&rules);
    let stands = config
        .as_ref()
        .map(|config| config.to_string().into_bytes())
        == facts.live;
    Plan {
        stage: match () {
            () if config.is_none() => Stage::Plain,
            () if learning => Stage::Learning,
            () if !stands || !facts.rolled_out => Stage::RollingOut,
            () if !done => Stage::Rewriting,
            () => Stage::Settled,
        },
        rewritten: facts.rewritten.clone().filter(|mark| *mark == writers),
        writers,
        config,
    }
}

/// The next rules, and whether some provider is to write that does not yet.
fn next(spec: &ControlPlane, facts: &Facts, live: &Rules, done: bool) -> (Rules, bool) {
    let wanted = spec.encryption.as_ref();
    let named = wanted.map_or(&[][..], |wanted| &wanted.resources);
    let (mut rules, mut learning) = (Rules::new(), false);
    for resource in live.keys().chain(named) {
        let held = live
            .get(resource)
            .cloned()
            .unwrap_or_else(|| vec![identity()]);
        let writer = writer(wanted, resource, &facts.keys);
        let next = step(&held, &writer, facts, done);
        learning |= next
            .first()
            .is_none_or(|first| mark(first) != mark(&writer));
        rules.insert(resource.clone(), next);
    }
    // What is plain in the store needs no rule.
    rules.retain(|resource, next| !done || named.contains(resource) || *next != [identity()]);
    (rules, learning)
}

/// What stands for the providers that write, and changes when one of them does.
fn writers(rules: &Rules) -> String {
    let first = rules.iter().map(|(resource, providers)| {
        let mark = providers.first().and_then(mark);
        json!([resource, mark])
    });
    content::of_value(&first.collect())
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
        let entry =
            |key: &Key| json!({ "name": key.name, "secret": ByteString(key.secret.clone()) });
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
fn step(held: &[Value], writer: &Value, facts: &Facts, done: bool) -> Vec<Value> {
    let writes_already = held
        .first()
        .is_some_and(|first| mark(first) == mark(writer));
    let known = held.iter().any(|provider| reads(provider, writer));
    let first = facts.fresh || writes_already || (known && facts.rolled_out);
    if !first && known {
        // A key service may have moved, which must not wait for pods that cannot reach it.
        let current = |provider: &Value| match mark(provider) {
            Some(("kms", _)) if reads(provider, writer) => writer.clone(),
            _ => provider.clone(),
        };
        return held.iter().map(current).collect();
    }
    let mut next = Vec::new();
    if !first {
        next.extend(held.first().cloned());
    }
    next.push(writer.clone());
    // Once everything is written by the one that writes, nobody else has anything to read.
    let readers = if writes_already && done { &[] } else { held };
    for provider in readers {
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

/// The resources that a configuration speaks about.
pub fn resources_of(config: &[u8]) -> Vec<String> {
    read(config).into_keys().collect()
}

/// The keys in a configuration, those of what writes first: they are what is left when their own Secret is lost.
pub fn keys_of(config: &[u8]) -> Vec<Key> {
    let mut found: Vec<Key> = Vec::new();
    for provider in read(config).values().flatten() {
        let bodies = parts(provider).map(|(_, body)| body);
        for entry in bodies.into_iter().flat_map(keys) {
            let name = entry.get("name").and_then(Value::as_str);
            let secret = entry
                .get("secret")
                .and_then(|text| serde_json::from_value::<ByteString>(text.clone()).ok());
            let (Some(name), Some(secret)) = (name, secret) else {
                continue;
            };
            if found.iter().all(|key| key.name != name) {
                found.push(Key {
                    name: name.to_owned(),
                    secret: secret.0,
                });
            }
        }
    }
    found
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
