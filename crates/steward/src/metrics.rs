//! Metrics of tenants and stores, made from what is watched at the moment of the scrape.
//!
//! Nothing is kept that could be forgotten: a control plane or a store that is gone is not in what is watched, and so
//! it has no series. Labels are names of objects and nothing else.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::steward::{DataStore, TenantControlPlane};
use butler_runtime::{conditions, metrics::Metrics};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, runtime::reflector::Store};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::MetricType,
};

use crate::metering::Figures;

/// The part of the names before the first underscore.
const PREFIX: &str = "steward";

/// The metrics of a process; empty while it does not hold the lease.
#[derive(Clone, Default)]
pub struct TenantMetrics {
    view: Arc<Mutex<Option<View>>>,
}

/// What metrics are made from.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) planes: Store<TenantControlPlane>,
    pub(crate) stores: Store<DataStore>,
    pub(crate) figures: Arc<Figures>,
}

/// Metrics that show something; dropping this empties them.
pub(crate) struct Shown(TenantMetrics);

impl Drop for Shown {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl TenantMetrics {
    /// Registers all families.
    pub fn new(metrics: &Metrics) -> Self {
        let this = Self::default();
        metrics.register_under(PREFIX, |registry| {
            registry.register_collector(Box::new(this.clone()));
        });
        this
    }

    /// Shows what is in the view until the returned value is dropped.
    pub(crate) fn show(&self, view: View) -> Shown {
        *self.lock() = Some(view);
        Shown(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<View>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TenantMetrics {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.debug_struct("TenantMetrics").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct TenantLabels {
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct StoreLabels {
    name: String,
}

/// What is said of one control plane.
struct TenantRow {
    labels: TenantLabels,
    ready: i64,
    keys: Option<i64>,
    bytes: Option<i64>,
    expiry: Option<i64>,
}

/// What is said of one store.
struct StoreRow {
    labels: StoreLabels,
    ready: i64,
    users: Option<i64>,
}

/// Name, help and value of a family.
type Family<R> = (&'static str, &'static str, fn(&R) -> Option<i64>);

const TENANTS: [Family<TenantRow>; 4] = [
    (
        "control_plane_ready",
        "Whether a control plane serves: 1 or 0",
        |row| Some(row.ready),
    ),
    (
        "control_plane_certificate_expiry_timestamp_seconds",
        "When the first certificate of a control plane expires, authorities aside",
        |row| row.expiry,
    ),
    (
        "tenant_store_keys",
        "Keys that a tenant holds in its stores",
        |row| row.keys,
    ),
    (
        "tenant_store_bytes",
        "Bytes of the keys and values that a tenant holds in its stores",
        |row| row.bytes,
    ),
];

const STORES: [Family<StoreRow>; 2] = [
    (
        "data_store_ready",
        "Whether a store can be used: 1 or 0",
        |row| Some(row.ready),
    ),
    (
        "data_store_users",
        "Control planes that keep their state in a store",
        |row| row.users,
    ),
];

impl Collector for TenantMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(view) = self.lock().clone() else {
            return Ok(());
        };
        let rows = view.tenants();
        for family in TENANTS {
            encode(
                &mut encoder,
                family,
                rows.iter().map(|row| (&row.labels, row)),
            )?;
        }
        let rows = view.stores();
        for family in STORES {
            encode(
                &mut encoder,
                family,
                rows.iter().map(|row| (&row.labels, row)),
            )?;
        }
        Ok(())
    }
}

fn encode<'a, L: EncodeLabelSet + 'a, R: 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, value): Family<R>,
    rows: impl Iterator<Item = (&'a L, &'a R)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, row) in rows {
        if let Some(value) = value(row) {
            family.encode_family(labels)?.encode_gauge(&value)?;
        }
    }
    Ok(())
}

impl View {
    fn tenants(&self) -> Vec<TenantRow> {
        let planes = self.planes.state();
        let mut rows: Vec<_> = planes.iter().map(|plane| self.tenant(plane)).collect();
        rows.sort_by(|one, other| one.labels.cmp(&other.labels));
        rows
    }

