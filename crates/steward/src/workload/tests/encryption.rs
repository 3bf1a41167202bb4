//! No step of a change of keys makes an object unreadable for a pod that runs.

use serde_json::{Value, json};

use super::super::encryption::{Facts, Key, config};
use crate::spec::{ControlPlane, fixture::plane};

fn key(name: &str) -> Key {
    Key {
        name: name.into(),
        secret: vec![name.as_bytes()[0]; 32],
    }
}

fn spec(encryption: &Value) -> ControlPlane {
    plane(&json!({"spec": {"kubernetes": {"encryption": encryption}}}))
}

/// Providers of a resource in short: kind and names of keys.
fn short(config: &Value, resource: &str) -> Vec<String> {
    let rules = config["resources"].as_array().unwrap();
    let rule = rules
        .iter()
        .find(|rule| rule["resources"][0] == resource)
        .unwrap();
    let provider = |provider: &Value| {
        let (kind, body) = provider.as_object().unwrap().iter().next().unwrap();
        let names = body["keys"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.map(|key| key["name"].as_str().unwrap()).collect();
        format!("{kind}{names:?}")
            .replace('"', "")
            .replace("[]", "")
    };
    rule["providers"]
        .as_array()
        .unwrap()
        .iter()
        .map(provider)
        .collect()
}

fn next(spec: &ControlPlane, keys: &[&str], live: Option<&Value>, rolled_out: bool) -> Value {
    let facts = Facts {
        keys: keys.iter().map(|name| key(name)).collect(),
        live: live.map(|live| live.to_string().into_bytes()),
        rolled_out,
        fresh: false,
    };
    config(spec, &facts).unwrap()
}

#[test]
fn a_new_control_plane_encrypts_at_once() {
    let facts = Facts {
        keys: vec![key("a")],
        fresh: true,
        ..Facts::default()
    };
    let config = config(&spec(&json!({})), &facts).unwrap();
    assert_eq!(short(&config, "secrets"), ["secretbox[a]", "identity"]);
}

#[test]
fn without_encryption_there_is_no_configuration() {
    assert_eq!(config(&plane(&json!({})), &Facts::default()), None);
}

#[test]
fn a_running_control_plane_learns_to_read_before_it_writes() {
    let spec = spec(&json!({}));
    let first = next(&spec, &["a"], None, true);
    assert_eq!(short(&first, "secrets"), ["identity", "secretbox[a]"]);
    let waiting = next(&spec, &["a"], Some(&first), false);
    assert_eq!(waiting, first);
    let second = next(&spec, &["a"], Some(&first), true);
    assert_eq!(short(&second, "secrets"), ["secretbox[a]", "identity"]);
    assert_eq!(next(&spec, &["a"], Some(&second), true), second);
}

#[test]
fn a_new_key_is_known_everywhere_before_it_is_used_and_the_old_one_stays() {
    let spec = spec(&json!({}));
    let mut live = next(&spec, &["b"], None, true);
    live = next(&spec, &["b"], Some(&live), true);
    let first = next(&spec, &["a", "b"], Some(&live), true);
    assert_eq!(
        short(&first, "secrets"),
        ["secretbox[b]", "secretbox[a, b]", "identity"]
    );
    let second = next(&spec, &["a", "b"], Some(&first), true);
    assert_eq!(short(&second, "secrets"), ["secretbox[a, b]", "identity"]);
    let forgotten = next(&spec, &["a"], Some(&second), true);
    assert_eq!(
        short(&forgotten, "secrets"),
        ["secretbox[a]", "secretbox[a, b]", "identity"]
    );
}

#[test]
fn encryption_that_is_turned_off_keeps_reading() {
    let live = json!({"resources": [
        {"resources": ["secrets"], "providers": next(&spec(&json!({})), &["a"], None, true)["resources"][0]["providers"]},
    ]});
    let on = next(&spec(&json!({})), &["a"], Some(&live), true);
    let off = next(&plane(&json!({})), &[], Some(&on), true);
    assert_eq!(short(&off, "secrets"), ["identity", "secretbox[a]"]);
    assert_eq!(next(&plane(&json!({})), &[], Some(&off), true), off);
}

#[test]
fn a_wildcard_keeps_what_was_named_before_encrypted() {
    let mut live = next(&spec(&json!({})), &["a"], None, true);
    live = next(&spec(&json!({})), &["a"], Some(&live), true);
    let wide = spec(&json!({"resources": ["*.*"]}));
    let config = next(&wide, &["a"], Some(&live), true);
    assert_eq!(short(&config, "secrets"), ["secretbox[a]", "identity"]);
    assert_eq!(short(&config, "*.*"), ["identity", "secretbox[a]"]);
    assert_eq!(config["resources"][1]["resources"], json!(["*.*"]));
}

#[test]
fn another_provider_follows_in_two_steps() {
    let mut live = next(&spec(&json!({})), &["a"], None, true);
    live = next(&spec(&json!({})), &["a"], Some(&live), true);
    let kms =
        spec(&json!({"provider": "kms", "kms": {"name": "vault", "endpoint": "unix:///k.sock"}}));
    let first = next(&kms, &[], Some(&live), true);
    assert_eq!(
        short(&first, "secrets"),
        ["secretbox[a]", "kms", "identity"]
    );
    let second = next(&kms, &[], Some(&first), true);
    assert_eq!(
        short(&second, "secrets"),
        ["kms", "secretbox[a]", "identity"]
    );
}

#[test]
fn a_spoilt_configuration_is_written_anew() {
    let facts = Facts {
        keys: vec![key("a")],
        live: Some(b"garbage".to_vec()),
        rolled_out: true,
        fresh: false,
    };
    let config = config(&spec(&json!({})), &facts).unwrap();
    assert_eq!(short(&config, "secrets"), ["identity", "secretbox[a]"]);
}
