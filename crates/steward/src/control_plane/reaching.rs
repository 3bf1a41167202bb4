//! The second stage: a Service that stands, and an endpoint that clients know.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;

use super::{Controller, Error, progress::Progress, report::Facts};
use crate::{
    endpoint::{self, Endpoint},
    spec::ControlPlane,
};

/// How long a host name may take to resolve.
const LOOKUP: Duration = Duration::from_secs(3);

impl Controller {
    /// The Service stands and clients know where to go.
    pub(super) async fn endpoint(
        &self,
        spec: &ControlPlane,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Option<Endpoint>, Error> {
        const STAGE: &str = "EndpointReady";
        let wanted = crate::workload::service(spec);
        let identity = &spec.identity;
        let live = self
            .feeds
            .services
            .get(Some(&identity.namespace), &identity.name);
        let live: Service = match live {
            // Just made, and its address is there already.
            None => self.applier.apply_new(&wanted).await?,
            Some(live) => {
                self.applier.apply(&wanted, Some(&*live)).await?;
                (*live).clone()
            }
        };
        let mut observed = endpoint::Observed::of(&live);
        observed.resolved = resolve_hostname(&observed).await;
        observed.advertised = self
            .deployment(spec)
            .as_deref()
            .and_then(endpoint::advertised);
        facts.service = Some(live);
        match endpoint::resolve(spec, &observed, &self.settings.management_domain) {
            Ok(endpoint) => {
                progress.passed(
                    STAGE,
                    "Ready",
                    format!("clients use {}", endpoint.authority()),
                );
                facts.endpoint = Some(endpoint.authority());
                Ok(Some(endpoint))
            }
            Err(waiting) => {
                progress.stopped(STAGE, waiting.reason, waiting.message);
                Ok(None)
            }
        }
    }
}

/// The addresses behind a load balancer's host name, in a fixed order; none while the name is not known.
async fn resolve_hostname(observed: &endpoint::Observed) -> Vec<IpAddr> {
    let Some(name) = observed.hostname() else {
        return Vec::new();
    };
    let lookup = tokio::time::timeout(LOOKUP, tokio::net::lookup_host((name, 0))).await;
    let Ok(Ok(found)) = lookup else {
        return Vec::new();
    };
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort();
    addresses
}
