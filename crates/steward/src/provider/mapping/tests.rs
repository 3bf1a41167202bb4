//! What a control plane of a Cluster becomes, field by field.

use kube::Resource;
use serde_json::{Value, json};

use super::*;

fn mapped(spec: &Value, network: &Value) -> TenantControlPlane {
    mapped_over(spec, network, None)
}

fn mapped_over(
    spec: &Value,
    network: &Value,
    live: Option<&TenantControlPlane>,
) -> TenantControlPlane {
    let plane: StewardControlPlane = serde_json::from_value(json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
        "kind": "StewardControlPlane",
        "metadata": {
            "name": "blue", "namespace": "team", "uid": "1",
            "labels": {"tier": "gold"},
            "annotations": {
                "example.com/note": "kept",
                "steward.butlerlabs.dev/kubeconfig-secret-key": "admin.svc",
                "cluster.x-k8s.io/paused": "",
                "topology.cluster.x-k8s.io/dry-run": "",
                LAST_APPLIED: "{}",
            },
        },
        "spec": spec,
    }))
    .unwrap();
    let cluster = json!({"metadata": {"name": "sky"}, "spec": {"clusterNetwork": network}});
    let cluster: Cluster = serde_json::from_value(cluster).unwrap();
    let owner = plane.controller_owner_ref(&()).unwrap();
    tenant(&plane, &cluster, owner, live)
}

#[test]
fn the_network_of_the_cluster_reaches_the_control_plane() {
    let network = json!({
        "apiServerPort": 40443,
        "serviceDomain": "sky.example",
        "services": {"cidrBlocks": ["10.10.0.0/16", "fd00:10::/112"]},
        "pods": {"cidrBlocks": ["10.20.0.0/16"]},
    });
    let profile = mapped(&json!({"version": "v1.35.4"}), &network)
        .spec
        .network_profile;
    assert_eq!(profile.port, 40443);
    assert_eq!(profile.service_cidr, "10.10.0.0/16");
    assert_eq!(profile.pod_cidr, "10.20.0.0/16");
    assert_eq!(profile.cluster_domain, "sky.example");
}

#[test]
fn a_cluster_that_says_nothing_gets_the_defaults() {
    let plane = mapped(&json!({"version": "1.35.4"}), &json!({}));
    assert_eq!(plane.spec.network_profile, NetworkProfile::default());
    assert_eq!(plane.spec.kubernetes.version, "v1.35.4");
    let deployment = plane.spec.control_plane.deployment;
    assert_eq!(deployment, Deployment::default());
}

#[test]
fn an_ipv6_cluster_keeps_its_ranges_and_address() {
    let network = json!({
        "services": {"cidrBlocks": ["fd00:10::/112"]},
        "pods": {"cidrBlocks": ["fd00:20::/56"]},
    });
    let spec = json!({"version": "v1.35.4", "network": {"serviceAddress": "fd00::1"}});
    let profile = mapped(&spec, &network).spec.network_profile;
    assert_eq!(profile.service_cidr, "fd00:10::/112");
    assert_eq!(profile.pod_cidr, "fd00:20::/56");
    assert_eq!(profile.address.as_deref(), Some("fd00::1"));
}

#[test]
fn labels_and_annotations_go_along_except_what_others_keep_there() {
    let plane = mapped(&json!({"version": "v1.35.4"}), &json!({}));
    assert_eq!(plane.labels()["tier"], "gold");
    assert_eq!(plane.labels()[CLUSTER_NAME], "sky");
    let kept: Vec<&String> = plane.annotations().keys().collect();
    assert_eq!(
        kept,
        [
            "example.com/note",
            names::WORKED_ON_FOR,
            "steward.butlerlabs.dev/kubeconfig-secret-key"
        ]
    );
    assert_eq!(plane.annotations()[names::WORKED_ON_FOR], "1");
    assert_eq!(plane.owner_references()[0].kind, "StewardControlPlane");
}

