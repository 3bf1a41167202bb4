//! Which release runs: whether an upgrade may begin, and when it is taken back. Pure.
//!
//! Upstream supports one minor release at a time and no way down, and kubelets that are at most three minor
//! releases older than their API server and never newer.

use butler_api::types::KubeVersion;

use super::state::Progress;

/// How many minor releases a kubelet may be older than its API server.
pub const KUBELET_SKEW: u16 = 3;
/// Nodes that a message names before the rest is only counted.
const NAMED: usize = 5;

/// A node and the release of its kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Release of its kubelet; none when it says nothing that can be understood.
    pub kubelet: Option<KubeVersion>,
}

/// What is known when a release is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The release that last ran on all pods; none before the first one did.
    pub installed: Option<KubeVersion>,
    /// The release in the template of the pods.
    pub deployed: Option<KubeVersion>,
    /// How far the pods of that template have come.
    pub progress: Progress,
    /// The tenant's nodes; none when the tenant could not be asked.
    pub nodes: Option<&'a [Node]>,
    /// Whether the pods that the wanted release would get have failed before: their
    /// [`super::fingerprint`] is the one that was kept. It changes with whatever could help.
    pub failed: bool,
    /// Whether no pods are wanted.
    pub asleep: bool,
}

/// The release to run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The release to run.
    pub version: KubeVersion,
    /// What was decided.
    pub outcome: Outcome,
    /// In a sentence, naming what helps where something is wrong.
    pub message: String,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What is wanted runs, or is made for the first time.
    Settled,
    /// An upgrade begins or goes on.
    Upgrading,
    /// An upgrade begins when something is known that is not known now.
    Waiting,
    /// The wanted release cannot follow the running one.
    Refused,
    /// The pods of the wanted release did not become ready: the last good release runs on.
    RolledBack,
}

impl Outcome {
    /// One word for a condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Settled => "UpToDate",
            Self::Upgrading => "Upgrading",
            Self::Waiting => "UpgradeWaiting",
            Self::Refused => "UpgradeRefused",
            Self::RolledBack => "UpgradeRolledBack",
        }
    }
}

/// Chooses the release to run.
pub fn decide(wanted: KubeVersion, facts: &Facts<'_>) -> Decision {
    let decision = |version, outcome, message| Decision {
        version,
        outcome,
        message,
    };
    let Some(installed) = facts.installed else {
        let message = format!("{wanted} is made for the first time");
        return decision(wanted, Outcome::Settled, message);
    };
    if installed == wanted {
        return decision(
            wanted,
            Outcome::Settled,
            format!("{wanted} is what is wanted"),
        );
    }
    let keep = |outcome, message| decision(installed, outcome, message);
    let under_way = facts.deployed == Some(wanted);
    if facts.failed || (under_way && facts.progress == Progress::Stalled) {
        let message = format!(
            "pods of {wanted} did not become ready in time, and {installed} runs on; look at their logs, then change the spec, for example the version or the flags, to try again"
        );
        return keep(Outcome::RolledBack, message);
    }
    if let Some(message) = no_step(installed, wanted) {
        return keep(Outcome::Refused, message);
    }
    if under_way {
        let message = format!("pods of {wanted} replace those of {installed}");
        return decision(wanted, Outcome::Upgrading, message);
    }
    if facts.asleep {
        let message =
            format!("asleep on {installed}; {wanted} is checked and rolled out when it wakes");
        return keep(Outcome::Waiting, message);
    }
    let Some(nodes) = facts.nodes else {
        let message = format!(
            "{wanted} waits until the tenant's nodes can be seen, whose kubelets must fit it"
        );
        return keep(Outcome::Waiting, message);
    };
    if let Some(message) = skew(wanted, nodes) {
        return keep(Outcome::Refused, message);
    }
    let unknown: Vec<&Node> = nodes.iter().filter(|node| node.kubelet.is_none()).collect();
    if !unknown.is_empty() {
        let message = format!(
            "{wanted} waits until all nodes say a release that can be understood: {}; mend or remove these nodes",
            list(&unknown)
        );
        return keep(Outcome::Waiting, message);
    }
    let message = format!(
        "{wanted} may follow {installed}: {} nodes fit it",
        nodes.len()
    );
    decision(wanted, Outcome::Upgrading, message)
}

/// Why one release cannot follow another.
fn no_step(installed: KubeVersion, wanted: KubeVersion) -> Option<String> {
    if installed.can_upgrade_to(wanted) {
        return None;
    }
    Some(if wanted < installed {
        format!(
            "a control plane cannot go back from {installed} to {wanted}; set the version to {installed} or newer"
        )
    } else {
        let next = installed.minor() + 1;
        format!(
            "{wanted} is more than one minor release ahead of {installed}; go to v1.{next} first"
        )
    })
}

/// Why nodes do not fit a release.
fn skew(wanted: KubeVersion, nodes: &[Node]) -> Option<String> {
    let minor = |node: &Node| node.kubelet.map(KubeVersion::minor);
    let newer = |node: &&Node| minor(node).is_some_and(|minor| minor > wanted.minor());
    let behind = |minor| wanted.minor().saturating_sub(minor);
    let older = |node: &&Node| minor(node).is_some_and(|minor| behind(minor) > KUBELET_SKEW);
    let newer: Vec<&Node> = nodes.iter().filter(newer).collect();
    if !newer.is_empty() {
        return Some(format!(
            "kubelets must not be newer than {wanted}: {}; choose a newer version",
            list(&newer)
        ));
    }
    let older: Vec<&Node> = nodes.iter().filter(older).collect();
    if older.is_empty() {
        return None;
    }
    let oldest = wanted.minor().saturating_sub(KUBELET_SKEW);
    Some(format!(
        "kubelets must be v1.{oldest} or newer for {wanted}: {}; upgrade or remove these nodes first",
        list(&older)
    ))
}

fn list(nodes: &[&Node]) -> String {
    let name = |node: &&Node| match node.kubelet {
        Some(kubelet) => format!("{} runs {kubelet}", node.name),
        None => node.name.clone(),
    };
    let named: Vec<String> = nodes.iter().take(NAMED).map(name).collect();
    match nodes.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
