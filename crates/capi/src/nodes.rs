//! Nodes that nobody gave the id of their machine.
//!
//! Cluster API knows a Node by `spec.providerID`. Where neither the kubelet nor a cloud controller sets it, the
//! machine never counts as running and every rollout stops at it. A kubelet can only be told an id by cloud-init, which
//! fills it in for each machine: what the other operating systems are told is one text for all machines of a pool.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;

use crate::{
    observe::{MachineState, Observed},
    spec::TenantSpec,
};

/// How soon Nodes are looked for again while machines wait for theirs.
pub(crate) const LOOK: SignedDuration = SignedDuration::from_secs(10);

/// Whether some machine runs and has no Node, and nobody else is to give its Node an id.
pub fn are_awaited(spec: &TenantSpec, observed: &Observed) -> bool {
    let serves = observed.control_plane.as_ref();
    let serves = serves.is_some_and(|held| held.initialized && !held.ending);
    let waits = |machine: &MachineState| {
        !machine.ending && machine.node.is_none() && machine.provider_id.is_some()
    };
    let by_others = spec.infrastructure.is_prepared() || spec.waits_for_cloud_controller();
    serves && !by_others && observed.machines.iter().any(waits)
}

/// A Node, as far as its id matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// The id it has.
    pub provider_id: Option<String>,
    /// Its addresses.
    pub addresses: BTreeSet<String>,
}

impl From<Node> for NodeState {
    fn from(node: Node) -> Self {
        let addresses = node.status.and_then(|status| status.addresses);
        let addresses = addresses.into_iter().flatten();
        let id = node.spec.and_then(|spec| spec.provider_id);
        Self {
            name: node.metadata.name.unwrap_or_default(),
            provider_id: id.filter(|id| !id.is_empty()),
            addresses: addresses.map(|it| it.address).collect(),
        }
    }
}

/// The Nodes to give an id, each with the id: those without one that share an address with exactly one machine.
///
/// A machine on its way out may have given its address back already, so it does not count.
pub fn missing_provider_ids(
    nodes: &[NodeState],
    machines: &[MachineState],
) -> Vec<(String, String)> {
    let live: Vec<&MachineState> = machines.iter().filter(|machine| !machine.ending).collect();
    let nameless = nodes.iter().filter(|node| node.provider_id.is_none());
    nameless
        .filter_map(|node| {
            let mut same = live
                .iter()
                .filter(|machine| !machine.addresses.is_disjoint(&node.addresses));
            let (machine, second) = (same.next()?, same.next());
            let id = machine.provider_id.clone().filter(|_| second.is_none())?;
            Some((node.name.clone(), id))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, address: &str, ending: bool) -> MachineState {
        MachineState {
            name: name.to_owned(),
            pool: "workers".to_owned(),
            version: None,
            node: None,
            provider_id: Some(format!("nutanix://{name}")),
            addresses: BTreeSet::from([address.to_owned()]),
            ending,
            message: None,
            obstacle: None,
        }
    }

    fn node(name: &str, address: &str) -> NodeState {
        NodeState {
            name: name.to_owned(),
            provider_id: None,
            addresses: BTreeSet::from([address.to_owned(), name.to_owned()]),
        }
    }

    #[test]
    fn a_node_gets_the_id_of_the_one_machine_with_its_address() {
        let machines = [
            machine("a", "10.0.0.1", false),
            machine("old", "10.0.0.1", true),
        ];
        let ids = missing_provider_ids(&[node("n", "10.0.0.1"), node("m", "10.0.0.2")], &machines);
        assert_eq!(ids, [("n".to_owned(), "nutanix://a".to_owned())]);
    }

    #[test]
    fn two_machines_with_one_address_are_left_to_people() {
        let machines = [
            machine("a", "10.0.0.1", false),
            machine("b", "10.0.0.1", false),
        ];
        assert!(missing_provider_ids(&[node("n", "10.0.0.1")], &machines).is_empty());
    }

    #[test]
    fn a_node_is_read_with_all_its_addresses_and_an_empty_id_is_none() {
        let written = serde_json::json!({
            "metadata": {"name": "n"}, "spec": {"providerID": ""},
            "status": {"addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"},
            ]},
        });
        let read: Node = serde_json::from_value(written).unwrap();
        assert_eq!(NodeState::from(read), node("n", "10.0.0.1"));
    }

    #[test]
    fn an_id_that_is_there_is_never_changed() {
        let mut held = node("n", "10.0.0.1");
        held.provider_id = Some("other".to_owned());
        assert!(missing_provider_ids(&[held], &[machine("a", "10.0.0.1", false)]).is_empty());
    }
}
