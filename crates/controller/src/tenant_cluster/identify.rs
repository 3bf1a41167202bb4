//! Nodes get the ids of their machines, where nobody else gives them.

use butler_capi::{
    TenantSpec,
    names::Identity,
    nodes::{self, NodeState},
    observe::Observed,
};
use butler_runtime::error::{ApiError, chain};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{Controller, inside::Unreached};
use crate::MANAGER;

impl Controller {
    /// Gives Nodes the ids of their machines, where machines wait for that. The plan says when to look again.
    pub(super) async fn identify_nodes(&self, spec: &TenantSpec, observed: &Observed) {
        if !nodes::are_awaited(spec, observed) {
            return;
        }
        if let Err(trouble) = self.give_ids(&spec.identity, observed).await {
            tracing::warn!(
                error = chain(&trouble),
                "Nodes could not be given the ids of their machines yet"
            );
        }
    }

    async fn give_ids(&self, identity: &Identity, observed: &Observed) -> Result<(), Unreached> {
        let Some(tenant) = self.inside(identity).await? else {
            return Ok(());
        };
        let cluster = identity.cluster();
        let api: Api<Node> = Api::all(tenant);
        let found = api.list(&ListParams::default()).await;
        let found = found.map_err(ApiError::of("list", "Nodes of", cluster))?;
        let found: Vec<NodeState> = found.items.into_iter().map(NodeState::from).collect();
        let parameters = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        for (name, id) in nodes::missing_provider_ids(&found, &observed.machines) {
            // An id that somebody else gave in between cannot be changed, so this would be refused.
            let change = json!({ "spec": { "providerID": id } });
            let given = api.patch(&name, &parameters, &Patch::Merge(&change)).await;
            given.map_err(ApiError::of("patch", "Node", &name))?;
            tracing::info!(
                cluster,
                node = name,
                id,
                "a Node was given its machine's id"
            );
        }
        Ok(())
    }
}
