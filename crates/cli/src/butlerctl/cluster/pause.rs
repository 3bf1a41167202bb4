//! `pause` and `resume`: nothing of a cluster is changed, and everything that was asked for meanwhile is.

use butler_api::butler::TenantCluster;
use serde_json::json;

use super::{
    super::{connection::Access, failure::Failure, output},
    change::{self, Edit},
};

/// The cluster that is paused or goes on.
#[derive(clap::Args)]
pub(crate) struct Pauser {
    /// Name of the cluster
    name: String,
}

pub(crate) async fn pause(args: &Pauser, access: &Access) -> Result<(), Failure> {
    set(args, access, true).await
}

pub(crate) async fn resume(args: &Pauser, access: &Access) -> Result<(), Failure> {
    set(args, access, false).await
}

async fn set(args: &Pauser, access: &Access, paused: bool) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = connection.cluster(&args.name).await?;
    let title = connection.title(&args.name);
    let edit = switch(&cluster, paused);
    change::write(&connection, &cluster, &args.name, &edit).await?;
    output::line(&match (edit.is_empty(), paused) {
        (true, true) => format!("{title} is paused already"),
        (true, false) => format!("{title} is not paused"),
        (false, true) => format!("{title} is paused; what runs goes on running"),
        (false, false) => format!("{title} goes on"),
    })
}

/// The change that pauses a cluster or lets it go on.
fn switch(cluster: &TenantCluster, paused: bool) -> Edit {
    let field = "/spec/paused";
    match (cluster.spec.paused, paused) {
        // Not said is not paused.
        (false, true) => Edit::add(cluster, field, json!(true)),
        (held, paused) => Edit::replace(field, json!(held), json!(paused)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(paused: bool) -> TenantCluster {
        let object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "uid": "1", "resourceVersion": "7"},
            "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}, "paused": paused},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pause_is_written_unless_somebody_was_quicker() {
        assert_eq!(
            switch(&cluster(false), true).patch("1"),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "1"},
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/spec/paused", "value": true},
            ])
        );
        assert_eq!(
            switch(&cluster(true), false).patch("1"),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "1"},
                {"op": "test", "path": "/spec/paused", "value": true},
                {"op": "replace", "path": "/spec/paused", "value": false},
            ])
        );
    }

    #[test]
    fn nothing_is_written_for_a_cluster_that_is_so_already() {
        assert!(switch(&cluster(true), true).is_empty());
        assert!(switch(&cluster(false), false).is_empty());
    }
}
