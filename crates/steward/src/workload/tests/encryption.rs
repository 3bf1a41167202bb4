//! No step of a change of keys makes an object unreadable for a pod that runs.

use serde_json::{Value, json};

use super::super::encryption::{Facts, Key, Plan, Stage, config, plan};
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
        ..Facts::default()
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
        ..Facts::default()
    };
    let config = config(&spec(&json!({})), &facts).unwrap();
    assert_eq!(short(&config, "secrets"), ["identity", "secretbox[a]"]);
}

/// A control plane whose every step is carried out at once.
struct Run {
    facts: Facts,
    seen: Vec<(Stage, Vec<String>)>,
}

impl Run {
    fn new(live: Option<Value>, rewritten: bool) -> Self {
        let mut facts = Facts {
            live: live.map(|live| live.to_string().into_bytes()),
            rolled_out: true,
            ..Facts::default()
        };
        if rewritten {
            let held = true;
            let standing = Facts {
                held,
                ..facts.clone()
            };
            facts.rewritten = Some(plan(&plane(&json!({})), &standing).writers);
        }
        Self {
            facts,
            seen: Vec::new(),
        }
    }

    /// Until nothing changes any more; each stage once, with what it leads to.
    fn finished(mut self, spec: &ControlPlane, keys: &[&str]) -> Self {
        self.facts.keys = keys.iter().map(|name| key(name)).collect();
        for _ in 0..20 {
            let Plan {
                config,
                writers,
                rewritten,
                stage,
            } = plan(spec, &self.facts);
            let text = config.as_ref().map(|config| short(config, "secrets"));
            self.seen.push((stage, text.unwrap_or_default()));
            let live = config.map(|config| config.to_string().into_bytes());
            if stage == Stage::Rewriting {
                self.facts.rewritten = Some(writers);
            } else if live == self.facts.live && self.facts.rolled_out {
                return self;
            } else if live == self.facts.live {
                self.facts.rolled_out = true;
            } else {
                self.facts.rolled_out = false;
                self.facts.rewritten = rewritten;
                self.facts.live = live;
            }
        }
        panic!("it does not come to rest: {:?}", self.seen);
    }

    fn steps(&self) -> Vec<(Stage, Vec<&str>)> {
        let mut steps: Vec<(Stage, Vec<&str>)> = Vec::new();
        for (stage, text) in &self.seen {
            let step = (*stage, text.iter().map(String::as_str).collect());
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
        steps
    }
}

#[test]
fn a_rotation_goes_through_all_its_stages_and_the_old_key_goes_last() {
    let on = spec(&json!({}));
    let settled = Run::new(None, false).finished(&on, &["b"]);
    assert_eq!(
        settled.steps(),
        [
            (Stage::Learning, vec!["identity", "secretbox[b]"]),
            (Stage::RollingOut, vec!["secretbox[b]", "identity"]),
            (Stage::Rewriting, vec!["secretbox[b]", "identity"]),
            (Stage::Settled, vec!["secretbox[b]", "identity"]),
        ]
    );
    let live = serde_json::from_slice(settled.facts.live.as_deref().unwrap()).unwrap();
    let rotated = Run::new(Some(live), true).finished(&on, &["a"]);
    assert_eq!(
        rotated.steps(),
        [
            (
                Stage::Learning,
                vec!["secretbox[b]", "secretbox[a]", "identity"]
            ),
            (
                Stage::RollingOut,
                vec!["secretbox[a]", "secretbox[b]", "identity"]
            ),
            (
                Stage::Rewriting,
                vec!["secretbox[a]", "secretbox[b]", "identity"]
            ),
            (Stage::RollingOut, vec!["secretbox[a]", "identity"]),
            (Stage::Settled, vec!["secretbox[a]", "identity"]),
        ]
    );
}

#[test]
fn turning_it_off_decrypts_before_the_keys_go() {
    let on = Run::new(None, false).finished(&spec(&json!({})), &["a"]);
    let live = serde_json::from_slice(on.facts.live.as_deref().unwrap()).unwrap();
    let off = Run::new(Some(live), true).finished(&plane(&json!({})), &[]);
    assert_eq!(
        off.steps(),
        [
            (Stage::RollingOut, vec!["identity", "secretbox[a]"]),
            (Stage::Rewriting, vec!["identity", "secretbox[a]"]),
            (Stage::Plain, vec![]),
        ]
    );
}

#[test]
fn a_pass_that_ended_half_way_is_repeated_and_goes_no_further() {
    // Written, but no pod has it yet: whatever is to write next waits for them.
    let on = spec(&json!({}));
    let learnt = next(&on, &["a"], None, true);
    for wanted in [spec(&json!({})), spec(&json!({"provider": "aesgcm"}))] {
        let again = next(&wanted, &["a"], Some(&learnt), false);
        assert_eq!(short(&again, "secrets")[0], "identity");
    }
}

#[test]
fn another_writer_makes_void_what_was_written_once_more() {
    let on = Run::new(None, false).finished(&spec(&json!({})), &["a"]);
    let facts = Facts {
        keys: vec![],
        ..on.facts
    };
    let off = plan(&plane(&json!({})), &facts);
    assert!(facts.rewritten.is_some());
    assert_eq!(off.rewritten, None);
}

#[test]
fn without_keys_everything_stays_as_it_is() {
    let on = Run::new(None, false).finished(&spec(&json!({})), &["a"]);
    let facts = Facts {
        keys: vec![],
        held: true,
        ..on.facts
    };
    let held = plan(&spec(&json!({})), &facts);
    assert_eq!(
        held.config.unwrap().to_string().into_bytes(),
        facts.live.unwrap()
    );
    assert_eq!(held.stage, Stage::Settled);
    let none = plan(
        &spec(&json!({})),
        &Facts {
            held: true,
            ..Facts::default()
        },
    );
    assert_eq!(none.config, None);
}

#[test]
fn a_key_service_that_moved_is_followed_even_if_no_pod_could_reach_it() {
    let kms = |socket: &str| {
        spec(&json!({"provider": "kms", "kms": {"name": "vault", "endpoint": socket}}))
    };
    let first = next(&kms("unix:///wrong.sock"), &[], None, true);
    let second = next(&kms("unix:///right.sock"), &[], Some(&first), false);
    assert_eq!(short(&second, "secrets"), ["identity", "kms"]);
    assert!(second.to_string().contains("right.sock"), "{second}");
    assert!(!second.to_string().contains("wrong.sock"), "{second}");
}
