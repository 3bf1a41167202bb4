//! When an addon that stands may go.

use std::collections::BTreeSet;

use butler_api::{butler::TenantCluster, names};

use super::AddonSet;

/// What becomes of an addon that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Stays,
    NeedsAgreement,
    Goes,
}

/// What becomes of the release of one of the cluster's own addons whose `TenantAddon` somebody deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is uninstalled: its user switched it off and agreed.
    Uninstall,
    /// It stays, and the `TenantAddon` that the cluster's plan writes anew takes it over.
    Renew,
    /// It stays, and nobody writes its `TenantAddon` anew: that waits for its user.
    Wait,
}

impl AddonSet {
    /// Whether an addon that stands may be removed: its user asked for that, and agreed to it by name.
    pub(crate) fn may_remove(&self, role: &str, addon: &str) -> Removal {
        let is_wanted = self.wanted.iter().any(|wanted| wanted.addon == addon);
        let is_decided = self.decided.iter().any(|other| other.as_str() == role);
        match (is_decided && !is_wanted, self.agreed.contains(addon)) {
            (false, _) => Removal::Stays,
            (true, false) => Removal::NeedsAgreement,
            (true, true) => Removal::Goes,
        }
    }

    /// What a deleted `TenantAddon` of the cluster's own means.
    pub fn deletion(&self, role: &str, addon: &str) -> Deletion {
        let mut wanted = self.wanted.iter();
        let is_wanted = wanted.any(|it| it.addon == addon && it.role.as_str() == role);
        match self.may_remove(role, addon) {
            Removal::Goes => Deletion::Uninstall,
            Removal::Stays | Removal::NeedsAgreement if is_wanted => Deletion::Renew,
            Removal::Stays | Removal::NeedsAgreement => Deletion::Wait,
        }
    }
}

/// Names in the catalogue of the addons that a cluster's user agreed to remove.
pub fn agreed(cluster: &TenantCluster) -> BTreeSet<String> {
    let annotations = cluster.metadata.annotations.as_ref();
    let agreed = annotations.and_then(|all| all.get(names::REMOVE_ADDONS));
    let agreed = agreed.map(String::as_str).unwrap_or_default();
    agreed
        .split(',')
        .map(|name| name.trim().to_owned())
        .collect()
}
