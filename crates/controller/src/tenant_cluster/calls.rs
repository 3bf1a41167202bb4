//! A look at what is called inside a cluster, before an upgrade takes it away.

use butler_capi::{
    TenantSpec,
    day2::{Calls, removed_in, upgrade_removes_apis},
    names::Identity,
    observe::Observed,
};
use butler_runtime::error::{ApiError, chain};
use jiff::Timestamp;
use kube::{api::GetParams, core::Request};

use super::{Controller, inside::Unreached};

impl Controller {
    /// The APIs that are called and gone with the release that is wanted, where an upgrade is about to begin.
    pub(super) async fn look_at_calls(
        &self,
        spec: &TenantSpec,
        observed: &Observed,
        now: Timestamp,
    ) -> Calls {
        if !upgrade_removes_apis(spec, observed, now) {
            return Calls::Unasked;
        }
        match self.metrics(&spec.identity).await {
            Ok(Some(metrics)) => Calls::Counted(removed_in(spec.version, &metrics)),
            // A control plane without a kubeconfig is not one of ours, and is not asked.
            Ok(None) => Calls::Unasked,
            Err(trouble) => Calls::Unanswered(chain(&trouble)),
        }
    }

    /// What the API server of a tenant counts.
    async fn metrics(&self, identity: &Identity) -> Result<Option<String>, Unreached> {
        let Some(tenant) = self.inside(identity).await? else {
            return Ok(None);
        };
        let told = ApiError::of("get", "metrics of", identity.cluster());
        let asked = async {
            let request = Request::new("").get("metrics", &GetParams::default());
            tenant
                .request_text(request.map_err(kube::Error::BuildRequest)?)
                .await
        };
        Ok(Some(asked.await.map_err(told)?))
    }
}
