//! What limits leave to a cluster that is only thought of: read once, and granted to nobody.

use butler_api::butler::{ProviderConfig, Team, TenantCluster, butler_config::ButlerConfigSpec};
use butler_capi::{
    TenantSpec,
    quota::{Claim, Limits, Quota, Sizes, Usage, decide, usage},
};
use butler_runtime::error::ApiError;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use super::{
    quota::{asking, granted_by},
    sources::provider_of,
};

/// What limits say.
#[derive(Clone, Debug, Default)]
pub struct Limited {
    /// Whether the cluster may have what it asks for.
    pub quota: Quota,
    /// What of each limit would be used.
    pub usage: Vec<Usage>,
    /// What could not be read, so that it is taken to limit nothing.
    pub unknown: Vec<String>,
}

/// Asks what a cluster may have beside the others of its namespace.
pub async fn look(
    client: &Client,
    raw: &TenantCluster,
    spec: &TenantSpec,
    provider: &ProviderConfig,
    platform: &ButlerConfigSpec,
    now: Timestamp,
) -> Result<Limited, ApiError> {
    let (namespace, uid) = (spec.identity.namespace.as_str(), &spec.identity.uid);
    let mut limited = Limited::default();
    let teams: Api<Team> = Api::all(client.clone());
    let team = match teams.get_opt(namespace).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let unknown = format!("the limits of team {namespace} allow it: you may not read them");
            limited.unknown.push(unknown);
            None
        }
        found => found.map_err(ApiError::of("get", "Team", namespace))?,
    };
    let named = |raw: &TenantCluster| {
        let (namespace, name) = provider_of(raw, platform);
        format!("{namespace}/{name}")
    };
    let used = [(named(raw), provider)].into_iter();
    let limits = Limits::of(team.as_ref(), platform, used);
    if limits.is_empty() {
        return Ok(limited);
    }
    let api: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let all = api.list(&ListParams::default()).await;
    let all = all.map_err(ApiError::of("list", "TenantCluster", namespace))?;
    let others = all.items.iter().filter(|it| it.uid().as_ref() != Some(uid));
    let mut claims: Vec<Claim> = others
        .map(|other| {
            let asks = Sizes::asked(&other.spec);
            let stands = other.status.as_ref();
            let stands = stands.is_some_and(|status| status.tenant_namespace.is_some());
            Claim {
                // Where nothing stands yet, whoever was first still asks.
                held: asks.clone().filter(|_| stands),
                ..asking(other, named(other), asks)
            }
        })
        .collect();
    let before = all.items.iter().find(|it| it.uid().as_ref() == Some(uid));
    let held = match before.and_then(|before| Sizes::asked(&before.spec)) {
        None => None,
        Some(before) => held(client, spec, &before).await?,
    };
    let own = asking(raw, named(raw), Some(Sizes::of(&spec.pools)));
    claims.push(Claim {
        uid: uid.clone(),
        // One that is not made yet is the youngest.
        created: own.created.or(Some(now)),
        infrastructure: Some(provider.spec.provider),
        held,
        ..own
    });
    limited.quota = decide(&limits, &claims, uid);
    limited.usage = usage(&limits, &claims, uid);
    Ok(limited)
}

/// What a cluster that was made has been granted. Where its namespace may not be read, that is what it asks for now.
async fn held(client: &Client, spec: &TenantSpec, asks: &Sizes) -> Result<Option<Sizes>, ApiError> {
    let (name, uid) = (spec.identity.tenant_namespace(), &spec.identity.uid);
    let homes: Api<Namespace> = Api::all(client.clone());
    match homes.get_opt(&name).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Some(asks.clone())),
        found => {
            let home = found.map_err(ApiError::of("get", "Namespace", &name))?;
            Ok(home.and_then(|home| granted_by(&home, uid, Some(asks))))
        }
    }
}
