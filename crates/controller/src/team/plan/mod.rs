//! What has to be done for a team. Pure: no client, no clock.

use butler_api::{butler::team::TeamPhase, names, types::TeamName};
use butler_runtime::{
    conditions::{Truth, Verdict},
    controller::Wake,
    events::Note,
};
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{RoleBinding, RoleRef, Subject},
};
use kube::api::ObjectMeta;

use super::members::{Member, Members, Role};
use crate::namespaces::{self, Standing};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Clusters named in a message before the rest is only counted.
const NAMED: usize = 5;

/// A team whose spec was found to be right.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Name, which is also the name of the namespace.
    pub name: TeamName,
    /// Identity.
    pub uid: String,
    /// What people call it.
    pub display_name: String,
    /// Who belongs to it.
    pub members: Members,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What was observed.
#[derive(Clone, Debug)]
pub struct World {
    /// The namespace that the team wants.
    pub namespace: Standing,
    /// Names of the clusters in it.
    pub clusters: Vec<String>,
}

/// What to do with the namespace.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub enum NamespaceStep {
    /// Nothing.
    Leave,
    /// Make it; it must not exist.
    Create(Box<Namespace>),
    /// Bring it to this.
    Apply(Box<Namespace>),
    /// Remove it.
    Delete,
}

/// What to do, completely; nothing is left for the apply step to decide.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Plan {
    /// Whether the team may go now.
    pub release: bool,
    /// What to do with the namespace.
    pub namespace: NamespaceStep,
    /// The bindings that must exist; others of this team are removed.
    pub bindings: Vec<RoleBinding>,
    /// The phase to report.
    pub phase: TeamPhase,
    /// The conditions to report.
    pub verdicts: Vec<Verdict>,
    /// What to tell people.
    pub notes: Vec<Note>,
    /// When to look again.
    pub wake: Wake,
}

/// Decides.
pub fn plan(spec: &Spec, world: &World) -> Plan {
    if spec.deleting {
        end(spec, world)
    } else {
        serve(spec, world)
    }
}

fn serve(spec: &Spec, world: &World) -> Plan {
    let wanted = Box::new(namespace(spec));
    let namespace = match &world.namespace {
        Standing::Missing => NamespaceStep::Create(wanted),
        Standing::Ours(_) => NamespaceStep::Apply(wanted),
        Standing::Ending => return waiting_for_namespace(spec),
        Standing::Foreign => return namespace_taken(spec),
    };
    let count = spec.members.count();
    Plan {
        release: false,
        namespace,
        bindings: bindings(spec),
        phase: TeamPhase::Ready,
        verdicts: vec![
            Verdict::yes(
                "NamespaceReady",
                "Created",
                format!("namespace {} exists", spec.name),
            ),
            Verdict::yes(
                "RBACReady",
                "Bound",
                format!("{count} members have their roles"),
            ),
            Verdict::yes("Ready", "Ready", "members can work"),
        ],
        notes: Vec::new(),
        wake: Wake::OnChange,
    }
}

fn waiting_for_namespace(spec: &Spec) -> Plan {
    let message = format!("an earlier namespace {} is still being deleted", spec.name);
    not_ready(TeamPhase::Pending, "NamespaceEnding", message)
}

fn namespace_taken(spec: &Spec) -> Plan {
    let message = format!(
        "namespace {} exists and does not belong to this team; delete it, or give the team another name",
        spec.name
    );
    let mut plan = not_ready(TeamPhase::Failed, "NamespaceTaken", message.clone());
    plan.notes.push(Note {
        warning: true,
        reason: "NamespaceTaken",
        action: "CreateNamespace",
        message,
    });
    plan
}

fn not_ready(phase: TeamPhase, reason: &'static str, message: String) -> Plan {
    Plan {
        release: false,
        namespace: NamespaceStep::Leave,
        bindings: Vec::new(),
        phase,
        verdicts: vec![
            Verdict::no("NamespaceReady", reason, message.clone()),
            Verdict::no(
                "RBACReady",
                reason,
                "there is no namespace to bind roles in",
            ),
            Verdict::no("Ready", reason, message),
        ],
        notes: Vec::new(),
        wake: Wake::OnChange,
    }
}

/// Clusters first, then the namespace, then the team: a team never takes running clusters with it.
fn end(spec: &Spec, world: &World) -> Plan {
    let blocked = !world.clusters.is_empty();
    let (namespace, reason, message) = match &world.namespace {
        _ if blocked => (
            NamespaceStep::Leave,
            "DeletionBlocked",
            still_there(&world.clusters),
        ),
        Standing::Ours(_) => (
            NamespaceStep::Delete,
            "DeletingNamespace",
            format!("deleting namespace {}", spec.name),
        ),
        Standing::Ending => (
            NamespaceStep::Leave,
            "DeletingNamespace",
            format!("waiting for namespace {} to be gone", spec.name),
        ),
        Standing::Missing | Standing::Foreign => (
            NamespaceStep::Leave,
            "Deleted",
            "nothing of the team is left".to_owned(),
        ),
    };
    let note = blocked.then(|| Note {
        warning: true,
        reason: "DeletionBlocked",
        action: "Delete",
        message: message.clone(),
    });
    Plan {
        release: reason == "Deleted",
        namespace,
        // People keep their access while their clusters are still there.
        bindings: if blocked { bindings(spec) } else { Vec::new() },
        phase: TeamPhase::Terminating,
        verdicts: vec![Verdict {
            type_: "Ready",
            status: Truth::False,
            reason,
            message,
        }],
        notes: note.into_iter().collect(),
        wake: Wake::OnChange,
    }
}

fn still_there(clusters: &[String]) -> String {
    let named: Vec<&str> = clusters.iter().take(NAMED).map(String::as_str).collect();
    let more = match clusters.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "delete the team's clusters first: {}{more}",
        named.join(", ")
    )
}

fn namespace(spec: &Spec) -> Namespace {
    let mut labels = namespaces::owned_labels(&spec.uid);
    labels.insert(names::TEAM.to_owned(), spec.name.to_string());
    let description = format!("Clusters of team {}", spec.display_name);
    namespaces::namespace(spec.name.as_str(), labels, &description)
}

/// One binding for each role that somebody has (ADR-0010).
fn bindings(spec: &Spec) -> Vec<RoleBinding> {
    let roles = Role::ALL
        .into_iter()
        .map(|role| (role, spec.members.with(role)));
    roles
        .filter(|(_, members)| !members.is_empty())
        .map(|(role, members)| binding(spec, role, members.into_iter().map(subject).collect()))
        .collect()
}

fn binding(spec: &Spec, role: Role, subjects: Vec<Subject>) -> RoleBinding {
    let mut labels = namespaces::owned_labels(&spec.uid);
    labels.insert(names::TEAM.to_owned(), spec.name.to_string());
    RoleBinding {
        metadata: ObjectMeta {
            name: Some(role.binding_name().to_owned()),
            namespace: Some(spec.name.to_string()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.binding_name().to_owned(),
        },
        subjects: Some(subjects),
    }
}

pub(crate) fn subject(member: &Member) -> Subject {
    let (kind, name) = match member {
        Member::User(name) => ("User", name),
        Member::Group(name) => ("Group", name),
    };
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.clone(),
        namespace: None,
    }
}

#[cfg(test)]
mod tests;
