//! Addresses that the platform itself uses: load balancers, nodes and machines of the management cluster. They are seen,
//! shown, and never handed out.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr};

use butler_api::{
    butler::network_pool::InfrastructureAllocation,
    common::{LocalRef, NamespacedRef},
    types::Cidr,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Node, Service},
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use serde::{Deserialize, Serialize};

/// What is kept of a Service.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = Service)]
pub struct ServiceView {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Addresses that people chose.
    #[serde(default)]
    pub spec: ServiceAddresses,
    /// Addresses that a load balancer gave.
    #[serde(default)]
    pub status: ServiceState,
}

/// Addresses that people chose for a Service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAddresses {
    #[serde(rename = "externalIPs")]
    external_ips: Vec<String>,
}

/// Where a Service is served.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceState {
    load_balancer: Ingresses,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Ingresses {
    ingress: Vec<Ingress>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Ingress {
    ip: Option<String>,
}

/// What is kept of a Node.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = Node)]
pub struct NodeView {
    /// Name.
    pub metadata: ObjectMeta,
    /// Addresses.
    #[serde(default)]
    pub status: Addresses,
}

/// Addresses of a Node or Machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Addresses {
    addresses: Vec<Address>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Address {
    address: String,
}

/// What is kept of Cluster API's Machine.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct MachineView {
    /// Name and namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Addresses.
    #[serde(default)]
    pub status: Addresses,
}

impl Resource for MachineView {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Machine".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "cluster.x-k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta2".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "machines".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Addresses of a pool that were seen in use, each once, with everything that uses it. Sorted by address.
pub(crate) fn seen<'a>(
    pool: Cidr,
    services: impl Iterator<Item = &'a ServiceView>,
    nodes: impl Iterator<Item = &'a NodeView>,
    machines: impl Iterator<Item = &'a MachineView>,
) -> Vec<InfrastructureAllocation> {
    let mut found: BTreeMap<IpAddr, InfrastructureAllocation> = BTreeMap::new();
    for service in services {
        let given = service
            .status
            .load_balancer
            .ingress
            .iter()
            .filter_map(|ingress| ingress.ip.as_ref());
        for text in service.spec.external_ips.iter().chain(given) {
            if let Some(entry) = entry(&mut found, pool, text, "metallb") {
                entry.service_ref = Some(reference(service));
            }
        }
    }
    for node in nodes {
        for address in &node.status.addresses {
            if let Some(entry) = entry(&mut found, pool, &address.address, "node") {
                entry.node_ref = Some(LocalRef {
                    name: node.name_any(),
                });
            }
        }
    }
    for machine in machines {
        for address in &machine.status.addresses {
            if let Some(entry) = entry(&mut found, pool, &address.address, "machine") {
                entry.machine_ref = Some(reference(machine));
            }
        }
    }
    found.into_values().collect()
}

fn entry<'a>(
    found: &'a mut BTreeMap<IpAddr, InfrastructureAllocation>,
    pool: Cidr,
    text: &str,
    source: &str,
) -> Option<&'a mut InfrastructureAllocation> {
    let ip: IpAddr = text.parse().ok().filter(|ip| pool.contains(*ip))?;
    Some(found.entry(ip).or_insert_with(|| InfrastructureAllocation {
        ip: ip.to_string(),
        source: source.to_owned(),
        ..InfrastructureAllocation::default()
    }))
}

fn reference<K: Resource>(object: &K) -> NamespacedRef {
    NamespacedRef {
        name: object.name_any(),
        namespace: object.namespace().unwrap_or_default(),
    }
}
