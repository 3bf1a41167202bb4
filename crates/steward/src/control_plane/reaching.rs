//! The second stage: a Service that stands, and an endpoint that clients know.

use std::{net::IpAddr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Service;

use super::{Controller, Error, owning::is_ours, progress::Progress, report::Facts};
use crate::{
    endpoint::{self, Endpoint},
    spec::ControlPlane,
};

/// How long a host name may take to resolve.
const LOOKUP: Duration = Duration::from_secs(3);

impl Controller {
    /// Asks for a Service, and with it for an address, unless there is one; what was made, if the name was free.
    pub(super) async fn service(&self, spec: &ControlPlane) -> Result<Option<Arc<Service>>, Error> {
        if self.watched_service(spec).is_some() {
            return Ok(None);
        }
        self.make_service(spec).await
    }

    /// The answer has the address in this cluster already.
    async fn make_service(&self, spec: &ControlPlane) -> Result<Option<Arc<Service>>, Error> {
        let wanted = crate::workload::service(spec);
        Ok(self.applier.apply_new(&wanted).await?.map(Arc::new))
    }

    fn watched_service(&self, spec: &ControlPlane) -> Option<Arc<Service>> {
        let identity = &spec.identity;
        self.feeds
            .services
            .get(Some(&identity.namespace), &identity.name)
    }

    /// The Service stands and clients know where to go.
    pub(super) async fn endpoint(
        &self,
        spec: &ControlPlane,
        made: Option<Arc<Service>>,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Option<Endpoint>, Error> {
        const STAGE: &str = "EndpointReady";
        let live = match (self.watched_service(spec), made) {
            (Some(live), _) if !is_ours(&*live, &spec.identity) => None,
            (Some(live), _) => {
                let wanted = crate::workload::service(spec);
                self.applier.apply(&wanted, Some(&*live)).await?;
                Some(live)
            }
            (None, Some(made)) => Some(made),
            (None, None) => self.make_service(spec).await?,
        };
        let Some(live) = live else {
            progress.taken(STAGE, "Service", &spec.identity.name);
            return Ok(None);
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
