//! What a `TenantAddon` asks for, put together with the catalogue and its Secrets. Pure.

use std::{collections::BTreeMap, time::Duration};

use butler_addons::{
    request::{ChartRef, Drift, ReleaseId, Request, duration},
    values,
};
use butler_api::{
    butler::{AddonDefinition, TenantAddon, addon_options::DriftMode},
    names::{ADOPT, CATALOGUE_VERSION, RETRY},
};
use k8s_openapi::ByteString;
use kube::ResourceExt;
use serde_json::Value;

use crate::addon_engine::{Trouble, catalogue, schema};

/// How long a step may take where nobody says.
const PATIENCE: Duration = Duration::from_mins(10);

/// The reason of an addon that is not its turn.
pub(crate) const WAITS_FOR_ROLLOUT: &str = "WaitsForRollout";

/// The release of an addon. That of the catalogue is named by the definition.
pub(crate) fn release(addon: &TenantAddon, definition: Option<&AddonDefinition>) -> ReleaseId {
    if let Some(helm) = &addon.spec.helm {
        let name = helm
            .release_name
            .clone()
            .unwrap_or_else(|| addon.name_any());
        let namespace = helm.namespace.clone().unwrap_or_else(|| name.clone());
        return ReleaseId { namespace, name };
    }
    let catalogue = addon.spec.addon.clone().unwrap_or_else(|| addon.name_any());
    let defaults = definition.map(|definition| &definition.spec.defaults);
    let name = defaults.and_then(|defaults| defaults.release_name.clone());
    let namespace = defaults.and_then(|defaults| defaults.namespace.clone());
    ReleaseId {
        namespace: namespace.unwrap_or_else(|| catalogue.clone()),
        name: name.unwrap_or(catalogue),
    }
}

/// The request; `secrets` are the keys that `valuesFrom` names, in its order.
pub(crate) fn request(
    addon: &TenantAddon,
    definition: Option<&AddonDefinition>,
    secrets: &[(String, Value)],
) -> Result<Request, Trouble> {
    let request = unchecked(addon, definition, secrets)?;
    if let Some(definition) = definition {
        schema::check(definition, &request.values)?;
    }
    Ok(request)
}

/// The same without a look at the schema, which values without those of Secrets need not fit.
pub(super) fn unchecked(
    addon: &TenantAddon,
    definition: Option<&AddonDefinition>,
    secrets: &[(String, Value)],
) -> Result<Request, Trouble> {
    let none = Value::Null;
    let defaults = definition.map(|definition| &definition.spec.defaults);
    let catalogue = defaults.and_then(|defaults| defaults.values.as_ref());
    let mut layers = vec![
        ("the catalogue", catalogue.unwrap_or(&none)),
        ("spec.values", addon.spec.values.as_ref().unwrap_or(&none)),
    ];
    layers.extend(secrets.iter().map(|(name, value)| (name.as_str(), value)));
    let values =
        values::merge(layers).map_err(|error| Trouble::new("InvalidValues", error.to_string()))?;
    let create_namespace = match (&addon.spec.helm, defaults) {
        (Some(helm), _) => helm.create_namespace,
        (None, Some(defaults)) => defaults.create_namespace,
        (None, None) => true,
    };
    let timeout = addon.spec.timeout.as_deref();
    let timeout = timeout.or_else(|| defaults.map(|defaults| defaults.timeout.as_str()));
    Ok(Request {
        release: release(addon, definition),
        chart: chart(addon, definition)?,
        values,
        create_namespace,
        timeout: timeout.and_then(duration).unwrap_or(PATIENCE),
        history: u32::try_from(addon.spec.history_limit).unwrap_or(10).max(2),
        drift: match addon.spec.drift {
            DriftMode::Correct => Drift::Correct,
            DriftMode::Report => Drift::Report,
            DriftMode::Off => Drift::Off,
        },
        health: definition.map(catalogue::health).unwrap_or_default(),
        retry: addon.annotations().get(RETRY).cloned(),
    })
}

