//! Metrics of providers; their series go away with them.

use butler_api::butler::ProviderConfig;
use butler_runtime::metrics::Metrics;
use kube::ResourceExt;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

use super::Plan;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    name: String,
    namespace: String,
}

/// `butler_provider_config_*`.
#[derive(Clone)]
pub struct ProviderMetrics {
    ready: Family<Labels, Gauge>,
    available: Family<Labels, Gauge>,
    tenants: Family<Labels, Gauge>,
}

impl ProviderMetrics {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        let made = Self {
            ready: Family::default(),
            available: Family::default(),
            tenants: Family::default(),
        };
        metrics.register(|registry| {
            for (name, help, family) in [
                (
                    "ready",
                    "Whether clusters can be made with the provider",
                    &made.ready,
                ),
                (
                    "available_ips",
                    "Free addresses of its pools",
                    &made.available,
                ),
                (
                    "estimated_tenants",
                    "For how many more tenants they last",
                    &made.tenants,
                ),
            ] {
                registry.register(format!("provider_config_{name}"), help, family.clone());
            }
        });
        made
    }

    pub(super) fn set(&self, config: &ProviderConfig, plan: &Plan) {
        self.ready
            .get_or_create(&labels(config))
            .set((plan.ready == Some(true)).into());
        if let Some(capacity) = &plan.capacity {
            let figures = [
                (&self.available, capacity.available_ips),
                (&self.tenants, capacity.estimated_tenants),
            ];
            for (family, value) in figures {
                family
                    .get_or_create(&labels(config))
                    .set(value.unwrap_or(0));
            }
        }
    }

    pub(super) fn remove(&self, config: &ProviderConfig) {
        for family in [&self.ready, &self.available, &self.tenants] {
            family.remove(&labels(config));
        }
    }
}

fn labels(config: &ProviderConfig) -> Labels {
    Labels {
        name: config.name_any(),
        namespace: config.namespace().unwrap_or_default(),
    }
}
