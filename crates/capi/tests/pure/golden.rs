//! What one cluster becomes on every provider and with every operating system, compared with files that people read.
//!
//! `UPDATE_GOLDEN=1 cargo test -p butler-capi --test pure golden` writes them again; the difference is then reviewed.

use std::{env, fs, path::PathBuf};

use butler_capi::{Plan, plan};
use serde_json::{Value, json};

use crate::common::{self, inputs, now, observed, providers, spec};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}"))
}

/// Compares a text with its file.
fn compare(name: &str, text: &str) {
    let path = file(name);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let golden = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("could not read {}: {error}", path.display()));
    assert!(
        golden == text,
        "{name} is not what it was; look at the difference, and write it again with UPDATE_GOLDEN=1 if it is right:\n{}",
        difference(&golden, text)
    );
}

/// The first lines that differ.
fn difference(old: &str, new: &str) -> String {
    let pairs = old.lines().zip(new.lines()).enumerate();
    let first = pairs.into_iter().find(|(_, (old, new))| old != new);
    first.map_or_else(
        || {
            format!(
                "{} lines became {}",
                old.lines().count(),
                new.lines().count()
            )
        },
        |(index, (old, new))| format!("line {}:\n- {old}\n+ {new}", index + 1),
    )
}

/// All objects of a plan as YAML, with what Secrets hold as text.
fn yaml(plan: &Plan) -> String {
    let mut documents = Vec::new();
    for object in &plan.objects {
        let mut value = object.to_value();
        if value["kind"] == "Secret" {
            reveal(&mut value);
        }
        documents.push(serde_saphyr::to_string(&value).unwrap());
    }
    documents.join("---\n")
}

fn reveal(secret: &mut Value) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let data = secret["data"].as_object().unwrap().clone();
    for (key, value) in data {
        let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
        secret["data"][&key] = json!(String::from_utf8(bytes).unwrap());
    }
}

#[test]
fn one_cluster_on_every_provider() {
    for provider in providers().keys() {
        let plan = plan(&spec(provider, &json!({})), &observed(), now());
        assert!(plan.waits.is_empty(), "{provider}: {:?}", plan.waits);
        compare(&format!("{provider}.yaml"), &yaml(&plan));
    }
}

/// Everything that machines can be told.
pub(crate) fn told(os: &str) -> Value {
    json!({
        "timeServers": ["time.example.com"],
        "workers": {
            "replicas": 2,
            "labels": {"tier": "web", "node-role.kubernetes.io/web": ""},
            "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}, {"key": "slow", "effect": "PreferNoSchedule"}],
            "machineTemplate": {"os": {"type": os, "imageRef": "default/image", "sshAuthorizedKey": "ssh-ed25519 AAAAC3Nz pool@example.com"}},
        },
        "nodeSettings": {
            "registryMirrors": [{"registry": "docker.io", "endpoints": ["https://mirror.example.com"]}],
            "proxy": {"http": "http://proxy.example.com:3128", "noProxy": ["example.com"]},
            "trustedCAs": [common::AUTHORITY],
            "sshAuthorizedKeys": ["ssh-ed25519 AAAAC3Nz ada@laptop"],
            "kubeletArgs": {"max-pods": "200"},
        },
    })
}

#[test]
fn every_operating_system_is_told_everything() {
    for os in ["rocky", "talos", "flatcar", "bottlerocket", "kairos"] {
        let plan = plan(&spec("harvester", &told(os)), &observed(), now());
        assert!(plan.waits.is_empty(), "{os}: {:?}", plan.waits);
        let bootstrap: Vec<_> = plan
            .objects
            .iter()
            .filter(|object| {
                let id = object.id();
                let is_kept = id.name.ends_with("-join") || id.name.ends_with("-trustd-creds");
                !is_kept && (id.kind == "KubeadmConfigTemplate" || id.kind == "Secret")
            })
            .cloned()
            .collect();
        assert_eq!(bootstrap.len(), 1, "{os}");
        let only = Plan {
            objects: bootstrap,
            ..plan
        };
        compare(&format!("os-{os}.yaml"), &yaml(&only));
    }
}

#[test]
fn a_plan_is_printed_for_people() {
    let mut fresh = observed();
    fresh.control_plane = None;
    fresh.inputs = inputs();
    let text = plan(&spec("proxmox", &json!({})), &fresh, now()).to_string();
    compare("plan.txt", &text);
}
