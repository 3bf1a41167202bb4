//! An addon of the management cluster, seen as one of a tenant. Pure.

use std::sync::Arc;

use butler_addons::request::ReleaseId;
use butler_api::{
    butler::{
        AddonDefinition, ManagementAddon, TenantAddon,
        management_addon::ManagementAddonPhase,
        tenant_addon::{TenantAddonPhase, TenantAddonSpec, TenantAddonStatus},
    },
    common::LocalRef,
    names::SYSTEM_NAMESPACE,
};
use kube::ResourceExt;

use crate::{
    Feeds,
    addon_engine::Trouble,
    tenant_addon::{
        dependencies::{self, Entry},
        resolve,
    },
};

/// The same wishes on a cluster that is no tenant. Secrets are those of the platform's own namespace.
pub(super) fn tenant_addon(addon: &ManagementAddon) -> TenantAddon {
    let spec = &addon.spec;
    let mut metadata = addon.metadata.clone();
    metadata.namespace = Some(SYSTEM_NAMESPACE.to_owned());
    let status = addon.status.clone().map(|status| TenantAddonStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions,
        helm_release: status.helm_release,
        installed_version: status.installed_version,
        ..TenantAddonStatus::default()
    });
    TenantAddon {
        metadata,
        spec: TenantAddonSpec {
            cluster_ref: LocalRef::default(),
            addon: spec.addon.clone(),
            helm: spec.helm.clone(),
            version: spec.version.clone(),
            values: spec.values.clone(),
            values_from: spec.values_from.clone(),
            timeout: spec.timeout.clone(),
            drift: spec.drift,
            history_limit: spec.history_limit,
            paused: spec.paused,
            depends_on: spec.depends_on.clone(),
        },
        status,
    }
}

/// The same with a version of its own: how the catalogue's version spreads is about tenants.
pub(super) fn with_version(
    mut addon: TenantAddon,
    definition: Option<&AddonDefinition>,
) -> TenantAddon {
    let chart = definition.and_then(|entry| entry.spec.chart.as_ref());
    let asked = addon.spec.version.filter(|version| !version.is_empty());
    addon.spec.version = asked.or_else(|| chart.map(|chart| chart.default_version.clone()));
    addon
}

/// The entry of the catalogue that an addon names.
pub(super) fn definition(feeds: &Feeds, addon: &ManagementAddon) -> Option<Arc<AddonDefinition>> {
    let name = addon.spec.addon.as_deref()?;
    feeds.definitions.get(None, name)
}

/// The release is named after the addon, so that one entry of the catalogue can be installed twice. A chart of one's own
/// says itself what it is called.
pub(super) fn release(addon: &ManagementAddon, definition: Option<&AddonDefinition>) -> ReleaseId {
    if addon.spec.helm.is_some() {
        return resolve::release(&tenant_addon(addon), None);
    }
    let name = addon.name_any();
    let namespace = definition.and_then(|entry| entry.spec.defaults.namespace.clone());
    ReleaseId {
        namespace: namespace.unwrap_or_else(|| format!("{name}-system")),
        name,
    }
}

/// All addons of the management cluster with their entries of the catalogue.
pub(super) fn entries(feeds: &Feeds) -> Vec<Entry> {
    let all = feeds.management_addons.store().state().into_iter();
    all.map(|addon| {
        let definition = definition(feeds, &addon);
        (Arc::new(tenant_addon(&addon)), definition)
    })
    .collect()
}

/// Whether another addon of the management cluster has the release that this one wants.
pub(super) fn rival(feeds: &Feeds, addon: &ManagementAddon) -> Option<Trouble> {
    let claim = |addon: &ManagementAddon| {
        let definition = definition(feeds, addon);
        dependencies::claim(addon, release(addon, definition.as_deref()))
    };
    let all = feeds.management_addons.store().state();
    let claims: Vec<_> = all.iter().map(|other| claim(other)).collect();
    dependencies::rival("ManagementAddon", &claim(addon), &claims)
}

pub(super) fn phase(phase: TenantAddonPhase) -> ManagementAddonPhase {
    match phase {
        TenantAddonPhase::Pending => ManagementAddonPhase::Pending,
        TenantAddonPhase::Installing => ManagementAddonPhase::Installing,
        TenantAddonPhase::Installed => ManagementAddonPhase::Installed,
        TenantAddonPhase::Upgrading => ManagementAddonPhase::Upgrading,
        TenantAddonPhase::Degraded => ManagementAddonPhase::Degraded,
        TenantAddonPhase::Failed => ManagementAddonPhase::Failed,
        TenantAddonPhase::Deleting => ManagementAddonPhase::Uninstalling,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addon() -> ManagementAddon {
        serde_json::from_value(json!({
            "metadata": {"name": "blue"},
            "spec": {"addon": "db", "version": "1.2.3", "values": {"a": 1}, "drift": "report"},
        }))
        .unwrap()
    }

    #[test]
    fn everything_that_is_wished_for_is_passed_on() {
        let seen = tenant_addon(&addon());
        assert_eq!(seen.namespace().as_deref(), Some("butler-system"));
        assert_eq!(seen.spec.addon.as_deref(), Some("db"));
        assert_eq!(seen.spec.version.as_deref(), Some("1.2.3"));
        assert_eq!(seen.spec.values, Some(json!({"a": 1})));
        assert_eq!(seen.spec.drift, addon().spec.drift);
    }

    #[test]
    fn a_chart_of_ones_own_and_what_it_waits_for_are_passed_on() {
        let own: ManagementAddon = serde_json::from_value(json!({
            "metadata": {"name": "blue"},
            "spec": {"version": "1.0.0", "dependsOn": [{"name": "green"}],
                "helm": {"repository": "oci://r", "chart": "app", "namespace": "apps"}},
        }))
        .unwrap();
        let seen = tenant_addon(&own);
        assert_eq!(seen.spec.helm.unwrap().chart, "app");
        assert_eq!(seen.spec.depends_on[0].name, "green");
        assert_eq!(release(&own, None).to_string(), "apps/blue");
    }

    #[test]
    fn the_release_has_the_name_of_the_addon_and_a_namespace_of_its_own() {
        assert_eq!(release(&addon(), None).to_string(), "blue-system/blue");
        let entry = serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {
            "displayName": "DB", "description": "d", "category": "database",
            "defaults": {"namespace": "data", "releaseName": "db"},
        }}))
        .unwrap();
        assert_eq!(release(&addon(), Some(&entry)).to_string(), "data/blue");
    }
}
