//! `scale` and `upgrade`: one field each, and only if it still is what was seen.

use butler_api::{
    butler::{TenantCluster, tenant_cluster::DEFAULT_POOL},
    types::KubeVersion,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    super::{
        NAME,
        connection::{Access, Connection, within},
        failure::{Code, Failure},
    },
    wait::{self, Answer},
};

/// How many workers a cluster shall have.
#[derive(clap::Args)]
pub(crate) struct Scale {
    /// Name of the cluster
    name: String,
    /// How many workers; zero leaves a cluster that only has its API
    #[arg(short, long, value_name = "NUMBER")]
    workers: u16,
    /// The pool that is meant
    #[arg(long, default_value = DEFAULT_POOL, value_name = "NAME")]
    pool: String,
    #[command(flatten)]
    answer: Answer,
}

/// Which release a cluster shall run.
#[derive(clap::Args)]
pub(crate) struct Upgrade {
    /// Name of the cluster
    name: String,
    /// The release, such as v1.35.4: a later one, at most one minor version on
    #[arg(long, visible_alias = "version", value_name = "VERSION")]
    to: KubeVersion,
    #[command(flatten)]
    answer: Answer,
}

/// A change of one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edit {
    /// Where the field is, as a JSON pointer.
    field: String,
    /// What it was when the change was decided on; nothing where it was not there.
    before: Value,
    /// What it becomes.
    after: Value,
    /// What else must still hold, so that the pointer means the same field.
    given: Vec<(String, Value)>,
}

pub(crate) async fn scale(args: &Scale, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = connection.cluster(&args.name).await?;
    let title = connection.title(&args.name);
    let edit = resize(&cluster, &title, &args.pool, args.workers)?;
    let changed = write(&connection, &cluster, &args.name, &edit).await?;
    let (before, after) = (&edit.before, &edit.after);
    let said = if before == after {
        format!("{title}: pool {} has {after} workers already", args.pool)
    } else {
        format!(
            "{title}: pool {} goes from {before} to {after} workers",
            args.pool
        )
    };
    let answer = &args.answer;
    answer.give(&connection, &args.name, &changed, &said).await
}

pub(crate) async fn upgrade(args: &Upgrade, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = connection.cluster(&args.name).await?;
    let title = connection.title(&args.name);
    let edit = move_to(&cluster, &title, args.to)?;
    let changed = write(&connection, &cluster, &args.name, &edit).await?;
    let from = wait::running(&cluster).unwrap_or(&cluster.spec.kubernetes_version);
    let said = if edit.is_empty() {
        format!("{title} is to run {} already", args.to)
    } else {
        format!("{title} goes from {from} to {}", args.to)
    };
    let answer = &args.answer;
    answer.give(&connection, &args.name, &changed, &said).await
}

/// The change that gives a pool this many workers.
pub(crate) fn resize(
    cluster: &TenantCluster,
    title: &str,
    pool: &str,
    workers: u16,
) -> Result<Edit, Failure> {
    let edit = |field: String, before: i32, given: Vec<(String, Value)>| Edit {
        field,
        before: json!(before),
        after: json!(workers),
        given,
    };
    let spec = &cluster.spec;
    if pool == DEFAULT_POOL {
        let field = "/spec/workers/replicas".to_owned();
        return Ok(edit(field, spec.workers.replicas, Vec::new()));
    }
    let found = spec
        .worker_pools
        .iter()
        .enumerate()
        .find(|(_, it)| it.name == pool);
    let Some((index, found)) = found else {
        let names: Vec<&str> = std::iter::once(DEFAULT_POOL)
            .chain(spec.worker_pools.iter().map(|it| it.name.as_str()))
            .collect();
        return Err(Failure::new(
            Code::NotFound,
            format!(
                "{title} has no pool {pool}; its pools are {}",
                names.join(", ")
            ),
        ));
    };
    let Some(replicas) = found.replicas else {
        return Err(Failure::refused(format!(
            "pool {pool} of {title} is sized by the autoscaler, from {} to {} workers: change minReplicas and maxReplicas instead",
            found.min_replicas.unwrap_or(0),
            found.max_replicas.unwrap_or(0)
        )));
    };
    let at = format!("/spec/workerPools/{index}");
    // Somebody may have put another pool in this place meanwhile.
    let given = vec![(format!("{at}/name"), json!(pool))];
    Ok(edit(format!("{at}/replicas"), replicas, given))
}

