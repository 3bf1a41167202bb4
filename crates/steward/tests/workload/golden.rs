//! The objects as text, so that a change to them is seen by whoever reviews it.
//!
//! `BUTLER_UPDATE_GOLDEN=1 cargo test -p butler-steward --test workload golden` writes them anew.

use std::{env, fs, net::IpAddr, path::PathBuf};

use butler_steward::{
    endpoint::{self, Balancer, Endpoint, Observed},
    spec::ControlPlane,
    workload::{Inputs, Objects, objects},
};
use serde::Serialize;
use serde_json::json;

use crate::stage::{endpoint, everything, inputs, inputs_with_override, observed, plane};

pub(crate) fn text(objects: &Objects) -> String {
    // No `..`: a new kind must be shown here.
    let Objects {
        config_maps,
        secrets,
        service,
        deployment,
        disruption_budget,
    } = objects;
    let mut text = String::new();
    for object in config_maps {
        add(&mut text, object);
    }
    for object in secrets {
        add(&mut text, object);
    }
    add(&mut text, service);
    add(&mut text, deployment);
    if let Some(object) = disruption_budget {
        add(&mut text, object);
    }
    text
}

fn add(text: &mut String, object: &impl Serialize) {
    text.push_str("---\n");
    // Through a value: its keys are in order.
    let value = serde_json::to_value(object).unwrap();
    text.push_str(&serde_saphyr::to_string(&value).unwrap());
}

fn compare(name: &str, spec: &ControlPlane, endpoint: &Endpoint, inputs: &Inputs) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/workload")
        .join(format!("{name}.yaml"));
    let made = text(&objects(spec, endpoint, inputs));
    if env::var_os("BUTLER_UPDATE_GOLDEN").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let held = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        held == made,
        "{} is no longer what is planned:\n{made}",
        file.display()
    );
}

#[test]
fn a_plain_control_plane() {
    let spec = plane(&json!({}));
    compare("plain", &spec, &endpoint(&spec), &inputs(&spec));
}

#[test]
fn a_control_plane_with_everything_turned_on() {
    let spec = everything();
    let inputs = inputs_with_override(&spec);
    compare("everything", &spec, &endpoint(&spec), &inputs);
}

#[test]
fn a_control_plane_that_is_asleep_keeps_its_service_and_has_no_budget() {
    let spec = plane(&json!({"spec": {"controlPlane": {"deployment": {"replicas": 0}}}}));
    compare("sleeping", &spec, &endpoint(&spec), &inputs(&spec));
}

#[test]
fn a_control_plane_on_a_node_port_listens_on_it() {
    let spec = plane(&json!({"spec": {
        "controlPlane": {"service": {"serviceType": "NodePort"}, "deployment": {"replicas": 1}},
        "networkProfile": {"address": "10.0.0.5", "allowAddressAsExternalIP": true},
    }}));
    compare("node-port", &spec, &endpoint(&spec), &inputs(&spec));
}

#[test]
fn a_control_plane_behind_a_load_balancer_with_a_host_name() {
    let spec = plane(&json!({}));
    let seen = Observed {
        balancer: vec![Balancer::Hostname("prod-1.elb.example.com".into())],
        resolved: vec![IpAddr::from([203, 0, 113, 4])],
        ..observed()
    };
    let endpoint = endpoint::resolve(&spec, &seen, "cluster.local").unwrap();
    compare("hostname", &spec, &endpoint, &inputs(&spec));
}
