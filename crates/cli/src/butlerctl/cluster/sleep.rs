//! `hibernate` and `wake`: nothing of a cluster runs, and all of it again.

use butler_api::butler::TenantCluster;
use serde_json::json;

use super::{
    super::{connection::Access, failure::Failure, output},
    change::{self, Edit},
    wait::Wait,
};

/// The cluster that sleeps or wakes.
#[derive(clap::Args)]
pub(crate) struct Sleeper {
    /// Name of the cluster
    name: String,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) async fn hibernate(args: &Sleeper, access: &Access) -> Result<(), Failure> {
    set(args, access, true).await
}

pub(crate) async fn wake(args: &Sleeper, access: &Access) -> Result<(), Failure> {
    set(args, access, false).await
}

async fn set(args: &Sleeper, access: &Access, asleep: bool) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = connection.cluster(&args.name).await?;
    let title = connection.title(&args.name);
    let edit = switch(&cluster, asleep);
    let changed = change::write(&connection, &cluster, &args.name, &edit).await?;
    output::line(&match (edit.is_empty(), asleep) {
        (true, true) => format!("{title} is to sleep already"),
        (true, false) => format!("{title} is to be awake already"),
        (false, true) => format!("{title} goes to sleep; its data is kept"),
        (false, false) => format!("{title} wakes"),
    })?;
    if !asleep && has_schedules(&cluster) {
        output::line("its schedules still decide when it sleeps: see spec.hibernation.schedules")?;
    }
    args.wait
        .until_settled(&connection, &args.name, &changed)
        .await
}

fn has_schedules(cluster: &TenantCluster) -> bool {
    let hibernation = cluster.spec.hibernation.as_ref();
    hibernation.is_some_and(|held| !held.schedules.is_empty())
}

/// The change that lets a cluster sleep or wake.
fn switch(cluster: &TenantCluster, asleep: bool) -> Edit {
    match &cluster.spec.hibernation {
        Some(held) => Edit::replace(
            "/spec/hibernation/enabled",
            json!(held.enabled),
            json!(asleep),
        ),
        None if asleep => Edit::add(cluster, "/spec/hibernation", json!({"enabled": true})),
        None => Edit::replace("/spec/hibernation", json!(null), json!(null)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn cluster(hibernation: &Value) -> TenantCluster {
        let object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "uid": "1", "resourceVersion": "7"},
            "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}, "hibernation": hibernation},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_cluster_without_settings_for_sleep_gets_them_unless_somebody_was_quicker() {
        let edit = switch(&cluster(&Value::Null), true);
        assert_eq!(
            edit.patch("1"),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "1"},
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/spec/hibernation", "value": {"enabled": true}},
            ])
        );
    }

    #[test]
    fn schedules_are_kept_when_a_cluster_is_put_to_sleep_by_hand() {
        let schedules =
            json!({"enabled": false, "schedules": [{"start": "0 20 * * *", "end": "0 6 * * *"}]});
        let edit = switch(&cluster(&schedules), true);
        assert_eq!(
            edit.patch("1")
                .as_array()
                .and_then(|steps| steps.last().cloned()),
            Some(json!({"op": "replace", "path": "/spec/hibernation/enabled", "value": true}))
        );
    }

    #[test]
    fn nothing_is_written_for_a_cluster_that_is_so_already() {
        assert!(switch(&cluster(&Value::Null), false).is_empty());
        assert!(switch(&cluster(&json!({"enabled": true})), true).is_empty());
    }
}
