//! Names and labels of everything a tenant cluster becomes, spelled once.
//!
//! Identity is the UID: every object carries it as a label, and only what carries it is ever pruned.

use std::collections::BTreeMap;

use butler_api::{butler::TenantCluster, names, types::ClusterName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::{core, object::digest};

/// How many characters of the UID a tenant namespace carries.
const SUFFIX: usize = 8;

/// Who a tenant cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: ClusterName,
    /// Namespace of the `TenantCluster`.
    pub namespace: String,
    /// UID of the `TenantCluster`.
    pub uid: String,
    /// Team.
    pub team: Option<String>,
    /// Environment of the team.
    pub environment: Option<String>,
    /// Person who owns it.
    pub owner: Option<String>,
}

impl Identity {
    /// Who a cluster is that has a name which can be used.
    pub fn new(name: ClusterName, cluster: &TenantCluster) -> Self {
        let metadata = &cluster.metadata;
        let find = |all: &Option<BTreeMap<String, String>>, key: &str| {
            all.as_ref().and_then(|all| all.get(key)).cloned()
        };
        let team = cluster.spec.team_ref.as_ref();
        Self {
            name,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            team: team.map(|team| team.name.clone()),
            environment: find(&metadata.labels, names::ENVIRONMENT),
            owner: find(&metadata.annotations, names::OWNER),
        }
    }

    /// The namespace of everything the cluster is made of: `{name}-{suffix}`.
    ///
    /// The suffix is the start of the UID, so that a cluster that is made again under the same name never meets
    /// what is left of the earlier one.
    pub fn tenant_namespace(&self) -> String {
        tenant_namespace(self.name.as_str(), &self.uid)
    }

    /// Name of the Cluster, its control plane and its infrastructure.
    pub fn cluster(&self) -> &str {
        self.name.as_str()
    }

    /// Name of the Secret with its kubeconfig, which Cluster API prescribes.
    pub fn kubeconfig(&self) -> String {
        format!("{}-kubeconfig", self.name)
    }

    /// Name of the Secret with the token that machines without a bootstrap provider join with.
    pub fn join(&self) -> String {
        format!("{}-join", self.name)
    }

    /// Name of the Secret with what Talos machines trust.
    pub fn trust(&self) -> String {
        format!("{}-trustd-creds", self.name)
    }

    /// Name of a pool's `MachineDeployment`.
    pub fn pool(&self, pool: &str) -> String {
        format!("{}-{pool}", self.name)
    }

    /// Name of something that must not change: new content is a new name.
    pub fn content(&self, pool: &str, content: &Value) -> String {
        let digest: String = digest(content).chars().take(10).collect();
        format!("{}-{pool}-{digest}", self.name)
    }

    /// Labels by which everything of this cluster is found again.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            (names::MANAGED_BY.to_owned(), names::BUTLER.to_owned()),
            (names::OWNER_UID.to_owned(), self.uid.clone()),
            (names::TENANT.to_owned(), self.name.to_string()),
            (names::SOURCE_NAME.to_owned(), self.name.to_string()),
            (names::SOURCE_NAMESPACE.to_owned(), self.namespace.clone()),
        ]);
        let optional = [
            (names::TEAM, &self.team),
            (names::ENVIRONMENT, &self.environment),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                labels.insert(key.to_owned(), value.clone());
            }
        }
        labels
    }

    /// Metadata of an object in the tenant namespace.
    pub fn metadata(&self, name: &str) -> ObjectMeta {
        let mut labels = self.labels();
        labels.insert(core::CLUSTER_NAME.to_owned(), self.name.to_string());
        let owner = self.owner.clone();
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.tenant_namespace()),
            labels: Some(labels),
            annotations: owner.map(|owner| BTreeMap::from([(names::OWNER.to_owned(), owner)])),
            ..ObjectMeta::default()
        }
    }

    /// Metadata of an object that belongs to one pool.
    pub fn pool_metadata(&self, name: &str, pool: &str) -> ObjectMeta {
        let mut metadata = self.metadata(name);
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(names::POOL.to_owned(), pool.to_owned());
        metadata
    }
}

/// The tenant namespace of the cluster with this name and UID.
pub fn tenant_namespace(name: &str, uid: &str) -> String {
    let suffix: String = uid.chars().take(SUFFIX).collect();
    format!("{name}-{suffix}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(name: &str) -> Identity {
        Identity {
            name: name.parse().unwrap(),
            namespace: "team-a".to_owned(),
            uid: "a7b8c9d0-1111-2222-3333-444455556666".to_owned(),
            team: None,
            environment: None,
            owner: None,
        }
    }

    #[test]
    fn a_tenant_namespace_is_the_name_and_the_start_of_the_uid() {
        assert_eq!(
            identity("production").tenant_namespace(),
            "production-a7b8c9d0"
        );
    }

    #[test]
    fn new_content_is_a_new_name_and_the_same_content_the_same_name() {
        let cluster = identity("demo");
        let name = |cpu: i32| cluster.content("workers", &json!({ "cpu": cpu }));
        assert_eq!(name(4), name(4));
        assert_ne!(name(4), name(8));
        assert!(name(4).starts_with("demo-workers-"));
    }

    #[test]
    fn the_longest_name_still_fits_a_namespace() {
        let longest = "a".repeat(butler_api::types::names::CLUSTER_NAME_MAX);
        assert!(identity(&longest).tenant_namespace().len() <= 63);
    }
}