/// The change that moves a cluster to a release, if it can be reached from the one that runs.
pub(crate) fn move_to(
    cluster: &TenantCluster,
    title: &str,
    to: KubeVersion,
) -> Result<Edit, Failure> {
    let wanted = &cluster.spec.kubernetes_version;
    let running = wait::running(cluster).unwrap_or(wanted);
    let from: KubeVersion = running.parse().map_err(|error| {
        Failure::new(
            Code::Failed,
            format!("{title} reports a release that cannot be read: {error}"),
        )
    })?;
    if !from.can_upgrade_to(to) {
        let reason = if to < from {
            "a control plane never goes back to an older release".to_owned()
        } else if to.major() != from.major() {
            "a cluster stays on its major version".to_owned()
        } else {
            format!(
                "only one minor version at a time: upgrade to a release of v{}.{} first",
                from.major(),
                from.minor() + 1
            )
        };
        return Err(Failure::refused(format!(
            "{title} runs {from} and cannot go to {to}: {reason}"
        )));
    }
    let field = "/spec/kubernetesVersion";
    Ok(Edit::replace(field, json!(wanted), json!(to)))
}

impl Edit {
    /// A field that is there becomes something else.
    pub(crate) fn replace(field: &str, before: Value, after: Value) -> Self {
        Self {
            field: field.to_owned(),
            before,
            after,
            given: Vec::new(),
        }
    }

