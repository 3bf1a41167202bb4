//! When a change of a cluster has come true. Pure, but for the waiting itself.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_capi::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::super::{
    connection::Connection,
    failure::{Code, Failure},
    output::{self, Format, clean},
    progress::{self, Limit, Verdict},
};

/// Whether and how long to wait.
#[derive(clap::Args)]
pub(crate) struct Wait {
    /// Wait until it has come true
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 90s or 15m
    #[arg(long, default_value = "15m", value_name = "TIME")]
    timeout: Limit,
}

impl Wait {
    /// Waits, if asked to, until the cluster is as it was asked to be at `generation`.
    pub(crate) async fn until_settled(
        &self,
        connection: &Connection,
        name: &str,
        wanted: &TenantCluster,
    ) -> Result<(), Failure> {
        if !self.wait {
            return Ok(());
        }
        let what = format!("see {} ready", connection.title(name));
        progress::follow(connection.clusters(), name, &what, self.timeout, |seen| {
            judge(seen, wanted)
        })
        .await
    }
}

/// How what was written is answered.
#[derive(clap::Args)]
pub(crate) struct Answer {
    /// How the answer is written
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    wait: Wait,
}

impl Answer {
    /// Says what was written, and waits if asked to; or waits, and writes the cluster as it then is.
    pub(crate) async fn give(
        &self,
        connection: &Connection,
        name: &str,
        written: &TenantCluster,
        said: &str,
    ) -> Result<(), Failure> {
        let Some(syntax) = self.output.syntax() else {
            output::line(said)?;
            return self.wait.until_settled(connection, name, written).await;
        };
        self.wait.until_settled(connection, name, written).await?;
        let cluster = if self.wait.wait {
            connection.cluster(name).await?
        } else {
            written.clone()
        };
        output::data(&clean(cluster), syntax)
    }
}

/// The release that the API server of a cluster runs, as last reported.
pub(crate) fn running(cluster: &TenantCluster) -> Option<&str> {
    let seen = cluster.status.as_ref()?.observed_state.as_ref()?;
    seen.kubernetes_version.as_deref()
}

/// What a cluster says about itself as a whole.
pub(crate) fn ready(cluster: &TenantCluster) -> Option<&Condition> {
    let status = cluster.status.as_ref()?;
    status.conditions.iter().find(|held| held.type_ == "Ready")
}

/// Whether the cluster has become what `wanted` asks for.
fn judge(seen: Option<&TenantCluster>, wanted: &TenantCluster) -> Verdict {
    let Some(cluster) = seen.filter(|cluster| cluster.metadata.uid == wanted.metadata.uid) else {
        return hopeless(Code::NotFound, "somebody removed it meanwhile");
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        return hopeless(Code::Refused, "somebody asked to remove it meanwhile");
    }
    let Some(status) = &cluster.status else {
        return Verdict::Waiting;
    };
    if status.observed_generation < wanted.metadata.generation {
        return Verdict::Waiting;
    }
    // Somebody may lift it, but not this command.
    if cluster.spec.paused {
        return hopeless(
            Code::Refused,
            "it is paused: `butlerctl cluster resume` lets it go on",
        );
    }
    let ready = ready(cluster);
    let says = ready.map_or("no reason was given", |held| held.message.as_str());
    if status.phase == Some(Phase::Failed) {
        return hopeless(Code::Failed, &format!("it failed: {says}"));
    }
    // Somebody has to correct the spec: nothing happens before.
    let is = |reason: Reason| ready.is_some_and(|held| held.reason == reason.as_str());
    if is(Reason::Invalid) {
        return hopeless(
            Code::Refused,
            &format!("its spec cannot be carried out: {says}"),
        );
    }
    if is(Reason::RolloutFailed) {
        return hopeless(
            Code::Failed,
            &format!("its machines could not be replaced: {says}"),
        );
    }
    let asleep = is(Reason::Hibernated);
    let hibernation = wanted.spec.hibernation.as_ref();
    // By a schedule it sleeps whenever it does, and then it is as it was asked to be too.
    let may_sleep = hibernation.is_some_and(|held| held.enabled || !held.schedules.is_empty());
    let must_sleep = hibernation.is_some_and(|held| held.enabled);
    let serves = if asleep {
        may_sleep
    } else {
        !must_sleep && running(cluster) == Some(wanted.spec.kubernetes_version.as_str())
    };
    let holds = ready.is_some_and(|held| held.status == "True");
    if status.phase == Some(Phase::Ready) && holds && serves {
        Verdict::Done
    } else if is(Reason::ActionNeeded) {
        // Nothing goes on before somebody does what the condition says.
        hopeless(Code::Refused, says)
    } else {
        Verdict::Waiting
    }
}

