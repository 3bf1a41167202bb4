//! A real API server accepts the objects, and hands them back in a way that is not mistaken for drift: a
//! difference would be written again and again.

use butler_runtime::drift;
use butler_steward::{
    spec::ControlPlane,
    workload::{Inputs, objects},
};
use butler_testkit::Server;
use serde_json::{Value, json};

use crate::{
    golden::text,
    stage::{endpoint, everything, inputs, inputs_with_override, plane},
};

async fn comes_back_as_it_was_sent(spec: &ControlPlane, inputs: &Inputs) {
    let server = Server::shared().await;
    let namespace = server.namespace("workload").await;
    let text = text(&objects(spec, &endpoint(spec), inputs));
    let text = text.replace(
        "namespace: team-a",
        &format!("namespace: {}", namespace.name()),
    );
    let live = namespace.apply_yaml(&text).await;
    let planned: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(live.len(), planned.len());
    for (planned, live) in planned.iter().zip(&live) {
        let live = serde_json::to_value(live).unwrap();
        assert!(drift::stands_in(planned, &live), "{planned}\n\n{live}");
    }
}

#[tokio::test]
async fn a_plain_control_plane_is_taken() {
    let spec = plane(&json!({}));
    comes_back_as_it_was_sent(&spec, &inputs(&spec)).await;
}

#[tokio::test]
async fn a_control_plane_with_everything_turned_on_is_taken() {
    let spec = everything();
    comes_back_as_it_was_sent(&spec, &inputs_with_override(&spec)).await;
}

#[tokio::test]
async fn a_control_plane_on_a_node_port_is_taken() {
    let spec = plane(&json!({"spec": {
        "controlPlane": {"service": {"serviceType": "NodePort"}},
        "networkProfile": {"address": "10.0.0.5"},
        "addons": {"konnectivity": {}},
    }}));
    comes_back_as_it_was_sent(&spec, &inputs(&spec)).await;
}
