//! What a machine is called by whom. Pure.

use butler_api::infrastructure::LocalMachine;
use kube::ResourceExt;

use crate::runtime::MachineId;

/// The host knows a machine by the UID of its object: names come back, this does not.
pub(super) fn id(raw: &LocalMachine) -> MachineId {
    let uid = raw.uid().unwrap_or_default();
    uid.parse()
        .expect("the API server gives every object a UID of digits, letters and dashes")
}

/// `namespace/name`.
pub(super) fn instance(raw: &LocalMachine) -> String {
    format!("{}/{}", raw.namespace().unwrap_or_default(), raw.name_any())
}

pub(super) fn provider_id(raw: &LocalMachine) -> String {
    format!("local://{}", instance(raw))
}