fn hopeless(code: Code, text: &str) -> Verdict {
    Verdict::Hopeless(Failure::new(
        code,
        format!("the cluster does not become ready: {text}"),
    ))
}

#[cfg(test)]
mod tests {
    use butler_api::butler::tenant_cluster::Hibernation;
    use serde_json::{Value, json};

    use super::*;

    fn cluster(generation: i64, version: &str, status: &Value) -> TenantCluster {
        let object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "uid": "1", "generation": generation},
            "spec": {"kubernetesVersion": version, "workers": {"replicas": 1}},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    fn status(generation: i64, phase: &str, running: &str, reason: &str) -> Value {
        let holds = if phase == "Ready" { "True" } else { "False" };
        json!({
            "observedGeneration": generation, "phase": phase, "observedState": {"kubernetesVersion": running},
            "conditions": [{"type": "Ready", "status": holds, "reason": reason, "message": "because",
                            "lastTransitionTime": "2026-11-15T12:00:00Z"}],
        })
    }

    fn verdict(seen: &Value) -> &'static str {
        let wanted = cluster(2, "v1.35.4", &json!({}));
        match judge(Some(&cluster(2, "v1.35.4", seen)), &wanted) {
            Verdict::Done => "done",
            Verdict::Waiting => "waiting",
            Verdict::Hopeless(_) => "hopeless",
        }
    }

    #[test]
    fn a_status_about_an_earlier_spec_proves_nothing() {
        assert_eq!(verdict(&status(1, "Ready", "v1.35.4", "Ready")), "waiting");
        assert_eq!(verdict(&status(2, "Ready", "v1.35.4", "Ready")), "done");
    }

    #[test]
    fn an_upgrade_that_waits_for_its_window_is_not_done() {
        assert_eq!(
            verdict(&status(2, "Ready", "v1.34.4", "Waiting")),
            "waiting"
        );
    }

    #[test]
    fn a_cluster_that_is_put_to_sleep_is_waited_for_until_it_sleeps_and_one_that_wakes_until_it_works()
     {
        let of = |enabled: bool, seen: &Value| {
            let mut wanted = cluster(2, "v1.35.4", &json!({}));
            wanted.spec.hibernation = Some(Hibernation {
                enabled,
                ..Hibernation::default()
            });
            matches!(
                judge(Some(&cluster(2, "v1.35.4", seen)), &wanted),
                Verdict::Done
            )
        };
        let asleep = status(2, "Ready", "", "Hibernated");
        let awake = status(2, "Ready", "v1.35.4", "Ready");
        assert!(of(true, &asleep) && !of(true, &awake));
        assert!(of(false, &awake) && !of(false, &asleep));
    }

    #[test]
    fn what_waiting_does_not_make_better_ends_the_wait() {
        assert_eq!(
            verdict(&status(2, "Failed", "v1.35.4", "Failed")),
            "hopeless"
        );
        assert_eq!(verdict(&status(2, "Pending", "", "Invalid")), "hopeless");
        let held = status(2, "Ready", "v1.34.4", "ActionNeeded");
        assert_eq!(verdict(&held), "hopeless");
        let taken_back = status(2, "Ready", "v1.35.4", "RolloutFailed");
        assert_eq!(verdict(&taken_back), "hopeless");
        // What is left to do has nothing to do with the change.
        let noted = status(2, "Ready", "v1.35.4", "ActionNeeded");
        assert_eq!(verdict(&noted), "done");
        let mut paused = cluster(2, "v1.35.4", &status(2, "Updating", "v1.34.4", "Updating"));
        paused.spec.paused = true;
        assert!(matches!(
            judge(Some(&paused), &paused),
            Verdict::Hopeless(_)
        ));
        let wanted = cluster(1, "v1.35.4", &json!({}));
        assert!(matches!(judge(None, &wanted), Verdict::Hopeless(_)));
        let mut other = cluster(1, "v1.35.4", &json!({}));
        other.metadata.uid = Some("2".to_owned());
        assert!(matches!(judge(Some(&other), &wanted), Verdict::Hopeless(_)));
    }
}
