//! What the catalogue says about an addon, as far as a cluster's plan has to know it.

use std::sync::Arc;

use butler_addons::compatibility::Range;
use butler_api::{butler::AddonDefinition, types::KubeVersion};

/// An entry of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry(Arc<AddonDefinition>);

impl From<Arc<AddonDefinition>> for Entry {
    fn from(definition: Arc<AddonDefinition>) -> Self {
        Self(definition)
    }
}

impl Entry {
    /// The version of whoever names none; nothing for what machines bring along.
    pub fn default_version(&self) -> Option<&str> {
        let chart = self.0.spec.chart.as_ref()?;
        Some(&chart.default_version)
    }

    /// Whether that version spreads by a rollout, which says to each addon when it may have it.
    pub fn spreads(&self) -> bool {
        self.0.spec.rollout.is_some()
    }

    /// The range of a version that does not run on a release of Kubernetes.
    pub fn keeps_from(&self, version: &str, release: KubeVersion) -> Option<&str> {
        let range = self.0.spec.runs_on(version)?;
        let holds = Range::parse(range)?.contains(&release.to_string())?;
        (!holds).then_some(range)
    }
}
