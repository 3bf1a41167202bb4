//! What has to be done for the platform's configuration. Pure.

use std::collections::BTreeMap;

use butler_api::common::ExposureMode;
use butler_runtime::{
    conditions::{Truth, Verdict},
    controller::Wake,
};
use k8s_openapi::api::core::v1::Namespace;

use crate::namespaces::{self, Standing};

/// The configuration, with its defaults filled in.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Identity.
    pub uid: String,
    /// Whether every cluster belongs to a team.
    pub teams_enforced: bool,
    /// Where clusters without a team live.
    pub default_namespace: String,
    /// How tenant API servers are reached.
    pub exposure: ExposureMode,
}

/// What was observed.
#[derive(Clone, Debug)]
pub struct World {
    /// The default namespace.
    pub namespace: Standing,
    /// How many teams there are.
    pub teams: usize,
    /// How many clusters are in each phase.
    pub clusters: BTreeMap<String, usize>,
}

/// What to do with the default namespace.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub enum NamespaceStep {
    /// Nothing.
    Leave,
    /// Make it; it must not exist.
    Create(Box<Namespace>),
    /// Bring it to this.
    Apply(Box<Namespace>),
}

/// What to do, completely.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Plan {
    /// What to do with the default namespace.
    pub namespace: NamespaceStep,
    /// The conditions to report.
    pub verdicts: Vec<Verdict>,
    /// Whether tenants need the proxy that gives in-cluster clients a way to a shared address.
    pub tcp_proxy_required: bool,
    /// When to look again.
    pub wake: Wake,
}

/// Decides.
pub fn plan(spec: &Spec, world: &World) -> Plan {
    let (namespace, verdict) = namespace(spec, world);
    let ready = match verdict.status {
        Truth::True => Verdict::yes("Ready", "Configured", "the configuration is in effect"),
        Truth::False | Truth::Unknown => {
            Verdict::no("Ready", verdict.reason, verdict.message.clone())
        }
    };
    Plan {
        namespace,
        verdicts: vec![verdict, ready],
        tcp_proxy_required: match spec.exposure {
            ExposureMode::LoadBalancer => false,
            ExposureMode::Ingress | ExposureMode::Gateway => true,
        },
        wake: Wake::OnChange,
    }
}

/// Where every cluster has a team there is no place for clusters without one.
fn namespace(spec: &Spec, world: &World) -> (NamespaceStep, Verdict) {
    const TYPE: &str = "NamespaceReady";
    let name = &spec.default_namespace;
    if spec.teams_enforced {
        let message = "every cluster belongs to a team, so no default namespace is needed";
        return (
            NamespaceStep::Leave,
            Verdict::yes(TYPE, "NotNeeded", message),
        );
    }
    let wanted = || {
        let labels = namespaces::owned_labels(&spec.uid);
        Box::new(namespaces::namespace(
            name,
            labels,
            "Clusters that belong to no team",
        ))
    };
    match &world.namespace {
        Standing::Missing => (
            NamespaceStep::Create(wanted()),
            Verdict::yes(TYPE, "Created", format!("namespace {name} exists")),
        ),
        Standing::Ours(_) => (
            NamespaceStep::Apply(wanted()),
            Verdict::yes(TYPE, "Created", format!("namespace {name} exists")),
        ),
        // Made by a person for this purpose: used, and left as it is.
        Standing::Foreign => (
            NamespaceStep::Leave,
            Verdict::yes(
                TYPE,
                "Found",
                format!("namespace {name} exists and is left as it is"),
            ),
        ),
        Standing::Ending => (
            NamespaceStep::Leave,
            Verdict::no(
                TYPE,
                "NamespaceEnding",
                format!("namespace {name} is being deleted"),
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            uid: "1234".to_owned(),
            teams_enforced: false,
            default_namespace: "butler-tenants".to_owned(),
            exposure: ExposureMode::LoadBalancer,
        }
    }

    fn decide(spec: &Spec, namespace: Standing) -> Plan {
        plan(
            spec,
            &World {
                namespace,
                teams: 0,
                clusters: BTreeMap::new(),
            },
        )
    }

    #[test]
    fn a_missing_namespace_is_made_and_a_foreign_one_is_used_as_it_is() {
        assert!(matches!(
            decide(&spec(), Standing::Missing).namespace,
            NamespaceStep::Create(_)
        ));
        let found = decide(&spec(), Standing::Foreign);
        assert_eq!(found.namespace, NamespaceStep::Leave);
        assert_eq!(found.verdicts[1].reason, "Configured");
    }

    #[test]
    fn where_every_cluster_has_a_team_no_namespace_is_made() {
        let enforced = Spec {
            teams_enforced: true,
            ..spec()
        };
        assert_eq!(
            decide(&enforced, Standing::Missing).namespace,
            NamespaceStep::Leave
        );
    }

    #[test]
    fn a_shared_address_needs_the_proxy() {
        let shared = Spec {
            exposure: ExposureMode::Gateway,
            ..spec()
        };
        assert!(decide(&shared, Standing::Foreign).tcp_proxy_required);
        assert!(!decide(&spec(), Standing::Foreign).tcp_proxy_required);
    }
}
