//! Where clients are sent, for every kind of Service.

use serde_json::{Value, json};

use super::*;
use crate::spec::fixture::plane;

fn observed(service: &Value) -> Observed {
    Observed::of(&serde_json::from_value(service.clone()).unwrap())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn balanced(ingress: &Value) -> Observed {
    observed(&json!({
        "spec": {"clusterIPs": ["10.96.7.7"], "ports": [{"name": "kube-apiserver", "port": 6443, "nodePort": 31000}]},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
}

fn node_port(profile: &Value) -> ControlPlane {
    plane(&json!({"spec": {
        "controlPlane": {"service": {"serviceType": "NodePort"}},
        "networkProfile": profile,
    }}))
}

#[test]
fn a_load_balancer_is_waited_for_in_words() {
    let spec = plane(&json!({}));
    let pending = resolve(&spec, &balanced(&json!([])), "cluster.local").unwrap_err();
    assert_eq!(pending.reason, "LoadBalancerPending");
    assert!(pending.message.contains("prod"), "{}", pending.message);
}

#[test]
fn a_load_balancer_is_reached_by_its_address_and_the_port_of_the_spec() {
    let spec = plane(&json!({}));
    let seen = balanced(&json!([{"ip": "10.40.0.201"}]));
    let endpoint = resolve(&spec, &seen, "mgmt.example").unwrap();
    assert_eq!(endpoint.url(), "https://10.40.0.201:6443");
    assert_eq!(endpoint.advertise_address, ip("10.40.0.201"));
    assert_eq!(endpoint.service_url(), "https://prod.team-a.svc:6443");
    assert_eq!(endpoint.local_url(), "https://127.0.0.1:6443");
}

#[test]
fn names_of_both_clusters_follow_their_own_domains() {
    let spec = plane(&json!({"spec": {"networkProfile": {
        "clusterDomain": "tenant.example", "certSANs": ["api.example.com", "192.0.2.1"],
    }}}));
    let seen = balanced(&json!([{"ip": "10.40.0.201"}]));
    let endpoint = resolve(&spec, &seen, "mgmt.example").unwrap();
    let sans: Vec<String> = endpoint.sans.iter().map(ToString::to_string).collect();
    assert_eq!(
        sans,
        [
            "api.example.com",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.tenant.example",
            "localhost",
            "prod",
            "prod.team-a",
            "prod.team-a.svc",
            "prod.team-a.svc.mgmt.example",
            "10.40.0.201",
            "10.96.0.1",
            "10.96.7.7",
            "127.0.0.1",
            "192.0.2.1",
        ]
    );
}

#[test]
fn a_host_name_of_a_load_balancer_waits_for_an_address_to_advertise() {
    let spec = plane(&json!({}));
    let mut seen = balanced(&json!([{"hostname": "Prod-1.elb.example.com"}]));
    assert_eq!(seen.hostname(), Some("Prod-1.elb.example.com"));
    let waiting = resolve(&spec, &seen, "cluster.local").unwrap_err();
    assert_eq!(waiting.reason, "LoadBalancerUnresolved");

    seen.resolved = vec![ip("203.0.113.9"), ip("203.0.113.4")];
    let endpoint = resolve(&spec, &seen, "cluster.local").unwrap();
    assert_eq!(endpoint.authority(), "Prod-1.elb.example.com:6443");
    assert_eq!(endpoint.advertise_address, ip("203.0.113.4"));
    assert!(
        endpoint
            .sans
            .contains(&San::Dns("prod-1.elb.example.com".into()))
    );
}

#[test]
fn a_resolver_that_shuffles_its_answers_changes_nothing() {
    let spec = plane(&json!({}));
    let mut seen = balanced(&json!([{"hostname": "a.example.com"}]));
    seen.advertised = Some(ip("203.0.113.9"));
    seen.resolved = vec![ip("203.0.113.4"), ip("203.0.113.9")];
    let first = resolve(&spec, &seen, "cluster.local").unwrap();
    seen.resolved.reverse();
    assert_eq!(resolve(&spec, &seen, "cluster.local").unwrap(), first);
    assert_eq!(first.advertise_address, ip("203.0.113.9"));
}

#[test]
fn a_fixed_address_wins_over_what_the_load_balancer_gave() {
    let spec = plane(&json!({"spec": {"networkProfile": {"address": "198.51.100.5"}}}));
    let seen = balanced(&json!([{"ip": "10.40.0.201"}]));
    let endpoint = resolve(&spec, &seen, "cluster.local").unwrap();
    assert_eq!(endpoint.authority(), "198.51.100.5:6443");
    assert!(endpoint.sans.contains(&San::Ip(ip("10.40.0.201"))));
}

#[test]
fn a_node_port_needs_an_address() {
    let seen = balanced(&json!([]));
    let waiting = resolve(&node_port(&json!({})), &seen, "cluster.local").unwrap_err();
    assert_eq!(waiting.reason, "AddressNeeded");
}

#[test]
fn a_node_port_is_what_clients_dial_and_what_the_api_server_listens_on() {
    let seen = balanced(&json!([]));
    let spec = node_port(&json!({"address": "10.0.0.5"}));
    let endpoint = resolve(&spec, &seen, "cluster.local").unwrap();
    assert_eq!(endpoint.authority(), "10.0.0.5:31000");
    assert_eq!(endpoint.local_url(), "https://127.0.0.1:31000");
    assert_eq!(endpoint.service_port, 6443);

    let none = resolve(&spec, &Observed::default(), "cluster.local").unwrap_err();
    assert_eq!(none.reason, "NodePortPending");
}

#[test]
fn a_cluster_ip_is_its_own_endpoint() {
    let spec = plane(&json!({"spec": {"controlPlane": {"service": {"serviceType": "ClusterIP"}}}}));
    let seen = observed(&json!({"spec": {"clusterIPs": ["10.96.7.7"]}}));
    let endpoint = resolve(&spec, &seen, "cluster.local").unwrap();
    assert_eq!(endpoint.authority(), "10.96.7.7:6443");
    let none = resolve(&spec, &Observed::default(), "cluster.local").unwrap_err();
    assert_eq!(none.reason, "ClusterIPPending");
}

#[test]
fn the_family_of_the_tenant_decides_between_two_addresses() {
    let spec = plane(&json!({"spec": {"networkProfile": {
        "serviceCidr": "fd00:96::/112", "podCidr": "fd00:244::/48",
    }}}));
    let seen = balanced(&json!([{"ip": "10.40.0.201"}, {"ip": "fd00:40::201"}]));
    let endpoint = resolve(&spec, &seen, "cluster.local").unwrap();
    assert_eq!(endpoint.authority(), "[fd00:40::201]:6443");
}

#[test]
fn the_advertised_address_is_read_from_the_pods_that_run() {
    let running = |argument: &str| {
        let containers =
            json!([{"name": names::API_SERVER, "command": ["kube-apiserver", argument]}]);
        serde_json::from_value(json!({"spec": {
            "selector": {},
            "template": {"spec": {"containers": containers}},
        }}))
        .unwrap()
    };
    assert_eq!(
        advertised(&running("--advertise-address=203.0.113.9")),
        Some(ip("203.0.113.9"))
    );
    assert_eq!(advertised(&running("--advertise-address=garbage")), None);
    assert_eq!(advertised(&running("--secure-port=6443")), None);
}