    /// A field that is not there is added, unless anything was changed meanwhile.
    pub(crate) fn add(seen: &TenantCluster, field: &str, after: Value) -> Self {
        let version = json!(seen.metadata.resource_version);
        Self {
            given: vec![("/metadata/resourceVersion".to_owned(), version)],
            ..Self::replace(field, Value::Null, after)
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.before == self.after
    }

    /// The patch: nothing is written unless everything is still as it was seen.
    pub(crate) fn patch(&self, uid: &str) -> Value {
        let test = |path: &str, value: &Value| json!({"op": "test", "path": path, "value": value});
        let mut steps = vec![test("/metadata/uid", &json!(uid))];
        steps.extend(self.given.iter().map(|(path, value)| test(path, value)));
        let verb = if self.before.is_null() {
            "add"
        } else {
            steps.push(test(&self.field, &self.before));
            "replace"
        };
        steps.push(json!({"op": verb, "path": self.field, "value": self.after}));
        Value::Array(steps)
    }

    /// Whether the cluster is no longer what the change was decided on.
    fn is_overtaken(&self, uid: &str, cluster: &TenantCluster) -> bool {
        let now = serde_json::to_value(cluster).unwrap_or_default();
        let differs =
            |path: &str, value: &Value| now.pointer(path).unwrap_or(&Value::Null) != value;
        cluster.metadata.uid.as_deref() != Some(uid)
            || differs(&self.field, &self.before)
            || self.given.iter().any(|(path, value)| differs(path, value))
    }

    /// The cluster as it would be.
    pub(crate) fn applied_to(&self, cluster: &TenantCluster) -> TenantCluster {
        let mut value = serde_json::to_value(cluster).unwrap_or_default();
        if let Some(field) = value.pointer_mut(&self.field) {
            field.clone_from(&self.after);
        }
        serde_json::from_value(value).unwrap_or_else(|_| cluster.clone())
    }
}

/// The patch that puts an annotation on exactly the cluster that was seen, and as whom.
pub(super) fn annotation(seen: &TenantCluster, name: &str) -> (PatchParams, Patch<Value>) {
    let change = json!({"metadata": {
        "uid": seen.metadata.uid,
        "annotations": {name: "true"},
    }});
    (as_butlerctl(), Patch::Merge(change))
}

fn as_butlerctl() -> PatchParams {
    PatchParams {
        field_manager: Some(NAME.to_owned()),
        ..PatchParams::default()
    }
}

/// Writes the field, and answers with the cluster as it then is.
pub(super) async fn write(
    connection: &Connection,
    seen: &TenantCluster,
    name: &str,
    edit: &Edit,
) -> Result<TenantCluster, Failure> {
    let title = connection.title(name);
    if seen.metadata.deletion_timestamp.is_some() {
        return Err(Failure::refused(format!(
            "{title} is being removed: it cannot be changed any more"
        )));
    }
    if edit.is_empty() {
        return Ok(seen.clone());
    }
    let uid = seen.metadata.uid.as_deref().unwrap_or_default();
    let patch: json_patch::Patch =
        serde_json::from_value(edit.patch(uid)).expect("a patch that is made here is a JSON patch");
    let parameters = as_butlerctl();
    let (api, patch) = (connection.clusters(), Patch::Json::<()>(patch));
    let written = within(
        &format!("change {title}"),
        api.patch(name, &parameters, &patch),
    )
    .await;
    match written {
        // The API server says of a test that failed only that the request is not right.
        Err(Failure {
            code: Code::Refused,
            ..
        }) if edit.is_overtaken(uid, &connection.cluster(name).await?) => {
            Err(Failure::refused(format!(
                "somebody else changed {title} at the same moment, and nothing was written: look at it, then repeat the command"
            )))
        }
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(spec: &Value, running: Option<&str>) -> TenantCluster {
        let mut object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "uid": "1"},
            "spec": {"kubernetesVersion": "v1.34.4", "workers": {"replicas": 3}},
            "status": {"observedState": {"kubernetesVersion": running}},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn refusal(result: Result<Edit, Failure>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_patch_changes_one_field_and_only_if_it_still_is_what_was_seen() {
        let cluster = cluster(
            &json!({"workerPools": [{"name": "gpu", "replicas": 1}]}),
            None,
        );
        let edit = resize(&cluster, "demo", "gpu", 2).unwrap();
        assert_eq!(
            edit.patch("1"),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "1"},
                {"op": "test", "path": "/spec/workerPools/0/name", "value": "gpu"},
                {"op": "test", "path": "/spec/workerPools/0/replicas", "value": 1},
                {"op": "replace", "path": "/spec/workerPools/0/replicas", "value": 2},
            ])
        );
        assert!(!edit.is_overtaken("1", &cluster));
        assert!(edit.is_overtaken("2", &cluster));
        assert!(edit.is_overtaken("1", &edit.applied_to(&cluster)));
    }

    #[test]
    fn a_pool_that_is_not_there_is_answered_with_those_that_are() {
        let cluster = cluster(
            &json!({"workerPools": [{"name": "gpu", "replicas": 1}]}),
            None,
        );
        let text = refusal(resize(&cluster, "demo", "cpu", 2));
        assert!(text.contains("workers, gpu"), "{text}");
    }

    #[test]
    fn a_pool_of_the_autoscaler_is_not_resized_by_hand() {
        let pools = json!({"workerPools": [{"name": "gpu", "minReplicas": 1, "maxReplicas": 4}]});
        let text = refusal(resize(&cluster(&pools, None), "demo", "gpu", 2));
        assert!(
            text.contains("autoscaler") && text.contains("from 1 to 4"),
            "{text}"
        );
    }

    #[test]
    fn a_release_is_judged_from_the_one_that_runs_and_not_from_the_one_that_is_wanted() {
        let cluster = cluster(&json!({"kubernetesVersion": "v1.35.4"}), Some("v1.34.4"));
        let to = |text: &str| move_to(&cluster, "demo", text.parse().unwrap());
        assert!(to("v1.35.1").is_ok(), "not begun, so it may be another");
        assert!(to("v1.34.4").is_ok(), "not begun, so it may be taken back");
        assert!(refusal(to("v1.36.0")).contains("a release of v1.35 first"));
        assert!(refusal(to("v1.34.3")).contains("never goes back"));
        assert!(refusal(to("v2.35.0")).contains("major version"));
    }
}
