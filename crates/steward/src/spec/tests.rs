//! What is read from a `TenantControlPlane`, and what is refused.

use serde_json::json;

use super::fixture::{plane, problem};

#[test]
fn the_smallest_spec_gets_the_defaults() {
    let plane = plane(&json!({}));
    assert_eq!(plane.version.to_string(), "v1.35.4");
    assert_eq!(plane.replicas, 2);
    assert_eq!(plane.network.port, 6443);
    assert_eq!(
        plane.network.dns_service_ips,
        ["10.96.0.10".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(plane.network.api_service_ip().to_string(), "10.96.0.1");
    assert!(!plane.is_asleep() && !plane.is_write_limited());
}

#[test]
fn a_version_may_be_written_without_its_letter() {
    let plane = plane(&json!({"spec": {"kubernetes": {"version": "1.34.4"}}}));
    assert_eq!(plane.version.to_string(), "v1.34.4");
}

#[test]
fn impossible_versions_are_refused_and_the_field_is_named() {
    for version in ["v1.99.0", "v2.35.0", "v1.20.3", "latest", "v1.35", ""] {
        let error = problem(&json!({"spec": {"kubernetes": {"version": version}}}));
        assert!(
            error.to_string().starts_with("spec.kubernetes.version"),
            "{error}"
        );
    }
}

#[test]
fn the_dns_address_of_an_ipv6_range_ends_in_ten() {
    let plane = plane(&json!({"spec": {"networkProfile": {
        "serviceCidr": "fd00:96::/112", "podCidr": "fd00:244::/48",
    }}}));
    assert_eq!(plane.network.dns_service_ips[0].to_string(), "fd00:96::10");
}

#[test]
fn networks_that_cannot_work_are_refused() {
    for (profile, field) in [
        (
            json!({"podCidr": "10.96.0.0/12"}),
            "spec.networkProfile.podCidr",
        ),
        (
            json!({"podCidr": "fd00::/48"}),
            "spec.networkProfile.podCidr",
        ),
        (
            json!({"podCidr": "10.244.0.0/25"}),
            "spec.networkProfile.podCidr",
        ),
        (
            json!({"serviceCidr": "10.96.0.0/30"}),
            "spec.networkProfile.serviceCidr",
        ),
        (
            json!({"serviceCidr": "172.0.0.0/11"}),
            "spec.networkProfile.serviceCidr",
        ),
        (
            json!({"serviceCidr": "10.96.3.1/16"}),
            "spec.networkProfile.serviceCidr",
        ),
        (
            json!({"dnsServiceIPs": ["10.97.0.10"]}),
            "spec.networkProfile.dnsServiceIPs[0]",
        ),
        (
            json!({"certSANs": ["a.b", "https://x"]}),
            "spec.networkProfile.certSANs[1]",
        ),
        (
            json!({"certSANs": ["10.0.0"]}),
            "spec.networkProfile.certSANs[0]",
        ),
        (json!({"address": "nowhere"}), "spec.networkProfile.address"),
        (json!({"port": 70000}), "spec.networkProfile.port"),
        (json!({"port": 10257}), "spec.networkProfile.port"),
        (
            json!({"loadBalancerSourceRanges": ["10.0.0.0/8", "x"]}),
            "spec.networkProfile.loadBalancerSourceRanges[1]",
        ),
    ] {
        let error = problem(&json!({"spec": {"networkProfile": profile}}));
        assert!(
            error.to_string().starts_with(&format!("{field} ")),
            "{error}"
        );
    }
}

#[test]
fn a_small_pod_range_is_fine_once_nodes_get_smaller_parts() {
    let plane = plane(&json!({"spec": {
        "networkProfile": {"podCidr": "10.244.0.0/25"},
        "controlPlane": {"deployment": {"extraArgs": {"controllerManager": ["--node-cidr-mask-size=28"]}}},
    }}));
    assert!(plane.controller_manager_flags.has("node-cidr-mask-size"));
}

#[test]
fn a_misspelt_field_of_a_container_is_named_instead_of_dropped() {
    let error = problem(
        &json!({"spec": {"controlPlane": {"deployment": {"additionalContainers": [
            {"name": "a", "image": "a"},
            {"name": "b", "image": "b", "ports": [{"containerPort": 1, "hostprt": 2}]},
        ]}}}}),
    );
    let at = "spec.controlPlane.deployment.additionalContainers[1].ports[0].hostprt ";
    assert!(error.to_string().starts_with(at), "{error}");
}

#[test]
fn a_fragment_of_the_wrong_type_is_named() {
    let error = problem(&json!({"spec": {"controlPlane": {"deployment": {
        "topologySpreadConstraints": [{"maxSkew": "one", "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
    }}}}));
    let at = "spec.controlPlane.deployment.topologySpreadConstraints[0] ";
    assert!(error.to_string().starts_with(at), "{error}");
}

#[test]
fn names_of_the_control_plane_itself_are_not_for_users() {
    for (part, value) in [
        (
            "additionalContainers",
            json!([{"name": "kube-apiserver", "image": "x"}]),
        ),
        (
            "additionalVolumes",
            json!([{"name": "etc-kubernetes-pki", "emptyDir": {}}]),
        ),
        (
            "additionalVolumeMounts",
            json!({"apiServer": [{"name": "x", "mountPath": "/etc/kubernetes/pki/"}]}),
        ),
    ] {
        let error = problem(&json!({"spec": {"controlPlane": {"deployment": {part: value}}}}));
        assert_eq!(error.reason(), "InvalidSpec");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn amounts_are_spelt_as_the_api_server_spells_them() {
    let plane = plane(&json!({"spec": {"controlPlane": {"deployment": {
        "resources": {"apiServer": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": 2}}},
        "additionalContainers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "0.25"}}}],
    }}}}));
    let amounts = plane.pods.resources.api_server.unwrap();
    let requests = amounts.requests.unwrap();
    assert_eq!(
        (requests["cpu"].0.as_str(), requests["memory"].0.as_str()),
        ("500m", "1Gi")
    );
    assert_eq!(amounts.limits.unwrap()["cpu"].0, "2");
    let resources = plane.pods.containers[0].resources.clone().unwrap();
    assert_eq!(resources.requests.unwrap()["cpu"].0, "250m");
}

#[test]
fn kubelet_patches_are_checked_one_by_one() {
    let error = problem(
        &json!({"spec": {"kubernetes": {"kubelet": {"configurationJSONPatches": [
            {"op": "add", "path": "/maxPods", "value": 50},
            {"op": "move", "path": "/a"},
        ]}}}}),
    );
    let at = "spec.kubernetes.kubelet.configurationJSONPatches[1] ";
    assert!(error.to_string().starts_with(at), "{error}");
}

#[test]
fn what_is_not_built_is_refused_in_words() {
    for (spec, field) in [
        (
            json!({"controlPlane": {"ingress": {"hostname": "a.example.com"}}}),
            "spec.controlPlane.ingress",
        ),
        (json!({"addons": {"tcpProxy": {}}}), "spec.addons.tcpProxy"),
    ] {
        let error = problem(&json!({"spec": spec}));
        assert_eq!(error.reason(), "NotSupported");
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

#[test]
fn ports_of_the_service_are_apart() {
    for (name, port) in [("kube-apiserver", 1), ("more", 6443)] {
        let error = problem(
            &json!({"spec": {"controlPlane": {"service": {"additionalPorts": [
                {"name": name, "port": port, "targetPort": 1},
            ]}}}}),
        );
        assert!(error.to_string().contains("additionalPorts[0]"), "{error}");
    }
    let same_number_other_protocol = json!({"spec": {"controlPlane": {"service": {"additionalPorts": [
        {"name": "more", "protocol": "UDP", "port": 6443, "targetPort": 1},
    ]}}}});
    assert_eq!(plane(&same_number_other_protocol).service.ports.len(), 1);
}
