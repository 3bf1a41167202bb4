//! Nodes that nobody gave the id of their machine.
//!
//! Cluster API knows a Node by `spec.providerID`. Where neither the kubelet nor a cloud controller sets it, the
//! machine never counts as running and every rollout stops at it.

use std::collections::BTreeSet;

use crate::observe::MachineState;

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
    fn an_id_that_is_there_is_never_changed() {
        let mut held = node("n", "10.0.0.1");
        held.provider_id = Some("other".to_owned());
        assert!(missing_provider_ids(&[held], &[machine("a", "10.0.0.1", false)]).is_empty());
    }
}
