//! `CoreDNS`, the tenant's name service.
//!
//! The `Corefile` is ours and goes back to what it was when it is edited. A tenant changes its name service in a
//! `ConfigMap` of its own, `kube-system/coredns-custom`: keys that end in `.override` are read into our server block, keys
//! that end in `.server` beside it. The number of replicas is a first value: a tenant may scale.

use serde_json::{Map, Value, json};

use super::{Kind, TenantObject, rbac};
use crate::tenant::{
    images,
    settings::{AddonImage, TenantSettings},
};

/// The tenant's own additions.
const CUSTOM: &str = "coredns-custom";
/// Files without content beside them: `CoreDNS` warns twice a minute of an import that finds no file.
const EMPTY: [&str; 2] = ["none.override", "none.server"];
/// A folder of its own: a folder inside of the read-only one of the `Corefile` could not be mounted.
const CUSTOM_FOLDER: &str = "/etc/coredns-custom";

pub(super) fn objects(settings: &TenantSettings, image: &AddonImage) -> Vec<TenantObject> {
    let image = images::core_dns(&settings.registry, settings.version, image);
    vec![
        TenantObject::system(Kind::ServiceAccount, "coredns"),
        cluster_role(),
        rbac::cluster_binding(
            "system:coredns",
            "system:coredns",
            &[rbac::service_account("coredns")],
        ),
        config_map(&settings.cluster_domain),
        deployment(&image),
        service(settings),
    ]
}

fn cluster_role() -> TenantObject {
    let read = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["list", "watch"] });
    let core = read("", &["endpoints", "services", "pods", "namespaces"]);
    let slices = read("discovery.k8s.io", &["endpointslices"]);
    TenantObject::new(Kind::ClusterRole, None, "system:coredns")
        .with("rules", json!([core, slices]))
}

fn config_map(domain: &str) -> TenantObject {
    let empty = EMPTY.map(|file| {
        (
            file.to_owned(),
            Value::from("# See the ConfigMap coredns-custom.\n"),
        )
    });
    let mut data = Map::from_iter(empty);
    data.insert("Corefile".to_owned(), corefile(domain).into());
    TenantObject::system(Kind::ConfigMap, "coredns").with("data", data.into())
}

/// Answers for the cluster's own names are not cached, so that a Service that appears is found at once.
fn corefile(domain: &str) -> String {
    let lines = [
        ".:53 {",
        "    errors",
        "    health {",
        "       lameduck 5s",
        "    }",
        "    ready",
        &format!("    kubernetes {domain} in-addr.arpa ip6.arpa {{"),
        "       pods insecure",
        "       fallthrough in-addr.arpa ip6.arpa",
        "       ttl 30",
        "    }",
        "    prometheus :9153",
        "    forward . /etc/resolv.conf {",
        "       max_concurrent 1000",
        "    }",
        "    cache 30 {",
        &format!("       disable success {domain}"),
        &format!("       disable denial {domain}"),
        "    }",
        "    loop",
        "    reload",
        "    loadbalance",
        &format!("    import {CUSTOM_FOLDER}/*.override"),
        "}",
        &format!("import {CUSTOM_FOLDER}/*.server"),
        "",
    ];
    lines.join("\n")
}

fn deployment(image: &str) -> TenantObject {
    let labels = json!({ "k8s-app": "kube-dns" });
    TenantObject::system(Kind::Deployment, "coredns")
        .label("k8s-app", "kube-dns")
        .keeping(&["/spec/replicas"])
        .with(
            "spec",
            json!({
                "replicas": 2,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod(image) },
            }),
        )
}

fn pod(image: &str) -> Value {
    let other_replicas = json!([{ "key": "k8s-app", "operator": "In", "values": ["kube-dns"] }]);
    let elsewhere = json!({
        "labelSelector": { "matchExpressions": other_replicas },
        "topologyKey": "kubernetes.io/hostname",
    });
    let apart = json!([{ "weight": 100, "podAffinityTerm": elsewhere }]);
    let empty = EMPTY.map(|file| json!({ "key": file, "path": file }));
    json!({
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": "coredns",
        // Its own questions go to the node's resolver: it cannot ask itself.
        "dnsPolicy": "Default",
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": apart } },
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": [
            { "key": "CriticalAddonsOnly", "operator": "Exists" },
            { "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" },
        ],
        "containers": [container(image)],
        "volumes": [
            { "name": "config-volume", "configMap": {
                "name": "coredns",
                "items": [{ "key": "Corefile", "path": "Corefile" }],
            }},
            { "name": "custom-config-volume", "projected": { "sources": [
                { "configMap": { "name": "coredns", "items": empty } },
                { "configMap": { "name": CUSTOM, "optional": true } },
            ]}},
        ],
    })
}

fn container(image: &str) -> Value {
    let port = |name, number, protocol| json!({ "name": name, "containerPort": number, "protocol": protocol });
    json!({
        "name": "coredns",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": { "limits": { "memory": "170Mi" }, "requests": { "cpu": "100m", "memory": "70Mi" } },
        "ports": [
            port("dns", 53, "UDP"),
            port("dns-tcp", 53, "TCP"),
            port("metrics", 9153, "TCP"),
            port("liveness-probe", 8080, "TCP"),
            port("readiness-probe", 8181, "TCP"),
        ],
        "livenessProbe": {
            "httpGet": { "path": "/health", "port": "liveness-probe", "scheme": "HTTP" },
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "successThreshold": 1,
            "failureThreshold": 5,
        },
        // A pod mostly fails the first question, because it knows no Service yet. It is asked again soon, so that a new
        // cluster does not wait ten seconds for the second; it is given up after half a minute as usual.
        "readinessProbe": {
            "httpGet": { "path": "/ready", "port": "readiness-probe", "scheme": "HTTP" },
            "periodSeconds": 2,
            "failureThreshold": 15,
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [
            { "name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true },
            { "name": "custom-config-volume", "mountPath": CUSTOM_FOLDER, "readOnly": true },
        ],
    })
}

/// A Service has one address of each family; more addresses of one family only reach the kubelets' configuration.
fn service(settings: &TenantSettings) -> TenantObject {
    let port = |name, number, protocol| json!({ "name": name, "port": number, "targetPort": number, "protocol": protocol });
    let addresses = settings.dns_addresses();
    let first = addresses.first();
    let other = first.and_then(|first| {
        addresses
            .iter()
            .find(|other| other.is_ipv4() != first.is_ipv4())
    });
    let mut spec = json!({
        "clusterIP": first,
        "clusterIPs": first.into_iter().chain(other).collect::<Vec<_>>(),
        "selector": { "k8s-app": "kube-dns" },
        "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
    });
    if other.is_some() {
        super::set(&mut spec, "ipFamilyPolicy", "RequireDualStack".into());
    }
    TenantObject::system(Kind::Service, "kube-dns")
        .label("k8s-app", "kube-dns")
        .label("kubernetes.io/cluster-service", "true")
        .label("kubernetes.io/name", "CoreDNS")
        .annotation("prometheus.io/port", "9153")
        .annotation("prometheus.io/scrape", "true")
        .with("spec", spec)
}
