//! What an addon would change in the management cluster, without changing it: by the same account as the controller, so that
//! what it may not do is seen before.

use butler_api::butler::{AddonDefinition, ManagementAddon};
use butler_runtime::clock::SharedClock;
use kube::{Client, Config};

use super::{
    account::{Account, Management},
    asked,
};
use crate::tenant_addon::preview::{Preview, PreviewError, Tools, foresee};

/// Asks what `addon` would change in the cluster of `config`.
pub async fn preview(
    config: &Config,
    client: &Client,
    clock: SharedClock,
    tools: &Tools<'_>,
    addon: &ManagementAddon,
    definition: Option<&AddonDefinition>,
) -> Result<Preview, PreviewError> {
    let (_, asked) = asked(client, addon, definition).await??;
    let account = Account::new(client.clone(), Some(Management::from(config)), clock);
    let (kubeconfig, client) = account.get().await??;
    foresee(tools, &asked, definition, &kubeconfig, &client).await
}
