//! What a team uses of its limits: what its clusters were granted, by which limits are judged as well. Pure.

use std::fmt::Display;

use butler_api::{
    butler::team::{QuotaStatus, ResourceUsage},
    types::Quantity,
};
use butler_capi::quota::{Sizes, TeamLimits, Total};
use butler_runtime::conditions::Verdict;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// From so many of a hundred on, a limit is said to be near.
const NEAR: i128 = 80;

/// What is reported.
pub(super) struct Report {
    pub(super) usage: ResourceUsage,
    pub(super) status: QuotaStatus,
    pub(super) message: Option<String>,
    pub(super) verdict: Verdict,
}

/// One limit that is near, reached or passed, in thousandths.
struct Measure {
    percent: i128,
    is_above: bool,
    said: String,
}

pub(super) fn report(limits: &TeamLimits, held: &[Sizes]) -> Report {
    let total = held.iter().fold(Total::default(), Total::with);
    let clusters = u32::try_from(held.len()).unwrap_or(u32::MAX);
    let measures = [
        count("clusters", clusters, limits.clusters),
        count("workers", total.nodes, limits.nodes),
        amount("CPUs", total.cpu, limits.cpu),
        amount("memory", total.memory, limits.memory),
        amount("storage", total.disk, limits.disk),
    ];
    let percent = |measure: &Option<Measure>| {
        let percent = measure.as_ref()?.percent;
        Some(i32::try_from(percent).unwrap_or(i32::MAX))
    };
    let [of_clusters, of_nodes, of_cpu, of_memory, _] = &measures;
    let usage = ResourceUsage {
        clusters: Some(whole(clusters)),
        total_nodes: Some(whole(total.nodes)),
        total_cpu: Some(text(total.cpu)),
        total_memory: Some(text(total.memory)),
        total_storage: Some(text(total.disk)),
        cluster_utilization: percent(of_clusters),
        node_utilization: percent(of_nodes),
        cpu_utilization: percent(of_cpu),
        memory_utilization: percent(of_memory),
    };
    let list = |wanted: &dyn Fn(&Measure) -> bool| {
        let found = measures.iter().flatten().filter(|it| wanted(it));
        found
            .map(|it| it.said.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (above, near) = (list(&|it| it.is_above), list(&|it| it.percent >= NEAR));
    let by = &limits.set_by;
    let (status, message) = if !above.is_empty() {
        let said = format!(
            "more is in use than {by} allows: {above}; raise the limit, or remove clusters or workers"
        );
        (QuotaStatus::Exceeded, Some(said))
    } else if !near.is_empty() {
        (
            QuotaStatus::Warning,
            Some(format!("near the limits of {by}: {near}")),
        )
    } else {
        (QuotaStatus::Ok, None)
    };
    let verdict = match status {
        QuotaStatus::Exceeded => Verdict::yes(
            "QuotaExceeded",
            "QuotaExceeded",
            message.clone().unwrap_or_default(),
        ),
        QuotaStatus::Warning | QuotaStatus::Ok => Verdict::no(
            "QuotaExceeded",
            "WithinQuota",
            "the team is within its limits",
        ),
    };
    Report {
        usage,
        status,
        message,
        verdict,
    }
}

fn whole(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn text(amount: Quantity) -> IntOrString {
    IntOrString::String(amount.to_string())
}

fn count(what: &str, used: u32, limit: Option<u32>) -> Option<Measure> {
    let limit = limit?;
    Some(measure(what, (&used, used.into()), (&limit, limit.into())))
}

fn amount(what: &str, used: Quantity, limit: Option<Quantity>) -> Option<Measure> {
    let limit = limit?;
    Some(measure(
        what,
        (&used, used.milli()),
        (&limit, limit.milli()),
    ))
}

fn measure(what: &str, used: (&dyn Display, i128), limit: (&dyn Display, i128)) -> Measure {
    Measure {
        // Nothing may be had of a limit of zero: every bit is far above it.
        percent: used.1.saturating_mul(100) / limit.1.max(1),
        is_above: used.1 > limit.1,
        said: format!("{} of {} {what}", used.0, limit.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sizes(workers: u32) -> Sizes {
        let pool = json!({"workers": {"most": workers, "cpu": 4, "memory": "8Gi", "disk": "50Gi"}});
        serde_json::from_value(pool).unwrap()
    }

    fn limits(clusters: u32, nodes: u32) -> TeamLimits {
        TeamLimits {
            set_by: "Team rockets".to_owned(),
            clusters: Some(clusters),
            nodes: Some(nodes),
            memory: Some("100Gi".parse().unwrap()),
            ..TeamLimits::default()
        }
    }

    #[test]
    fn what_clusters_were_granted_is_added_up_and_compared_with_each_limit() {
        let said = report(&limits(10, 10), &[sizes(2), sizes(3)]);
        assert_eq!(
            json!(said.usage),
            json!({
                "clusters": 2, "totalNodes": 5, "totalCPU": "20", "totalMemory": "40Gi", "totalStorage": "250Gi",
                "clusterUtilization": 20, "nodeUtilization": 50, "memoryUtilization": 40,
            })
        );
        assert_eq!((said.status, said.message), (QuotaStatus::Ok, None));
        assert_eq!(said.verdict.reason, "WithinQuota");
    }

    #[test]
    fn a_limit_that_is_near_is_named_and_one_that_was_lowered_below_what_is_used_too() {
        let near = report(&limits(10, 6), &[sizes(2), sizes(3)]);
        assert_eq!(near.status, QuotaStatus::Warning);
        assert_eq!(
            near.message.unwrap(),
            "near the limits of Team rockets: 5 of 6 workers"
        );
        let full = report(&limits(2, 10), &[sizes(2), sizes(3)]);
        assert_eq!(
            full.status,
            QuotaStatus::Warning,
            "what is full is not exceeded"
        );
        let above = report(&limits(1, 10), &[sizes(2), sizes(3)]);
        assert_eq!(above.status, QuotaStatus::Exceeded);
        assert!(above.message.unwrap().contains("2 of 1 clusters"));
        assert_eq!(above.usage.cluster_utilization, Some(200));
        assert_eq!(above.verdict.reason, "QuotaExceeded");
    }

    #[test]
    fn a_limit_of_nothing_is_kept_by_a_team_that_has_nothing() {
        let said = report(&limits(0, 0), &[]);
        assert_eq!(said.status, QuotaStatus::Ok);
        assert_eq!(said.usage.clusters, Some(0));
        assert_eq!(
            report(&limits(0, 9), &[sizes(1)]).status,
            QuotaStatus::Exceeded
        );
    }
}
