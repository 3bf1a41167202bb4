//! The version that each addon is told to have, and which releases of Kubernetes these run on.
//!
//! A version that the cluster's user names is had at once. One that comes from the platform or from the catalogue reaches a
//! cluster that works by itself, so it waits for a maintenance window, where the cluster has any.

use butler_api::{butler::tenant_cluster::Phase, types::KubeVersion};
use jiff::Timestamp;

use super::{Wanted, catalogue::Entry, state::Facts};
use crate::{
    day2::{next_opening, open_until},
    observe::Observed,
    spec::TenantSpec,
};

/// Who says which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// The cluster's user.
    Own(String),
    /// The platform's defaults.
    Platform(String),
    /// The catalogue.
    Catalogue,
}

/// A version that waits for a maintenance window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    addon: &'static str,
    stays_at: String,
    comes: String,
    /// When a window opens.
    pub(crate) opens: Option<Timestamp>,
}

impl Late {
    /// A sentence for people.
    pub(crate) fn message(&self) -> String {
        let Self {
            addon,
            stays_at,
            comes,
            opens,
        } = self;
        let until = opens.map_or_else(
            || "a maintenance window, and none comes".to_owned(),
            |opens| format!("the maintenance window that opens at {opens}"),
        );
        format!("addon {addon} stays at {stays_at}: version {comes} waits for {until}")
    }
}

/// An addon that does not run on the release of Kubernetes that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuited {
    /// Its `TenantAddon`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The releases that it runs on.
    pub range: String,
}

/// What an addon is told: a version, or none for that of the catalogue; and what waits.
pub(super) fn choose(
    spec: &TenantSpec,
    observed: &Observed,
    wanted: &Wanted,
    now: Timestamp,
) -> (Option<String>, Option<Late>) {
    let entry = observed.inputs.catalogue.get(wanted.addon);
    let offered = entry.and_then(Entry::default_version);
    let (told, comes) = match &wanted.version {
        Version::Own(version) => return (Some(version.clone()), None),
        Version::Platform(version) => (Some(version.clone()), Some(version.clone())),
        // A rollout tells only those that follow it, and when.
        Version::Catalogue if entry.is_some_and(Entry::spreads) => (None, offered.map(Into::into)),
        Version::Catalogue if spec.windows.is_empty() => (None, None),
        // It is written down, so that another one does not reach the addon by itself.
        Version::Catalogue => (offered.map(Into::into), offered.map(Into::into)),
    };
    let has_worked = matches!(observed.phase, Some(Phase::Ready | Phase::Updating));
    if !has_worked || open_until(&spec.windows, now).is_some() {
        return (told, None);
    }
    let held = observed.addons.get(&spec.identity.addon(wanted.addon));
    let Some(stays_at) = held.and_then(Facts::stands_at) else {
        return (told, None);
    };
    let late = comes.filter(|comes| comes != stays_at).map(|comes| Late {
        addon: wanted.addon,
        stays_at: stays_at.to_owned(),
        comes,
        opens: next_opening(&spec.windows, now),
    });
    (Some(stays_at.to_owned()), late)
}

/// Versions that wait for a maintenance window.
pub(crate) fn late<'a>(
    spec: &'a TenantSpec,
    observed: &'a Observed,
    now: Timestamp,
) -> impl Iterator<Item = Late> + 'a {
    let wanted = spec.addons.wanted.iter();
    wanted.filter_map(move |wanted| choose(spec, observed, wanted, now).1)
}

/// The first addon that does not run on a release of Kubernetes: in the version that is installed, or in the one that it is
/// about to have.
pub(crate) fn unsuited(
    spec: &TenantSpec,
    observed: &Observed,
    release: KubeVersion,
    now: Timestamp,
) -> Option<Unsuited> {
    let catalogue = &observed.inputs.catalogue;
    let about = |name: String, addon: &str, version: Option<&str>| {
        let entry = catalogue.get(addon)?;
        let version = version.or_else(|| entry.default_version())?;
        let range = entry.keeps_from(version, release)?.to_owned();
        let version = version.to_owned();
        Some(Unsuited {
            name,
            version,
            range,
        })
    };
    let own = spec.addons.wanted.iter().filter_map(|wanted| {
        let (told, _) = choose(spec, observed, wanted, now);
        about(
            spec.identity.addon(wanted.addon),
            wanted.addon,
            told.as_deref(),
        )
    });
    let installed = observed.addons.iter().filter_map(|(name, held)| {
        let version = held.version.as_deref()?;
        about(name.clone(), &held.addon, Some(version))
    });
    let of_users = observed.addons.iter().filter(|(_, held)| !held.ours);
    let of_users =
        of_users.filter_map(|(name, held)| about(name.clone(), &held.addon, held.asked.as_deref()));
    installed.chain(own).chain(of_users).next()
}
