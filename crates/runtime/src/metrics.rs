//! Metrics that every controller has, with bounded labels.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::sync::lock;

/// A registry that parts of a process add their metrics to.
#[derive(Clone, Default)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl Metrics {
    /// Adds metrics; `add` gets the registry whose names start with `butler_`.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        let mut registry = lock(&self.registry);
        add(registry.sub_registry_with_prefix("butler"));
    }

    /// Adds metrics whose names start with another prefix: those of a part that people know by its own name.
    pub fn register_under(&self, prefix: &str, add: impl FnOnce(&mut Registry)) {
        let mut registry = lock(&self.registry);
        add(registry.sub_registry_with_prefix(prefix));
    }

    /// All metrics as text for a scrape.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &lock(&self.registry))?;
        Ok(text)
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

/// How often and how long controllers reconcile.
#[derive(Clone)]
pub struct ReconcileMetrics {
    total: Family<Outcome, Counter>,
    seconds: Family<Controller, Histogram>,
}

impl ReconcileMetrics {
    /// Registers the two families.
    pub fn new(metrics: &Metrics) -> Self {
        let total = Family::<Outcome, Counter>::default();
        let seconds = Family::<Controller, Histogram>::new_with_constructor(|| {
            Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
        });
        metrics.register(|registry| {
            registry.register(
                "reconciles",
                "Reconciles by controller and result",
                total.clone(),
            );
            registry.register("reconcile_seconds", "Time of a reconcile", seconds.clone());
        });
        Self { total, seconds }
    }

    /// Counts one reconcile; `result` is `Ok` or the category of the error.
    pub fn count(&self, controller: &'static str, result: &'static str, took: Duration) {
        self.total
            .get_or_create(&Outcome { controller, result })
            .inc();
        self.seconds
            .get_or_create(&Controller { controller })
            .observe(took.as_secs_f64());
    }
}
