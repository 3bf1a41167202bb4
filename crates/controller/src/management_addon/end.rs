//! The end of an addon of the management cluster: its release goes first.

use butler_addons::plan::Step;
use butler_api::{butler::ManagementAddon, names::FORCE_DELETE};
use butler_runtime::{controller::Wake, error::chain, finalizers};
use kube::ResourceExt;

use super::{Controller, view};
use crate::tenant_addon::{PassError, dependencies, say};

impl Controller {
    pub(super) async fn end(&self, addon: &ManagementAddon) -> Result<Wake, PassError> {
        if !finalizers::has(addon, butler_api::names::ADDON_FINALIZER) {
            return Ok(Wake::OnChange);
        }
        let forced = addon.annotations().get(FORCE_DELETE);
        if forced.is_some_and(|said| said == "true") {
            return self.let_go(addon).await;
        }
        let shadow = view::tenant_addon(addon);
        let wait = |message| say::leaving(message, Wake::After(say::ASK));
        if let Some(other) = dependencies::goes_before(&shadow, &view::entries(&self.feeds)) {
            let report = wait(format!("waits for ManagementAddon {other} to go"));
            return self.report(addon, report).await;
        }
        let (kubeconfig, client) = match self.account.get().await? {
            Ok(found) => found,
            // Without it nothing was ever installed, or somebody took the permissions away since.
            Err(_)
                if addon
                    .status
                    .iter()
                    .all(|status| status.helm_release.is_none()) =>
            {
                return self.let_go(addon).await;
            }
            Err(trouble) => {
                let message = format!(
                    "the release cannot be removed: {}; or annotate with {FORCE_DELETE}=true to leave it there",
                    trouble.message
                );
                return self.report(addon, wait(message)).await;
            }
        };
        let definition = view::definition(&self.feeds, addon);
        let target = view::release(addon, definition.as_deref());
        let step = self
            .addons
            .remove_release(&shadow, &client, kubeconfig, target)
            .await;
        let report = match step {
            Ok(None) => return self.let_go(addon).await,
            Ok(Some(Step::Retry(failure))) => wait(failure.message),
            Ok(Some(_)) => say::leaving("the release is being removed".to_owned(), Wake::OnChange),
            Err(error) => wait(format!(
                "the release cannot be removed: {}; annotate with {FORCE_DELETE}=true to leave it there",
                chain(&error)
            )),
        };
        self.report(addon, report).await
    }
}
