//! Metrics of pools; their series go away with the pool.

use butler_ipam::Figures;
use butler_runtime::metrics::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    pool: String,
    namespace: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Processed {
    pool: String,
    namespace: String,
    result: &'static str,
}

type Gauges = Family<Labels, Gauge>;

/// `butler_network_pool_*` and `butler_ip_allocation_processed_total`.
#[derive(Clone)]
pub struct PoolMetrics {
    total: Gauges,
    allocated: Gauges,
    available: Gauges,
    resting: Gauges,
    allocations: Gauges,
    fragmentation: Gauges,
    largest: Gauges,
    processed: Family<Processed, Counter>,
}

impl PoolMetrics {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        let made = Self {
            total: Gauges::default(),
            allocated: Gauges::default(),
            available: Gauges::default(),
            resting: Gauges::default(),
            allocations: Gauges::default(),
            fragmentation: Gauges::default(),
            largest: Gauges::default(),
            processed: Family::default(),
        };
        metrics.register(|registry| {
            let gauges = [
                ("total_ips", "Addresses that tenants may use", &made.total),
                (
                    "allocated_ips",
                    "Addresses that belong to a tenant",
                    &made.allocated,
                ),
                ("available_ips", "Free addresses", &made.available),
                (
                    "resting_ips",
                    "Addresses that rest before reuse",
                    &made.resting,
                ),
                (
                    "allocation_count",
                    "Claims that hold addresses",
                    &made.allocations,
                ),
                (
                    "fragmentation_percent",
                    "Share of the free addresses outside the longest run",
                    &made.fragmentation,
                ),
                (
                    "largest_free_block",
                    "Longest run of free addresses",
                    &made.largest,
                ),
            ];
            for (name, help, family) in gauges {
                registry.register(format!("network_pool_{name}"), help, family.clone());
            }
            registry.register(
                "ip_allocation_processed",
                "Claims that were given addresses or refused them",
                made.processed.clone(),
            );
        });
        made
    }

    pub(super) fn set(&self, namespace: &str, pool: &str, figures: &Figures, holders: usize) {
        let wide = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        let holders = i64::try_from(holders).unwrap_or(i64::MAX);
        for (family, value) in [
            (&self.total, wide(figures.total)),
            (&self.allocated, wide(figures.held)),
            (&self.available, wide(figures.free)),
            (&self.resting, wide(figures.resting)),
            (&self.allocations, holders),
            (&self.fragmentation, figures.fragmentation.into()),
            (&self.largest, wide(figures.largest)),
        ] {
            family.get_or_create(&labels(namespace, pool)).set(value);
        }
    }

    pub(super) fn count(&self, namespace: &str, pool: &str, result: &'static str) {
        let Labels { pool, namespace } = labels(namespace, pool);
        self.processed
            .get_or_create(&Processed {
                pool,
                namespace,
                result,
            })
            .inc();
    }

    pub(super) fn remove(&self, namespace: &str, pool: &str) {
        let gauges = [
            &self.total,
            &self.allocated,
            &self.available,
            &self.resting,
            &self.allocations,
            &self.fragmentation,
            &self.largest,
        ];
        for family in gauges {
            family.remove(&labels(namespace, pool));
        }
        for result in ["success", "failed"] {
            let Labels { pool, namespace } = labels(namespace, pool);
            self.processed.remove(&Processed {
                pool,
                namespace,
                result,
            });
        }
    }
}

fn labels(namespace: &str, pool: &str) -> Labels {
    Labels {
        pool: pool.to_owned(),
        namespace: namespace.to_owned(),
    }
}
