//! What an addon asks for with what Secrets say about it: values, and who may read its repository.

use butler_addons::{request::Request, values};
use butler_api::{
    butler::{AddonDefinition, TenantAddon},
    names::{FOR_ADDONS, SYSTEM_NAMESPACE},
};
use butler_helm::charts::Access;
use butler_runtime::error::ApiError;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::resolve;
use crate::addon_engine::{Trouble, catalogue};

type Found<T> = Result<T, Trouble>;

/// What an addon asks for.
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) access: Access,
    /// The values out of Secrets, each with where it comes from.
    pub(crate) layers: Vec<(String, Value)>,
}

/// Puts an addon together with the catalogue and its Secrets; or says what stands in the way.
pub(crate) async fn asked(
    client: &Client,
    addon: &TenantAddon,
    definition: Option<&AddonDefinition>,
) -> Result<Found<Asked>, ApiError> {
    let layers = match values(client, addon).await? {
        Ok(layers) => layers,
        Err(trouble) => return Ok(Err(trouble)),
    };
    let request = match resolve::request(addon, definition, &layers) {
        Ok(request) => request,
        Err(trouble) => return Ok(Err(trouble)),
    };
    let access = access(client, addon, definition).await?;
    Ok(access.map(|access| Asked {
        request,
        access,
        layers,
    }))
}

/// The values that `valuesFrom` names.
async fn values(
    client: &Client,
    addon: &TenantAddon,
) -> Result<Found<Vec<(String, Value)>>, ApiError> {
    let namespace = addon.namespace().unwrap_or_default();
    let mut layers = Vec::new();
    for source in &addon.spec.values_from {
        let data = match secret(client, &namespace, &source.secret, true).await? {
            Ok(secret) => secret.data.unwrap_or_default(),
            Err(trouble) => return Ok(Err(trouble)),
        };
        let name = format!("Secret {}, key {}", source.secret, source.key);
        let text = data
            .get(&source.key)
            .map(|content| String::from_utf8(content.0.clone()));
        let Some(Ok(text)) = text else {
            let message = format!(
                "Secret {} has no text under key {}",
                source.secret, source.key
            );
            return Ok(Err(Trouble::new("InvalidValues", message)));
        };
        match values::parse(&name, &text, source.target_path.as_deref()) {
            Ok(value) => layers.push((name, value)),
            Err(error) => return Ok(Err(Trouble::new("InvalidValues", error.to_string()))),
        }
    }
    Ok(Ok(layers))
}

/// How the repository is spoken to.
async fn access(
    client: &Client,
    addon: &TenantAddon,
    definition: Option<&AddonDefinition>,
) -> Result<Found<Access>, ApiError> {
    let own = addon.namespace().unwrap_or_default();
    let (reference, plain_http, namespace, of_team) = match (&addon.spec.helm, definition) {
        (Some(helm), _) => (&helm.credentials_ref, helm.plain_http, own.as_str(), true),
        (None, Some(definition)) => {
            let chart = match catalogue::chart(definition) {
                Ok(chart) => chart,
                Err(trouble) => return Ok(Err(trouble)),
            };
            (
                &chart.credentials_ref,
                chart.plain_http,
                SYSTEM_NAMESPACE,
                false,
            )
        }
        (None, None) => return Ok(Ok(Access::default())),
    };
    let Some(reference) = reference else {
        return Ok(Ok(Access {
            plain_http,
            ..Access::default()
        }));
    };
    let data = match secret(client, namespace, &reference.name, of_team).await? {
        Ok(secret) => secret.data.unwrap_or_default(),
        Err(trouble) => return Ok(Err(trouble)),
    };
    Ok(
        resolve::credentials(&reference.name, &data).map(|(credentials, authority)| Access {
            credentials,
            authority,
            plain_http,
        }),
    )
}

/// A Secret that addons may read. Those of a team must say so: whoever may make an addon may not read every Secret.
async fn secret(
    client: &Client,
    namespace: &str,
    name: &str,
    must_be_labelled: bool,
) -> Result<Found<Secret>, ApiError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get_opt(name).await;
    let Some(secret) = found.map_err(ApiError::of("get", "Secret", name))? else {
        let message = format!("there is no Secret {name} in namespace {namespace}");
        return Ok(Err(Trouble::new("SecretNotFound", message)));
    };
    if must_be_labelled
        && secret
            .labels()
            .get(FOR_ADDONS)
            .is_none_or(|said| said != "true")
    {
        let message = format!("Secret {name} is not for addons: label it {FOR_ADDONS}=true");
        return Ok(Err(Trouble::new("SecretNotForAddons", message)));
    }
    Ok(Ok(secret))
}
