//! Which other addons one waits for, and who else wants its release. Pure over what is watched.

use std::{collections::BTreeSet, sync::Arc};

use butler_addons::{
    graph::{Graph, circle},
    ownership::{Claim, winner},
    request::ReleaseId,
};
use butler_api::butler::{AddonDefinition, TenantAddon};
use butler_runtime::conditions;
use kube::{Resource, ResourceExt};

use crate::addon_engine::Trouble;

/// An addon with its entry of the catalogue.
pub(crate) type Entry = (Arc<TenantAddon>, Option<Arc<AddonDefinition>>);

/// Names of the addons of the same cluster that this one waits for, or what it waits for in vain. What the cluster
/// brings by itself is not waited for.
pub(super) fn needs(
    entry: &Entry,
    all: &[Entry],
    brings: &impl Fn(&str) -> bool,
) -> Result<BTreeSet<String>, Trouble> {
    let (addon, definition) = entry;
    let own = addon.spec.depends_on.iter().map(|other| other.name.clone());
    let mut names: BTreeSet<String> = own.collect();
    let by_catalogue = definition
        .iter()
        .flat_map(|definition| &definition.spec.depends_on);
    for wanted in by_catalogue {
        let found = all
            .iter()
            .find(|(other, _)| other.spec.addon.as_ref() == Some(wanted));
        match found {
            Some((other, _)) => drop(names.insert(other.name_any())),
            None if brings(wanted) => {}
            None => {
                let message = format!("it needs addon {wanted}, which this cluster does not have");
                return Err(Trouble::new("DependencyMissing", message));
            }
        }
    }
    Ok(names)
}

/// What an addon waits for; `all` are the addons of its cluster, which `brings` others by itself.
pub(crate) fn waits_for(
    entry: &Entry,
    all: &[Entry],
    brings: impl Fn(&str) -> bool,
) -> Result<(), Trouble> {
    let names = needs(entry, all, &brings)?;
    let graph: Graph = all
        .iter()
        .map(|other| {
            (
                other.0.name_any(),
                needs(other, all, &brings).unwrap_or_default(),
            )
        })
        .collect();
    if let Some(circle) = circle(&graph, &entry.0.name_any()) {
        let message = format!("addons wait for each other: {}", circle.join(" -> "));
        return Err(Trouble::new("DependencyCycle", message));
    }
    for name in names {
        let found = all.iter().find(|(other, _)| other.name_any() == name);
        let Some((other, _)) = found else {
            let message = format!("there is no addon {name} on this cluster");
            return Err(Trouble::new("DependencyMissing", message));
        };
        let status = other.status.as_ref();
        let ready = status.is_some_and(|status| {
            conditions::is_true(&status.conditions, "Ready")
                && status.observed_generation == other.metadata.generation
        });
        if !ready {
            let message = format!("waits for addon {name} to be ready");
            return Err(Trouble::new("DependencyNotReady", message));
        }
    }
    Ok(())
}

/// Whether another addon of this kind has the release that one wants.
pub(crate) fn rival(kind: &str, own: &Claim, all: &[Claim]) -> Option<Trouble> {
    winner(own, all).map(|other| {
        let message = format!(
            "release {} belongs to {kind} {}: delete one of the two, or give this one another helm.releaseName",
            own.release, other.name
        );
        Trouble::new("ReleaseTaken", message)
    })
}

/// That an addon wants a release.
pub(crate) fn claim(addon: &impl Resource, release: ReleaseId) -> Claim {
    let created = addon.meta().creation_timestamp.as_ref();
    Claim {
        name: addon.name_any(),
        uid: addon.uid().unwrap_or_default(),
        created: created.map(|time| time.0).unwrap_or_default(),
        release,
    }
}

/// An addon that needs this one and is going too: it goes first.
pub(crate) fn goes_before(addon: &TenantAddon, all: &[Entry]) -> Option<String> {
    let name = addon.name_any();
    let needs_this = |(other, definition): &&Entry| {
        let named = other
            .spec
            .depends_on
            .iter()
            .any(|needed| needed.name == name);
        let of_catalogue = definition
            .iter()
            .flat_map(|definition| &definition.spec.depends_on);
        let of_catalogue = of_catalogue
            .into_iter()
            .any(|wanted| addon.spec.addon.as_ref() == Some(wanted));
        other.metadata.deletion_timestamp.is_some()
            && other.name_any() != name
            && (named || of_catalogue)
    };
    // Two that need each other would wait for ever: the first by name goes first.
    let needed = |other: &str| {
        addon
            .spec
            .depends_on
            .iter()
            .any(|needed| needed.name == other)
    };
    let mut waiting = all
        .iter()
        .filter(needs_this)
        .map(|(other, _)| other.name_any());
    waiting.find(|other| !needed(other) || *other < name)
}