fn chart(addon: &TenantAddon, definition: Option<&AddonDefinition>) -> Result<ChartRef, Trouble> {
    let asked = addon
        .spec
        .version
        .clone()
        .filter(|version| !version.is_empty());
    if let Some(helm) = &addon.spec.helm {
        let version = asked
            .ok_or_else(|| Trouble::new("NoVersion", "a chart of your own needs spec.version"))?;
        return Ok(ChartRef {
            repository: helm.repository.clone(),
            name: helm.chart.clone(),
            version,
            digest: helm.digest.clone(),
        });
    }
    let Some(definition) = definition else {
        let name = addon.spec.addon.clone().unwrap_or_default();
        let message = format!("the catalogue has no AddonDefinition {name:?}");
        return Err(Trouble::new("AddonNotFound", message));
    };
    if let Some(version) = &asked {
        catalogue::offers(definition, version)?;
    }
    let asked = match (&definition.spec.rollout, asked) {
        (Some(_), None) => Some(granted(addon)?),
        (_, asked) => asked,
    };
    catalogue::chart_ref(definition, asked)
}

/// The version that a rollout lets the addon have. Without its word nothing is installed, lest a fleet moves at once.
fn granted(addon: &TenantAddon) -> Result<String, Trouble> {
    let granted = addon.annotations().get(CATALOGUE_VERSION).cloned();
    granted.ok_or_else(|| {
        let message = "waits for its turn in the rollout of the catalogue's version";
        Trouble::new(WAITS_FOR_ROLLOUT, message)
    })
}

/// User and password, and the authority, of a repository.
pub(crate) type Credentials = (Option<(String, String)>, Option<Vec<u8>>);

/// What a Secret says about a repository. One that says nothing, or half of it, is a mistake: the repository would
/// only say that somebody may not read it.
pub(crate) fn credentials(
    secret: &str,
    data: &BTreeMap<String, ByteString>,
) -> Result<Credentials, Trouble> {
    let wrong = |what: &str| {
        let message = format!(
            "Secret {secret} {what}: give username and password of the repository, ca.crt where it has an authority of \
             its own, or both"
        );
        Err(Trouble::new("InvalidCredentials", message))
    };
    let text = |key: &str| {
        data.get(key)
            .map(|content| String::from_utf8(content.0.clone()))
    };
    let authority = data.get("ca.crt").map(|content| content.0.clone());
    match (text("username"), text("password")) {
        (Some(Ok(user)), Some(Ok(password))) => Ok((Some((user, password)), authority)),
        (None, None) if authority.is_some() => Ok((None, authority)),
        (None, None) => wrong("has neither username and password nor ca.crt"),
        (Some(Ok(_)), None) => wrong("has a username and no password"),
        (None, Some(Ok(_))) => wrong("has a password and no username"),
        (Some(_), _) | (None, Some(_)) => wrong("has a username or a password that is no text"),
    }
}

/// Whether the addon may take over a release that somebody else installed.
pub(crate) fn adopts(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(ADOPT).is_some_and(|said| said == "true")
}

#[cfg(test)]
mod tests {
    use butler_api::butler::addon_definition::AddonRollout;
    use serde_json::json;

    use super::*;