    fn tenant(&self, plane: &TenantControlPlane) -> TenantRow {
        let figures = self
            .figures
            .tenant(plane.metadata.uid.as_deref().unwrap_or_default());
        let usage = figures.usage;
        let status = plane.status.as_ref();
        TenantRow {
            labels: TenantLabels {
                namespace: plane.namespace().unwrap_or_default(),
                name: plane.name_any(),
            },
            ready: ready(status.map(|status| status.conditions.as_slice())),
            keys: usage.and_then(|usage| usage.keys.try_into().ok()),
            bytes: usage.and_then(|usage| usage.bytes.try_into().ok()),
            expiry: figures.expiry.map(jiff::Timestamp::as_second),
        }
    }

    fn stores(&self) -> Vec<StoreRow> {
        let stores = self.stores.state();
        let row = |store: &Arc<DataStore>| {
            let status = store.status.as_ref();
            StoreRow {
                labels: StoreLabels {
                    name: store.name_any(),
                },
                ready: ready(status.map(|status| status.conditions.as_slice())),
                users: status.and_then(|status| status.users),
            }
        };
        let mut rows: Vec<_> = stores.iter().map(row).collect();
        rows.sort_by(|one, other| one.labels.cmp(&other.labels));
        rows
    }
}

fn ready(conditions: Option<&[Condition]>) -> i64 {
    i64::from(conditions.is_some_and(|held| conditions::is_true(held, "Ready")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use kube::runtime::{reflector::store::Writer, watcher::Event};
    use serde_json::{Value, json};

    use super::*;
    use crate::{metering::steps::Measurement, store::usage::Usage};

    fn plane(name: &str, ready: &str) -> TenantControlPlane {
        let mut plane = json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1",
            "kind": "TenantControlPlane",
            "metadata": {"namespace": "a", "name": name, "uid": name},
            "spec": {"controlPlane": {"service": {"serviceType": "ClusterIP"}}, "kubernetes": {"version": "v1.35.4"}},
        });
        plane["status"] = json!({"conditions": [condition(ready)]});
        serde_json::from_value(plane).unwrap()
    }

    fn condition(ready: &str) -> Value {
        json!({"type": "Ready", "status": ready, "reason": "X", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_tenant_that_is_gone_has_no_series_and_neither_has_anybody_without_the_lease() {
        let (mut planes, stores) = (Writer::default(), Writer::default());
        planes.apply_watcher_event(&Event::Apply(plane("blue", "True")));
        planes.apply_watcher_event(&Event::Apply(plane("green", "False")));
        let figures = Arc::new(Figures::default());
        let second = Timestamp::from_second(1_800_000_000).unwrap();
        let usage = Usage {
            keys: 7,
            bytes: 700,
        };
        for name in ["blue", "green"] {
            let measurement = Measurement { usage, at: second };
            let stores = BTreeSet::from(["main".to_owned()]);
            figures.measured(name, "main", measurement, &stores);
            figures.expires(name, Some(second));
        }
        let metrics = Metrics::default();
        let tenants = TenantMetrics::new(&metrics);
        let shown = tenants.show(View {
            planes: planes.as_reader(),
            stores: stores.as_reader(),
            figures,
        });
        let text = metrics.encode().unwrap();
        for line in [
            r#"steward_control_plane_ready{namespace="a",name="blue"} 1"#,
            r#"steward_control_plane_ready{namespace="a",name="green"} 0"#,
            r#"steward_tenant_store_keys{namespace="a",name="blue"} 7"#,
            r#"steward_tenant_store_bytes{namespace="a",name="green"} 700"#,
            r#"steward_control_plane_certificate_expiry_timestamp_seconds{namespace="a",name="blue"} 1800000000"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        planes.apply_watcher_event(&Event::Delete(plane("blue", "True")));
        let text = metrics.encode().unwrap();
        assert!(!text.contains("blue"), "{text}");
        assert!(text.contains("green"), "{text}");
        drop(shown);
        let text = metrics.encode().unwrap();
        assert!(!text.contains("green"), "{text}");
    }
}
