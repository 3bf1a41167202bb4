//! Metering: what each tenant holds in its stores, measured in rounds.
//!
//! One round after the other over all stores, tenant by tenant, one request at a time in each store and mostly at
//! rest: no pass of a tenant waits for it, and no store feels it. Keys are counted in every round, which etcd does
//! from its index; sizes need every value to be read, so that happens when keys came or went, and once an hour.
//!
//! Exact figures go to metrics. The status of a tenant is written by its own controller, which is told when a figure
//! has moved by a step; the first round of a process tells nobody, so that a restart writes nothing.

mod figures;
pub(crate) mod steps;

use std::{collections::HashSet, sync::Arc, time::Duration};

use butler_api::steward::TenantControlPlane;
use butler_runtime::{backoff::spread, chance::chance, clock::SharedClock, error::chain};
pub(crate) use figures::Figures;
use futures::{StreamExt, channel::mpsc::UnboundedSender, stream};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use steps::Measurement;
use tokio::time::sleep;

use crate::{
    Feeds,
    data_store::{
        Directory,
        users::{Tenant, tenants},
    },
    store::{
        Error, Session, at_leisure,
        usage::{Measured, Meter, Trust, Usage, count_keys, measure},
    },
};

/// Stores that are visited at the same time.
const STORES: usize = 4;
/// Bytes of one request, about: a page.
const PAGE: u64 = 1;
/// The first round comes this much sooner, so that metrics are not empty for long after a start.
const SOON: u32 = 10;

/// Measures tenants, round after round.
pub(crate) struct Metering {
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) clock: SharedClock,
    /// The time between rounds, about.
    pub(crate) round: Duration,
    /// Control planes whose status should say something else.
    pub(crate) news: UnboundedSender<ObjectRef<TenantControlPlane>>,
}

/// Whether anybody is told of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    MetricsOnly,
    Everybody,
}

impl Metering {
    /// Goes on for as long as it is polled.
    pub(crate) async fn run(self) {
        sleep(spread(self.round / SOON, chance())).await;
        self.round(Telling::MetricsOnly).await;
        loop {
            sleep(spread(self.round, chance())).await;
            self.round(Telling::Everybody).await;
        }
    }

    async fn round(&self, telling: Telling) {
        let planes = self.feeds.control_planes.store().state();
        let known = self.feeds.stores.store().state();
        let known: HashSet<String> = known.iter().map(|store| store.name_any()).collect();
        let present = planes.iter().filter_map(|plane| plane.uid()).collect();
        self.figures.keep(&present, &known);
        let mut tenants = tenants(&planes);
        // A store that nobody uses any more is visited too: it holds nothing.
        let visits = known.into_iter().map(|store| {
            let tenants = tenants.remove(&store).unwrap_or_default();
            async move { self.visit(&store, &tenants, telling).await }
        });
        stream::iter(visits)
            .for_each_concurrent(STORES, |visit| visit)
            .await;
    }

    /// Measures the tenants of one store.
    async fn visit(&self, store: &str, tenants: &[Tenant], telling: Telling) {
        let mut total = Usage::default();
        for tenant in tenants {
            let entry = self.directory.get(store);
            let ready = entry.filter(|entry| entry.verdict.is_ready());
            // What is not known is not guessed: the total stays as it was.
            let Some(place) = ready.and_then(|entry| entry.store) else {
                return;
            };
            match self.measure(store, &place.session, tenant).await {
                Ok(measurement) => {
                    total += measurement.usage;
                    self.record(store, tenant, measurement, telling);
                }
                Err(error) => {
                    tracing::warn!(store, tenant = %tenant.plane, error = chain(&error), "could not measure a tenant");
                    return;
                }
            }
        }
        if telling == Telling::Everybody {
            self.figures.set_total(store, total);
        }
    }

    async fn measure(
        &self,
        store: &str,
        session: &Session,
        tenant: &Tenant,
    ) -> Result<Measurement, Error> {
        let identity = &tenant.identity;
        let keys = at_leisure(count_keys(session, identity, Trust::Member)).await?;
        let last = self.figures.tenant(tenant.uid()).measured;
        let last = last.get(store).copied();
        let now = self.clock.now();
        if let Some(usage) = steps::still(last, keys, now) {
            let at = last.map_or(now, |last| last.at);
            return Ok(Measurement { usage, at });
        }
        let mut meter = Meter::new(identity);
        loop {
            let part = at_leisure(measure(session, &mut meter, PAGE)).await?;
            if let Measured::Whole(usage) = part {
                return Ok(Measurement { usage, at: now });
            }
        }
    }

    fn record(&self, store: &str, tenant: &Tenant, measurement: Measurement, telling: Telling) {
        let quiet = telling == Telling::MetricsOnly || tenant.asleep || tenant.leaving;
        let uid = tenant.uid();
        let Some(usage) = self
            .figures
            .measured(uid, store, measurement, &tenant.stores)
        else {
            return;
        };
        let pending = self.figures.tenant(uid).news;
        let news = steps::news(tenant.usage.as_ref(), pending, usage, self.clock.now());
        let news = news.filter(|_| !quiet);
        let told = news.is_some();
        self.figures.tell(uid, news);
        if told {
            // Nobody listens only when everything ends.
            let _ = self.news.unbounded_send(tenant.plane.clone());
        }
    }
}