#[test]
fn where_the_data_is_stays_in_the_spec_whatever_becomes_of_uids_and_status() {
    let (spec, network) = (json!({"version": "v1.35.4"}), json!({}));
    let first = mapped(&spec, &network);
    assert_eq!(first.spec.data_store, None, "the platform decides");
    assert_eq!(first.spec.data_store_schema.as_deref(), Some("steward-1"));
    assert_eq!(first.spec.data_store_username.as_deref(), Some("steward-1"));

    let mut live = first;
    live.spec.data_store_schema = Some("steward-elsewhere".to_owned());
    live.spec.data_store_username = None;
    live.status = serde_json::from_value(json!({"storage": {"dataStoreName": "default"}})).unwrap();
    let next = mapped_over(&spec, &network, Some(&live)).spec;
    assert_eq!(next.data_store.as_deref(), Some("default"));
    assert_eq!(next.data_store_schema.as_deref(), Some("steward-elsewhere"));
    assert_eq!(next.data_store_username, None, "it can never be added");

    live.spec.data_store = Some("default".to_owned());
    let other = json!({"version": "v1.35.4", "dataStoreName": "fast"});
    let next = mapped_over(&other, &network, Some(&live)).spec;
    assert_eq!(
        next.data_store.as_deref(),
        Some("default"),
        "data does not move"
    );
    live.status = None;
    let next = mapped_over(&other, &network, Some(&live)).spec;
    assert_eq!(
        next.data_store.as_deref(),
        Some("default"),
        "a copy that a move restored"
    );
    live.spec.data_store_schema = Some("steward-1".to_owned());
    let next = mapped_over(&other, &network, Some(&live)).spec;
    assert_eq!(
        next.data_store.as_deref(),
        Some("fast"),
        "nothing has a place yet"
    );
}

#[test]
fn settings_of_the_components_find_their_places() {
    let spec = json!({
        "version": "v1.35.4",
        "replicas": 3,
        "dataStoreName": "fast",
        "registry": "mirror.example.com/k8s",
        "apiServer": {"extraArgs": ["--profiling=false"], "containerImageName": "hardened-apiserver"},
        "scheduler": {"extraVolumeMounts": [{"name": "x", "mountPath": "/x"}]},
        "deployment": {"nodeSelector": {"pool": "control"}, "serviceAccountName": "runner"},
        "network": {
            "serviceType": "ClusterIP",
            "certSANs": ["api.example.com"],
            "dnsServiceIPs": ["10.96.0.99"],
            "ingress": {"hostname": "blue.example.com:8443"},
        },
        "addons": {"coreDNS": {"dnsServiceIPs": ["10.96.0.53"]}, "kubeProxy": {}},
    });
    let spec = mapped(&spec, &json!({})).spec;
    assert_eq!(spec.data_store.as_deref(), Some("fast"));
    let deployment = spec.control_plane.deployment;
    assert_eq!(deployment.replicas, 3);
    assert_eq!(
        deployment.registry_settings.registry,
        "mirror.example.com/k8s"
    );
    assert_eq!(
        deployment.registry_settings.api_server_image,
        "hardened-apiserver"
    );
    assert_eq!(
        deployment.registry_settings.scheduler_image,
        "kube-scheduler"
    );
    assert_eq!(
        deployment.extra_args.unwrap().api_server,
        ["--profiling=false"]
    );
    assert_eq!(
        deployment.additional_volume_mounts.unwrap().scheduler.len(),
        1
    );
    assert_eq!(deployment.service_account_name, "runner");
    assert_eq!(deployment.resources, None);
    let profile = spec.network_profile;
    assert_eq!(profile.cert_sans, ["api.example.com", "blue.example.com"]);
    assert_eq!(profile.dns_service_ips, ["10.96.0.53"]);
    let addons = spec.addons.unwrap();
    assert!(
        addons.core_dns.is_some() && addons.kube_proxy.is_some() && addons.konnectivity.is_none()
    );
}
