//! The addons of a cluster as they are written down for Flux. Pure: no Secret is read.

use std::sync::Arc;

use butler_addons::flux::{Addon, Credentials, SecretKey, Tier};
use butler_api::{
    butler::{AddonDefinition, TenantAddon, addon_definition::AddonTier},
    names::SYSTEM_NAMESPACE,
};
use kube::ResourceExt;

use super::{
    dependencies::{self, Entry},
    resolve,
};
use crate::addon_engine::Trouble;

/// An addon that cannot be written down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TenantAddon {addon} cannot be exported: {why}")]
pub struct NotExported {
    /// Which one.
    pub addon: String,
    /// Why not, and what to do.
    pub why: String,
}

/// The addons of a cluster, out of all of its namespace, with what the catalogue says of them. Those that are being
/// removed are left out.
pub fn addons(
    cluster: &str,
    addons: Vec<TenantAddon>,
    catalogue: Vec<AddonDefinition>,
) -> Result<Vec<Addon>, NotExported> {
    let catalogue: Vec<Arc<AddonDefinition>> = catalogue.into_iter().map(Arc::new).collect();
    let entry = |name: &str| catalogue.iter().find(|entry| entry.name_any() == name);
    let stays = |addon: &TenantAddon| {
        addon.spec.cluster_ref.name == cluster && addon.metadata.deletion_timestamp.is_none()
    };
    let all: Vec<Entry> = addons
        .into_iter()
        .filter(stays)
        .map(|addon| {
            let named = addon.spec.addon.as_deref();
            let definition = named.and_then(entry).cloned();
            (Arc::new(addon), definition)
        })
        .collect();
    // Files put in order what they hold; what the cluster has besides is nothing to wait for.
    let is_platform = |name: &str| entry(name).is_some_and(|entry| entry.spec.platform);
    let exported = all.iter().map(|entry| {
        one(entry, &all, &is_platform).map_err(|trouble| NotExported {
            addon: entry.0.name_any(),
            why: trouble.message,
        })
    });
    exported.collect()
}

fn one(
    entry: &Entry,
    all: &[Entry],
    is_platform: &impl Fn(&str) -> bool,
) -> Result<Addon, Trouble> {
    let (addon, definition) = entry;
    let definition = definition.as_deref();
    let needs = dependencies::needs(entry, all, is_platform)?;
    let request = resolve::unchecked(addon, definition, &[])?;
    let (plain_http, credentials) = access(addon, definition);
    let values_from = addon.spec.values_from.iter().map(|source| SecretKey {
        secret: source.secret.clone(),
        key: source.key.clone(),
        target: source.target_path.clone(),
    });
    let status = addon.status.as_ref();
    Ok(Addon {
        name: addon.name_any(),
        tier: tier(definition),
        release: request.release,
        chart: request.chart,
        plain_http,
        credentials,
        values: request.values,
        values_from: values_from.collect(),
        needs,
        create_namespace: request.create_namespace,
        timeout: request.timeout,
        history: request.history,
        drift: request.drift,
        paused: addon.spec.paused,
        installed: status.and_then(|status| status.installed_version.clone()),
    })
}

/// As the definition says of itself.
fn tier(definition: Option<&AddonDefinition>) -> Tier {
    let Some(spec) = definition.map(|definition| &definition.spec) else {
        return Tier::Apps;
    };
    match (spec.tier, spec.platform) {
        (Some(AddonTier::Infrastructure), _) | (None, true) => Tier::Infrastructure,
        (Some(AddonTier::Apps), _) | (None, false) => Tier::Apps,
    }
}

/// How the repository is spoken to, and with which Secret.
fn access(
    addon: &TenantAddon,
    definition: Option<&AddonDefinition>,
) -> (bool, Option<Credentials>) {
    let chart = definition.and_then(|definition| definition.spec.chart.as_ref());
    let (plain_http, reference, namespace) = match (&addon.spec.helm, chart) {
        (Some(helm), _) => (
            helm.plain_http,
            helm.credentials_ref.as_ref(),
            addon.namespace().unwrap_or_default(),
        ),
        (None, Some(chart)) => (
            chart.plain_http,
            chart.credentials_ref.as_ref(),
            SYSTEM_NAMESPACE.to_owned(),
        ),
        (None, None) => return (false, None),
    };
    let credentials = reference.map(|reference| Credentials {
        namespace,
        name: reference.name.clone(),
    });
    (plain_http, credentials)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn addon(name: &str, spec: &Value) -> TenantAddon {
        let mut whole = json!({
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"clusterRef": {"name": "demo"}},
        });
        butler_addons::values::lay_over(&mut whole, &json!({ "spec": spec }));
        serde_json::from_value(whole).unwrap()
    }

    fn definition(name: &str, spec: &Value) -> AddonDefinition {
        let mut whole = json!({"metadata": {"name": name}, "spec": {
            "displayName": name, "description": "d", "category": "other",
            "chart": {"repository": "oci://charts.example.com", "name": name, "defaultVersion": "2.0.0",
                "credentialsRef": {"name": "charts"}},
        }});
        butler_addons::values::lay_over(&mut whole, &json!({ "spec": spec }));
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn an_addon_of_the_catalogue_is_written_with_everything_that_the_catalogue_says() {
        let wants_a_password = json!({"required": ["password"]});
        let catalogue = vec![
            definition("network", &json!({"platform": true})),
            definition(
                "db",
                &json!({"tier": "infrastructure", "dependsOn": ["network", "storage"],
                    "defaults": {"namespace": "data", "values": {"a": 1}},
                    "valuesSchema": wants_a_password}),
            ),
            definition("storage", &json!({})),
        ];
        let source = json!([{"secret": "db", "key": "password", "targetPath": "password"}]);
        let all = vec![
            addon(
                "my-db",
                &json!({"addon": "db", "values": {"b": 2}, "valuesFrom": source}),
            ),
            addon("my-storage", &json!({"addon": "storage"})),
            addon(
                "other",
                &json!({"addon": "db", "clusterRef": {"name": "b"}}),
            ),
        ];
        let all = addons("demo", all, catalogue).unwrap();
        let [db, storage] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!(db.release.to_string(), "data/db");
        assert_eq!(db.chart.version, "2.0.0");
        assert_eq!(db.values, json!({"a": 1, "b": 2}), "and not of the Secret");
        assert_eq!(db.tier, Tier::Infrastructure);
        assert_eq!(db.values_from[0].target.as_deref(), Some("password"));
        let needs: Vec<&String> = db.needs.iter().collect();
        assert_eq!(needs, ["my-storage"], "machines bring the network along");
        let credentials = db.credentials.clone().unwrap();
        assert_eq!(credentials.namespace, SYSTEM_NAMESPACE);
        assert_eq!(storage.tier, Tier::Apps);
    }

    #[test]
    fn an_addon_that_the_catalogue_does_not_have_is_named() {
        let nothing = addons("demo", vec![addon("x", &json!({"addon": "nope"}))], vec![]);
        assert_eq!(
            nothing.unwrap_err().to_string(),
            "TenantAddon x cannot be exported: the catalogue has no AddonDefinition \"nope\""
        );
    }
}