    fn addon(spec: &Value) -> TenantAddon {
        let object = json!({"metadata": {"name": "own"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn definition(defaults: &Value) -> AddonDefinition {
        serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {
            "displayName": "DB", "description": "d", "category": "database", "defaults": defaults,
            "valuesSchema": {"properties": {"a": {"properties": {"x": {"type": "integer"}}}}},
            "chart": {"repository": "https://charts.example.com", "name": "postgres", "defaultVersion": "2.0.0"},
        }}))
        .unwrap()
    }

    #[test]
    fn the_catalogue_says_what_the_addon_leaves_out() {
        let addon =
            addon(&json!({"clusterRef": {"name": "c"}, "addon": "db", "values": {"a": {"x": 2}}}));
        let definition = definition(
            &json!({"namespace": "data", "timeout": "90s", "values": {"a": {"x": 1, "y": 1}}}),
        );
        let secret = [("Secret s, key k".to_owned(), json!({"a": {"z": 3}}))];
        let request = request(&addon, Some(&definition), &secret).unwrap();
        assert_eq!(request.release.to_string(), "data/db");
        assert_eq!(request.chart.version, "2.0.0");
        assert_eq!(request.values, json!({"a": {"x": 2, "y": 1, "z": 3}}));
        assert_eq!(request.timeout, Duration::from_secs(90));
    }

    #[test]
    fn values_of_all_layers_together_must_fit_the_schema_of_the_catalogue() {
        let addon = addon(&json!({"clusterRef": {"name": "c"}, "addon": "db"}));
        let secret = [("Secret s, key k".to_owned(), json!({"a": {"x": "hunter2"}}))];
        let trouble = request(&addon, Some(&definition(&json!({}))), &secret).unwrap_err();
        assert!(trouble.message.contains("/a/x") && !trouble.message.contains("hunter2"));
    }

    #[test]
    fn a_chart_of_ones_own_is_named_after_the_addon() {
        let helm = json!({"repository": "oci://r/c", "chart": "app"});
        let addon = addon(&json!({"clusterRef": {"name": "c"}, "helm": helm, "version": "1.0.0"}));
        let request = request(&addon, None, &[]).unwrap();
        assert_eq!(request.release.to_string(), "own/own");
        assert!(request.create_namespace);
    }

    #[test]
    fn while_a_version_spreads_an_addon_has_the_one_that_it_was_granted_or_waits() {
        let mut follower = addon(&json!({"clusterRef": {"name": "c"}, "addon": "db"}));
        let mut definition = definition(&json!({}));
        definition.spec.rollout = Some(AddonRollout::default());
        let trouble = request(&follower, Some(&definition), &[]).unwrap_err();
        assert_eq!(trouble.reason, WAITS_FOR_ROLLOUT);
        follower
            .annotations_mut()
            .insert(CATALOGUE_VERSION.to_owned(), "1.9.0".to_owned());
        let granted = request(&follower, Some(&definition), &[]).unwrap();
        assert_eq!(granted.chart.version, "1.9.0");
        follower.spec.version = Some("3.0.0".to_owned());
        let own = request(&follower, Some(&definition), &[]).unwrap();
        assert_eq!(own.chart.version, "3.0.0", "who names a version has it");
    }

    #[test]
    fn an_addon_that_the_catalogue_does_not_have_is_named() {
        let addon = addon(&json!({"clusterRef": {"name": "c"}, "addon": "nope"}));
        let trouble = request(&addon, None, &[]).unwrap_err();
        assert_eq!(
            trouble.message,
            "the catalogue has no AddonDefinition \"nope\""
        );
    }

    #[test]
    fn a_secret_that_does_not_say_who_asks_is_named() {
        let secret = |pairs: &[(&str, &[u8])]| {
            let pairs = pairs.iter();
            let data = pairs.map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())));
            credentials("repository", &data.collect())
        };
        let said = |pairs: &[(&str, &[u8])]| secret(pairs).unwrap_err().message;
        let (user, password) = (("username", &b"ada"[..]), ("password", &b"sesame"[..]));
        assert!(said(&[]).starts_with("Secret repository has neither"));
        assert!(said(&[("user", b"ada"), password]).contains("a password and no username"));
        assert!(said(&[user, ("ca.crt", b"pem")]).contains("a username and no password"));
        assert!(said(&[user, ("password", b"\xff")]).contains("no text"));
        let whole = secret(&[user, password, ("ca.crt", b"pem")]).unwrap();
        assert_eq!(
            whole,
            (
                Some(("ada".to_owned(), "sesame".to_owned())),
                Some(b"pem".to_vec())
            )
        );
        assert_eq!(
            secret(&[("ca.crt", b"pem")]).unwrap(),
            (None, Some(b"pem".to_vec()))
        );
    }
}
