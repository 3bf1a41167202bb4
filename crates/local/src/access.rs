//! What the agent and controllers on the host may do in the management cluster: a kubeconfig for each part, and no more
//! rights than the part needs. All are certificates that kubeadm signs, made anew by every `up`.

use butler_machine::provider::rbac as provider;
use butler_runtime::rbac::{RBAC, READ, rule};
use serde_json::{Value, json};

use crate::{
    error::{Error, succeeded},
    node::Node,
    platform::Platform,
    settings::write_private,
};

/// The one who makes the network.
const AGENT: &str = "butler-agent";

impl Platform {
    /// Lets the agent see what the network is made from, and write addresses of Services.
    pub(crate) fn admit_agent(&self, node: &Node) -> Result<(), Error> {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": agent_role() });
        self.apply(&list.to_string())?;
        let kubeconfig = issue(node, AGENT)?;
        write_private(&self.paths.agent_kubeconfig(), &kubeconfig)
            .map_err(Error::on("write the agent's kubeconfig"))
    }

    /// Lets the agent look after machines, as the account that the chart has a role for.
    pub(crate) fn admit_provider(&self, node: &Node) -> Result<(), Error> {
        let kubeconfig = account_kubeconfig(node, provider::NAMESPACE, provider::ACCOUNT)?;
        write_private(&self.paths.provider_kubeconfig(), &kubeconfig)
            .map_err(Error::on("write the provider's kubeconfig"))
    }
}

/// A kubeconfig with the rights of a service account.
pub(crate) fn account_kubeconfig(
    node: &Node,
    namespace: &str,
    name: &str,
) -> Result<String, Error> {
    issue(node, &format!("system:serviceaccount:{namespace}:{name}"))
}

fn issue(node: &Node, user: &str) -> Result<String, Error> {
    let command = [
        "kubeadm",
        "kubeconfig",
        "user",
        "--config=/etc/kubeadm.yaml",
        "--client-name",
        user,
    ];
    succeeded(
        &format!("issue a kubeconfig for {user}"),
        node.run(&command),
    )
}

fn agent_role() -> [Value; 2] {
    let rules = [
        rule(&[""], &["nodes", "services", "pods"], &READ),
        rule(&[""], &["services/status"], &["patch"]),
        // Kubeconfigs of tenants, by the names of their Clusters.
        rule(&[""], &["secrets"], &["get"]),
    ];
    let api = format!("{RBAC}/v1");
    let metadata = json!({ "name": AGENT });
    [
        json!({ "apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules }),
        json!({
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": AGENT },
            "subjects": [{ "kind": "User", "name": AGENT, "apiGroup": RBAC }],
        }),
    ]
}
