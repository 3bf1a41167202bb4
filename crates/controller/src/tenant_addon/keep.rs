//! Releases that outlive their `TenantAddon`: what belongs to a cluster goes only when its user switches it off and
//! agrees, and not because somebody deletes an object.

use butler_addons::{plan::World, record::Status, request::ReleaseId};
use butler_api::{
    butler::{TenantAddon, TenantCluster},
    names::{ADDON_ROLE, OWNER_UID, REMOVE_ADDONS},
};
use butler_capi::addons::{Deletion, agreed};
use butler_helm::look;
use butler_runtime::{controller::Wake, events::Note};
use kube::{Client, ResourceExt};

use super::{
    Controller, PassError,
    end::known_release,
    say::{self, Report},
};
use crate::tenant_cluster::sources::Sources;

/// What becomes of the release of an addon that is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is uninstalled.
    Goes,
    /// It stays for the addon that the cluster writes anew.
    Renewed,
    /// It stays until its user does what this says.
    Withheld(String),
}

impl Controller {
    pub(super) fn fate(&self, addon: &TenantAddon, cluster: &TenantCluster) -> Fate {
        let name = addon.spec.addon.clone().unwrap_or_default();
        let definition = self.definition(addon);
        let is_platform = definition.is_some_and(|definition| definition.spec.platform);
        let may_go = !is_platform || agreed(cluster).contains(&name);
        match own_role(addon, cluster.uid().as_deref()) {
            _ if cluster.metadata.deletion_timestamp.is_some() => Fate::Goes,
            None if may_go => Fate::Goes,
            None => Fate::Withheld(format!(
                "addon {name} belongs to the platform: annotate TenantCluster {} with {REMOVE_ADDONS}={name} to remove it",
                cluster.name_any()
            )),
            Some(role) => self.fate_of_own(cluster, role, &name),
        }
    }

    fn fate_of_own(&self, cluster: &TenantCluster, role: &str, addon: &str) -> Fate {
        let sources = match Sources::of(&self.feeds, cluster) {
            Ok(sources) => sources,
            Err((_, why)) => {
                return Fate::Withheld(format!("nobody can tell whether it is wanted: {why}"));
            }
        };
        match sources.spec.addons.deletion(role, addon) {
            Deletion::Uninstall => Fate::Goes,
            Deletion::Renew => Fate::Renewed,
            Deletion::Wait => Fate::Withheld(way_out(cluster, addon)),
        }
    }

    /// Frees an addon that its cluster writes anew, and leaves the release as it stands.
    pub(super) async fn hand_on(
        &self,
        addon: &TenantAddon,
        cluster: &TenantCluster,
    ) -> Result<Wake, PassError> {
        if self.is_at_work(addon) {
            // Its end wakes the addon.
            return Ok(Wake::OnChange);
        }
        let name = addon.spec.addon.clone().unwrap_or_default();
        let message = format!(
            "TenantCluster {} wants addon {name}: its release stays, and this TenantAddon comes again. {}",
            cluster.name_any(),
            way_out(cluster, &name)
        );
        self.events.tell(addon, &kept(message)).await;
        self.let_go(addon).await
    }

    /// Whether a release stands that is this addon's. One whose removal began is not kept: half of it is gone.
    pub(super) async fn has_release(
        &self,
        addon: &TenantAddon,
        client: &Client,
        target: &ReleaseId,
    ) -> Result<bool, look::LookError> {
        let known = known_release(addon);
        let records = look::records(client, known.as_ref().unwrap_or(target)).await?;
        let last = records.revisions.last();
        Ok(last.is_some_and(|last| {
            let is_going = matches!(last.status, Status::Uninstalling | Status::Uninstalled);
            last.owner == addon.uid() && !is_going
        }))
    }

    /// Whether an addon of a cluster finds the release of the one that was there before it.
    pub(super) fn inherits(&self, addon: &TenantAddon, world: &World) -> bool {
        let last = world.revisions.last();
        let Some(owner) = last.and_then(|last| last.owner.as_ref()) else {
            return false;
        };
        let cluster = self.cluster(addon).and_then(|cluster| cluster.uid());
        let is_sibling = || {
            let siblings = self.siblings(addon);
            let mut siblings = siblings.iter();
            siblings.any(|(other, _)| other.uid().as_ref() == Some(owner))
        };
        own_role(addon, cluster.as_deref()).is_some() && !is_sibling()
    }
}

/// What an addon is for, if it is the cluster's own and not its user's.
fn own_role<'a>(addon: &'a TenantAddon, cluster: Option<&str>) -> Option<&'a str> {
    let labels = addon.labels();
    let owner = labels.get(OWNER_UID).map(String::as_str);
    let is_own = owner.is_some() && owner == cluster;
    labels
        .get(ADDON_ROLE)
        .map(String::as_str)
        .filter(|_| is_own)
}

/// How people remove what belongs to a cluster.
fn way_out(cluster: &TenantCluster, addon: &str) -> String {
    format!(
        "To remove it, set enabled: false in spec.addons of TenantCluster {} and annotate that with {REMOVE_ADDONS}={addon}",
        cluster.name_any()
    )
}

/// An addon whose release is kept.
pub(super) fn withheld(why: &str) -> Report {
    let message = format!("its release stays: {why}");
    let note = kept(message.clone());
    Report {
        note: Some(note),
        ..say::leaving(message, Wake::After(say::ASK))
    }
}

fn kept(message: String) -> Note {
    Note {
        warning: true,
        reason: "ReleaseKept",
        action: "Delete",
        message,
    }
}
