//! A look at DNS inside a new cluster.

use std::{collections::HashMap, sync::Mutex};

use butler_capi::{
    TenantSpec,
    names::Identity,
    observe::Observed,
    plan::dns::{self, Gap},
};
use butler_runtime::{
    error::{ApiError, chain},
    sync::lock,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use super::{Controller, inside::Unreached};

/// Since when DNS of clusters is waited for, by UID. A restart begins to count anew.
#[derive(Default)]
pub(super) struct Awaited(Mutex<HashMap<String, Timestamp>>);

impl Awaited {
    fn contains(&self, uid: &str) -> bool {
        lock(&self.0).contains_key(uid)
    }

    /// Since when, which is now for what was not waited for.
    fn since(&self, uid: &str, now: Timestamp) -> Timestamp {
        *lock(&self.0).entry(uid.to_owned()).or_insert(now)
    }

    /// It is there, or the cluster is gone.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

impl Controller {
    /// What is missing of DNS, where that is all that a cluster waits for.
    pub(super) async fn look_at_dns(
        &self,
        spec: &TenantSpec,
        observed: &Observed,
        now: Timestamp,
    ) -> Option<Gap> {
        let uid = &spec.identity.uid;
        if !self.dns.contains(uid) && !dns::is_asked_for(spec, observed, now) {
            return None;
        }
        let missing = self.missing_of_dns(&spec.identity).await;
        let missing = missing.unwrap_or_else(|trouble| {
            Some(format!(
                "DNS: the cluster was asked in vain: {}",
                chain(&trouble)
            ))
        });
        let Some(missing) = missing else {
            self.dns.forget(uid);
            return None;
        };
        Some(Gap::since(self.dns.since(uid, now), now, missing))
    }

    /// A control plane without a kubeconfig is not one of ours, and is not asked.
    async fn missing_of_dns(&self, identity: &Identity) -> Result<Option<String>, Unreached> {
        let Some(tenant) = self.inside(identity).await? else {
            return Ok(None);
        };
        let deployments: Api<Deployment> = Api::namespaced(tenant, "kube-system");
        let found = deployments.get_opt("coredns").await;
        let found = found.map_err(ApiError::of("get", "Deployment", "kube-system/coredns"))?;
        Ok(dns::missing(found.as_ref()))
    }
}
