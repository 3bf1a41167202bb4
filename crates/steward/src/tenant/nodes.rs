//! Which releases the kubelets of a tenant run, for the skew check before an upgrade.

use std::{str::FromStr as _, time::Duration};

use butler_api::types::KubeVersion;
use kube::{Client, api::ListParams, core::Request};
use serde::Deserialize;

use super::error::{TenantError, within};

/// Nodes carry long lists of images; a page of them stays well below what a client may read at once.
const PAGE: u32 = 50;

/// What is known of a tenant's nodes. It stays small however many there are, as long as they say their release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeVersions {
    /// How many nodes there are.
    pub nodes: usize,
    /// A node with the oldest kubelet.
    pub oldest: Option<NodeVersion>,
    /// A node with the newest kubelet.
    pub newest: Option<NodeVersion>,
    /// Nodes whose kubelets do not say a release that can be understood.
    pub unknown: Vec<String>,
}

/// The kubelet of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVersion {
    /// Its node.
    pub node: String,
    /// Its release.
    pub version: KubeVersion,
}

/// Reads the releases of all kubelets; each page may take `limit`.
///
/// # Errors
/// When the tenant could not be read.
pub async fn node_versions(client: &Client, limit: Duration) -> Result<NodeVersions, TenantError> {
    let mut versions = NodeVersions::default();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = within(limit, "list", "Node", "all", page(client, &params)).await?;
        page.items.into_iter().for_each(|node| versions.add(node));
        match page.metadata.next.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(versions),
        }
    }
}

async fn page(client: &Client, params: &ListParams) -> Result<Page, kube::Error> {
    let request = Request::new("/api/v1/nodes")
        .list(params)
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

impl NodeVersions {
    fn add(&mut self, node: Node) {
        self.nodes += 1;
        let Some(version) = release(&node.status.node_info.kubelet_version) else {
            self.unknown.push(node.metadata.name);
            return;
        };
        let found = NodeVersion {
            node: node.metadata.name,
            version,
        };
        if self
            .oldest
            .as_ref()
            .is_none_or(|oldest| version < oldest.version)
        {
            self.oldest = Some(found.clone());
        }
        if self
            .newest
            .as_ref()
            .is_none_or(|newest| version > newest.version)
        {
            self.newest = Some(found);
        }
    }
}

/// The release of a kubelet, without what distributions add: `v1.34.1+k3s1`, `v1.33.5-eks-3abbec1`.
fn release(text: &str) -> Option<KubeVersion> {
    let plain = text.split(['+', '-']).next()?;
    KubeVersion::from_str(plain).ok()
}

/// As little of a node as the check needs: a whole one takes tens of kilobytes.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<Node>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Node {
    metadata: NodeMetadata,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize)]
struct NodeMetadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn versions(kubelets: &[&str]) -> NodeVersions {
        let mut versions = NodeVersions::default();
        for (number, kubelet) in kubelets.iter().enumerate() {
            let node = json!({ "metadata": { "name": format!("n{number}") }, "status": { "nodeInfo": { "kubeletVersion": kubelet } } });
            versions.add(serde_json::from_value(node).unwrap());
        }
        versions
    }

    #[test]
    fn the_oldest_and_the_newest_kubelet_are_found_by_number() {
        let found = versions(&["v1.34.2", "v1.33.10", "v1.33.9", "v1.35.0"]);
        assert_eq!(found.nodes, 4);
        assert_eq!(found.oldest.unwrap().node, "n2");
        assert_eq!(found.newest.unwrap().node, "n3");
    }

    #[test]
    fn releases_of_distributions_are_understood_and_others_are_named() {
        let found = versions(&["v1.34.1+k3s1", "v1.33.5-eks-3abbec1", "unknown", ""]);
        assert_eq!(found.oldest.unwrap().version, KubeVersion::new(1, 33, 5));
        assert_eq!(found.newest.unwrap().version, KubeVersion::new(1, 34, 1));
        assert_eq!(found.unknown, ["n2", "n3"]);
    }
}
