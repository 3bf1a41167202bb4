//! The `TenantAddon` of each addon that a cluster wants.

use std::collections::BTreeMap;

use butler_addons::values::lay_over;
use butler_api::{butler::tenant_cluster::ManagementMode, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::{Role, Wanted, version};
use crate::{
    object::{Foreign, Object},
    observe::Observed,
    spec::{Os, TenantSpec},
};

/// What Cilium is told where nobody says otherwise.
const KUBE_PROXY_REPLACEMENT: &str = "kubeProxyReplacement";

/// Whether a pod network does what kube-proxy does.
pub(super) fn replaces_kube_proxy(cni: &Wanted) -> bool {
    let said = cni.values.get(KUBE_PROXY_REPLACEMENT);
    // Older charts have words for it.
    said.is_none_or(|said| *said == Value::Bool(true) || *said == json!("true"))
}

/// Whether kube-proxy is needed: not where the pod network does its work. A network that Butler does not install takes
/// its place only once it is there, as one that was installed before Butler came to look on.
pub(crate) fn needs_kube_proxy(spec: &TenantSpec, observed: &Observed) -> bool {
    let addons = &spec.addons;
    let mut networks = observed.addons.values();
    let is_there =
        networks.any(|held| held.ours && held.role == Role::Cni.as_str() && held.version.is_some());
    let comes = addons.mode != ManagementMode::Observe;
    !(addons.replaces_kube_proxy && (comes || is_there))
}

/// The addons, once there is something to install them on: before a machine has joined none of them could become
/// healthy. Those that stand are always written, so that a later change reaches them.
pub(crate) fn objects(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> Vec<Object> {
    let endpoint = observed.control_plane.as_ref();
    let endpoint = endpoint.filter(|held| held.initialized);
    let Some(endpoint) = endpoint.and_then(|held| held.endpoint.as_deref()) else {
        return Vec::new();
    };
    let has_nodes = observed.machines.iter().any(|it| it.node.is_some());
    let wanted = spec.addons.wanted.iter().filter(|wanted| {
        let held = observed.addons.get(&spec.identity.addon(wanted.addon));
        held.map_or(has_nodes, |held| held.ours && !held.ending)
    });
    wanted
        .map(|wanted| {
            let (version, _) = version::choose(spec, observed, wanted, now);
            object(spec, observed, wanted, version, endpoint)
        })
        .collect()
}

fn object(
    spec: &TenantSpec,
    observed: &Observed,
    wanted: &Wanted,
    version: Option<String>,
    endpoint: &str,
) -> Object {
    let identity = &spec.identity;
    let mut labels = identity.labels();
    labels.insert(
        names::ADDON_ROLE.to_owned(),
        wanted.role.as_str().to_owned(),
    );
    let owner = OwnerReference {
        api_version: "butler.butlerlabs.dev/v1alpha1".to_owned(),
        kind: "TenantCluster".to_owned(),
        name: identity.name.to_string(),
        uid: identity.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let mut body = json!({
        "clusterRef": {"name": identity.name.as_str()},
        "addon": wanted.addon,
    });
    let mut values = values(spec, wanted, endpoint);
    if !wanted.values.is_null() {
        lay_over(&mut values, &wanted.values);
    }
    let needs: Vec<Value> = needs(spec, wanted.role)
        .map(|other| json!({"name": identity.addon(other.addon)}))
        .collect();
    let optional = [
        ("version", version.map(Value::from)),
        ("values", (values != json!({})).then_some(values)),
        (
            "valuesFrom",
            (!wanted.values_from.is_empty()).then(|| json!(wanted.values_from)),
        ),
        ("dependsOn", (!needs.is_empty()).then_some(needs.into())),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            lay_over(&mut body, &json!({ key: value }));
        }
    }
    // Only what is said here is ours: people may pause an addon or give it more time.
    Object::Addon(Box::new(Foreign {
        api_version: "butler.butlerlabs.dev/v1alpha1".to_owned(),
        kind: "TenantAddon".to_owned(),
        metadata: ObjectMeta {
            name: Some(identity.addon(wanted.addon)),
            namespace: Some(identity.namespace.clone()),
            labels: Some(labels),
            annotations: annotations(spec, observed, wanted),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: body,
    }))
}

/// Those that have to work before one of this role.
pub(super) fn needs(spec: &TenantSpec, role: Role) -> impl Iterator<Item = &Wanted> {
    let others = spec.addons.wanted.iter();
    others.filter(move |other| role.needs().contains(&other.role))
}

/// The addresses that a load balancer may give out.
fn annotations(
    spec: &TenantSpec,
    observed: &Observed,
    wanted: &Wanted,
) -> Option<BTreeMap<String, String>> {
    if wanted.role != Role::LoadBalancer {
        return None;
    }
    let ranges = match &spec.network.load_balancer_range {
        Some(own) => own.clone(),
        None => observed.inputs.load_balancer_ranges.join(","),
    };
    Some(BTreeMap::from([(names::ADDRESS_RANGES.to_owned(), ranges)]))
}

/// What only the cluster knows.
fn values(spec: &TenantSpec, wanted: &Wanted, endpoint: &str) -> Value {
    if wanted.addon != "cilium" {
        return json!({});
    }
    let is_ipv4 = spec.network.pods.is_ipv4();
    let mut values = json!({
        "ipam": {"mode": "kubernetes"},
        "ipv4": {"enabled": is_ipv4},
        "ipv6": {"enabled": !is_ipv4},
        KUBE_PROXY_REPLACEMENT: replaces_kube_proxy(wanted),
    });
    // Without kube-proxy nobody but Cilium serves the address of the API server inside the cluster.
    if let (true, Some((host, port))) = (replaces_kube_proxy(wanted), endpoint.rsplit_once(':')) {
        let host = host.trim_matches(['[', ']']);
        let place = json!({"k8sServiceHost": host, "k8sServicePort": port});
        lay_over(&mut values, &place);
    }
    let mut pools = spec.pools.iter();
    if pools.any(|pool| matches!(pool.os, Os::Talos(_))) {
        lay_over(&mut values, &on_talos());
    }
    values
}

/// Talos mounts cgroups itself, and lets nobody load modules.
fn on_talos() -> Value {
    let agent = [
        "CHOWN",
        "KILL",
        "NET_ADMIN",
        "NET_RAW",
        "IPC_LOCK",
        "SYS_ADMIN",
        "SYS_RESOURCE",
        "DAC_OVERRIDE",
        "FOWNER",
        "SETGID",
        "SETUID",
    ];
    json!({
        "cgroup": {"autoMount": {"enabled": false}, "hostRoot": "/sys/fs/cgroup"},
        "securityContext": {"capabilities": {
            "ciliumAgent": agent,
            "cleanCiliumState": ["NET_ADMIN", "SYS_ADMIN", "SYS_RESOURCE"],
        }},
    })
}
