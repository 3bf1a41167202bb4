//! The status of a `StewardControlPlane`, in the terms of the contract. Pure.

use butler_api::{
    controlplane::{
        StewardControlPlane,
        steward_control_plane::{ControlPlaneInitialization, StewardControlPlaneStatus},
    },
    steward::{
        TenantControlPlane,
        tenant_control_plane::status::{DeploymentStatus, State, VersionStatus},
    },
};
use butler_runtime::conditions::{self, Verdict};
use jiff::Timestamp;

use crate::{data_store::users, workload::upgrade::Outcome};

const AVAILABLE: &str = "Available";
const READY: &str = "Ready";
const PAUSED: &str = "Paused";
const ROLLING_OUT: &str = "RollingOut";
const SCALING_UP: &str = "ScalingUp";
const SCALING_DOWN: &str = "ScalingDown";
const DELETING: &str = "Deleting";
const UP_TO_DATE: &str = "UpToDate";
const STORE_AS_WANTED: &str = "StoreAsWanted";
/// Whether the infrastructure cluster knows the address.
pub(super) const INFRASTRUCTURE: &str = "InfrastructureClusterPatched";

/// What a pass found out besides what the hosted control plane says of itself.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Why the pass could not go on: a word and a sentence.
    pub(super) waits: Option<(&'static str, String)>,
    /// Whether the address and both Secrets stand.
    pub(super) handed_over: bool,
    /// About the infrastructure cluster, where there is one.
    pub(super) infrastructure: Option<Verdict>,
}

/// The next status of a control plane that is being worked on.
pub(super) fn status(
    plane: &StewardControlPlane,
    tenant: Option<&TenantControlPlane>,
    findings: Findings,
    now: Timestamp,
) -> StewardControlPlaneStatus {
    let held = plane.status.clone().unwrap_or_default();
    let (version, deployment) = observed(tenant);
    // Cluster API connects the moment it is said, and comes back half a minute after it was refused: so not before the
    // tenant knows who its administrators are.
    let first = findings.handed_over && serves(version.status) && is_furnished(tenant);
    let initialized = is_initialized(&held) || first;
    let next = StewardControlPlaneStatus {
        external_managed_control_plane: Some(true),
        initialization: Some(ControlPlaneInitialization {
            control_plane_initialized: Some(initialized),
        }),
        initialized: Some(initialized),
        ready: Some(serves(version.status)),
        ..held.clone()
    };
    let next = match tenant {
        // What was last seen stays until something is seen again.
        None => next,
        Some(_) => StewardControlPlaneStatus {
            version: version.version.clone().or(held.version),
            ..replicas(next, &deployment, plane.spec.replicas)
        },
    };
    let mut verdicts = verdicts(plane, tenant, version.status, &findings);
    verdicts.extend(changes(plane, version.status, &deployment));
    verdicts.extend(up_to_date(tenant));
    verdicts.extend(store_as_wanted(plane, tenant));
    verdicts.extend(findings.infrastructure);
    let generation = plane.metadata.generation;
    StewardControlPlaneStatus {
        observed_generation: generation,
        conditions: conditions::settle(&held.conditions, &verdicts, generation, now),
        ..next
    }
}

/// The next status of a control plane that nothing may be done to: only that is said, the rest stays.
pub(super) fn paused(
    plane: &StewardControlPlane,
    reason: String,
    now: Timestamp,
) -> StewardControlPlaneStatus {
    let held = plane.status.clone().unwrap_or_default();
    let generation = plane.metadata.generation;
    let verdict = Verdict::yes(PAUSED, "Paused", reason);
    let said = conditions::settle(&held.conditions, &[verdict], generation, now);
    let others = held.conditions.iter().filter(|held| held.type_ != PAUSED);
    StewardControlPlaneStatus {
        conditions: others.cloned().chain(said).collect(),
        ..held
    }
}

fn is_initialized(held: &StewardControlPlaneStatus) -> bool {
    let held = held.initialization.as_ref();
    held.and_then(|held| held.control_plane_initialized) == Some(true)
}

/// Whether everything that nodes and people find in the tenant cluster stands.
fn is_furnished(tenant: Option<&TenantControlPlane>) -> bool {
    let status = tenant.and_then(|tenant| tenant.status.as_ref());
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    conditions.any(|held| held.type_ == "TenantReady" && held.status == "True")
}

fn observed(tenant: Option<&TenantControlPlane>) -> (VersionStatus, DeploymentStatus) {
    let status = tenant.and_then(|tenant| tenant.status.as_ref());
    let resources = status.and_then(|status| status.kubernetes_resources.clone());
    let resources = resources.unwrap_or_default();
    (
        resources.version.unwrap_or_default(),
        resources.deployment.unwrap_or_default(),
    )
}

fn replicas(
    next: StewardControlPlaneStatus,
    pods: &DeploymentStatus,
    wanted: i32,
) -> StewardControlPlaneStatus {
    // The API leaves a count of zero out.
    let count = |count: Option<i32>| Some(count.unwrap_or(0));
    let available = pods.available_replicas.unwrap_or(0);
    StewardControlPlaneStatus {
        selector: pods.selector.clone().or(next.selector),
        replicas: count(pods.replicas),
        ready_replicas: count(pods.ready_replicas),
        available_replicas: Some(available),
        up_to_date_replicas: count(pods.updated_replicas),
        updated_replicas: count(pods.updated_replicas),
        unavailable_replicas: Some(wanted.saturating_sub(available).max(0)),
        ..next
    }
}

/// Whether requests are answered.
fn serves(state: Option<State>) -> bool {
    match state {
        Some(State::Ready | State::WriteLimited | State::Upgrading) => true,
        Some(
            State::Provisioning
            | State::CertificateAuthorityRotating
            | State::Migrating
            | State::NotReady
            | State::Sleeping
            | State::Unknown,
        )
        | None => false,
    }
}

fn verdicts(
    plane: &StewardControlPlane,
    tenant: Option<&TenantControlPlane>,
    state: Option<State>,
    findings: &Findings,
) -> Vec<Verdict> {
    let unpaused = Verdict::no(PAUSED, "NotPaused", "changes are carried out");
    let available = if serves(state) {
        Verdict::yes(AVAILABLE, "Available", "the API server answers")
    } else if plane.spec.replicas == 0 {
        let message = "it sleeps: spec.replicas is 0, its data is kept";
        Verdict::no(AVAILABLE, "Sleeping", message)
    } else if let Some((reason, message)) = &findings.waits {
        Verdict::no(AVAILABLE, reason, message.clone())
    } else {
        Verdict::no(AVAILABLE, "NotAvailable", why_not(tenant))
    };
    let ready = match &findings.waits {
        Some((reason, message)) => Verdict::no(READY, reason, message.clone()),
        None => Verdict {
            type_: READY,
            ..available.clone()
        },
    };
    vec![ready, available, unpaused]
}

/// What is going on, in the words that Cluster API sums up over a Cluster.
fn changes(
    plane: &StewardControlPlane,
    state: Option<State>,
    pods: &DeploymentStatus,
) -> [Verdict; 4] {
    let count = pods.replicas.unwrap_or(0);
    let current = pods.updated_replicas.unwrap_or(0);
    let wanted = plane.spec.replicas;
    let rolling = if state == Some(State::Upgrading) || current < count {
        let message = format!("{current} of {count} replicas are up to date");
        Verdict::yes(ROLLING_OUT, "RollingOut", message)
    } else {
        Verdict::no(ROLLING_OUT, "NotRollingOut", "all replicas are up to date")
    };
    let steady = format!("there are {count} replicas");
    let up = if count < wanted {
        let message = format!("from {count} to {wanted} replicas");
        Verdict::yes(SCALING_UP, "ScalingUp", message)
    } else {
        Verdict::no(SCALING_UP, "NotScalingUp", steady.clone())
    };
    // While pods are replaced there is one more than wanted for a while.
    let down = if count > wanted && current == count {
        let message = format!("from {count} to {wanted} replicas");
        Verdict::yes(SCALING_DOWN, "ScalingDown", message)
    } else {
        Verdict::no(SCALING_DOWN, "NotScalingDown", steady)
    };
    let deleting = if plane.metadata.deletion_timestamp.is_some() {
        Verdict::yes(DELETING, "Deleting", "it was asked for")
    } else {
        Verdict::no(DELETING, "NotDeleting", "nobody asked for it")
    };
    [rolling, up, down, deleting]
}

/// What the hosted control plane says about its release. Requests are answered whatever it says.
fn up_to_date(tenant: Option<&TenantControlPlane>) -> Option<Verdict> {
    let status = tenant?.status.as_ref()?;
    let said = status
        .conditions
        .iter()
        .find(|held| held.type_ == UP_TO_DATE)?;
    let known = [
        Outcome::Settled,
        Outcome::Upgrading,
        Outcome::Waiting,
        Outcome::Refused,
        Outcome::RolledBack,
    ];
    let outcome = known
        .into_iter()
        .find(|known| known.reason() == said.reason)?;
    let (reason, message) = (outcome.reason(), said.message.clone());
    Some(if outcome == Outcome::Settled {
        Verdict::yes(UP_TO_DATE, reason, message)
    } else {
        Verdict::no(UP_TO_DATE, reason, message)
    })
}

/// Says so where another store is asked for than the one that has the data.
fn store_as_wanted(
    plane: &StewardControlPlane,
    tenant: Option<&TenantControlPlane>,
) -> Option<Verdict> {
    let held = users::store_of(tenant?)?;
    let asked = plane.spec.settings.data_store_name.as_deref();
    let asked = asked.filter(|asked| !asked.is_empty() && *asked != held)?;
    let message = format!(
        "the data is in DataStore {held} and is served from there; moving it to {asked} is not supported: set spec.dataStoreName back to {held}"
    );
    Some(Verdict::no(
        STORE_AS_WANTED,
        "MigrationNotSupported",
        message,
    ))
}

/// What the hosted control plane says about it.
fn why_not(tenant: Option<&TenantControlPlane>) -> String {
    let status = tenant.and_then(|tenant| tenant.status.as_ref());
    let said = status.and_then(|status| status.conditions.iter().find(|held| held.type_ == READY));
    let said = said.filter(|said| said.status != "True" && !said.message.is_empty());
    said.map_or_else(
        || "the API server does not answer".to_owned(),
        |said| said.message.clone(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plane(replicas: i32) -> StewardControlPlane {
        let mut plane = StewardControlPlane::default();
        plane.spec.replicas = replicas;
        plane
    }

    fn tenant(state: &str) -> TenantControlPlane {
        let mut tenant = TenantControlPlane::default();
        let resources = json!({"version": {"version": "v1.35.4", "status": state}, "deployment": {"replicas": 2}});
        let furnished = json!({
            "type": "TenantReady", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({"kubernetesResources": resources, "conditions": [furnished]});
        tenant.status = serde_json::from_value(status).unwrap();
        tenant
    }

    fn report(
        plane: &StewardControlPlane,
        state: &str,
        handed_over: bool,
    ) -> StewardControlPlaneStatus {
        let findings = Findings {
            handed_over,
            ..Findings::default()
        };
        status(plane, Some(&tenant(state)), findings, Timestamp::UNIX_EPOCH)
    }

    fn initialized(status: &StewardControlPlaneStatus) -> bool {
        is_initialized(status)
    }

    #[test]
    fn initialization_waits_for_the_secrets_and_the_tenants_rights_and_never_goes_back() {
        let mut plane = plane(2);
        assert!(!initialized(&report(&plane, "Ready", false)));
        assert!(!initialized(&report(&plane, "Provisioning", true)));
        let mut bare = tenant("Ready");
        if let Some(status) = &mut bare.status {
            status.conditions.clear();
        }
        let findings = Findings {
            handed_over: true,
            ..Findings::default()
        };
        let early = status(&plane, Some(&bare), findings, Timestamp::UNIX_EPOCH);
        assert!(!initialized(&early));
        let first = report(&plane, "Ready", true);
        assert!(initialized(&first));
        plane.status = Some(first);
        assert!(initialized(&report(&plane, "NotReady", false)));
    }

    #[test]
    fn every_count_is_said_even_when_it_is_zero() {
        let status = report(&plane(3), "Provisioning", false);
        assert_eq!(status.replicas, Some(2));
        assert_eq!(status.ready_replicas, Some(0));
        assert_eq!(status.available_replicas, Some(0));
        assert_eq!(status.up_to_date_replicas, Some(0));
        assert_eq!(status.unavailable_replicas, Some(3));
    }

    #[test]
    fn sleep_is_a_state_and_not_a_failure() {
        let status = report(&plane(0), "Sleeping", true);
        let available = status
            .conditions
            .iter()
            .find(|held| held.type_ == AVAILABLE);
        assert_eq!(available.unwrap().reason, "Sleeping");
        assert_eq!(status.unavailable_replicas, Some(0));
    }

    #[test]
    fn a_refused_upgrade_is_told_and_takes_nothing_from_what_serves() {
        let mut tenant = tenant("Ready");
        let refused = json!({
            "type": "UpToDate", "status": "False", "reason": "UpgradeRefused", "message": "too new",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        if let Some(status) = &mut tenant.status {
            status
                .conditions
                .push(serde_json::from_value(refused).unwrap());
        }
        let findings = Findings::default();
        let status = status(&plane(2), Some(&tenant), findings, Timestamp::UNIX_EPOCH);
        assert!(conditions::is_true(&status.conditions, READY));
        let told = status
            .conditions
            .iter()
            .find(|held| held.type_ == UP_TO_DATE);
        let told = told.map(|held| (held.status.as_str(), held.reason.as_str()));
        assert_eq!(told, Some(("False", "UpgradeRefused")));
    }

    #[test]
    fn another_store_than_the_one_with_the_data_is_named() {
        let mut tenant = tenant("Ready");
        if let Some(status) = &mut tenant.status {
            let storage = json!({"dataStoreName": "first"});
            status.storage = serde_json::from_value(storage).unwrap();
        }
        let mut plane = plane(2);
        let said = |plane: &StewardControlPlane| {
            let findings = Findings::default();
            let status = status(plane, Some(&tenant), findings, Timestamp::UNIX_EPOCH);
            let mut conditions = status.conditions.into_iter();
            conditions.find(|held| held.type_ == STORE_AS_WANTED)
        };
        assert_eq!(said(&plane), None);
        plane.spec.settings.data_store_name = Some("first".to_owned());
        assert_eq!(said(&plane), None);
        plane.spec.settings.data_store_name = Some("second".to_owned());
        let told = said(&plane).unwrap();
        assert_eq!(told.reason, "MigrationNotSupported");
        assert!(told.message.contains("back to first"), "{}", told.message);
    }

    #[test]
    fn growing_shrinking_and_replacing_are_told_apart() {
        let told = |wanted, count: i32, current: i32| {
            let pods = DeploymentStatus {
                replicas: Some(count),
                updated_replicas: Some(current),
                ..DeploymentStatus::default()
            };
            let [rolling, up, down, _] = changes(&plane(wanted), Some(State::Ready), &pods);
            [rolling, up, down].map(|verdict| verdict.status == conditions::Truth::True)
        };
        assert_eq!(told(2, 2, 2), [false, false, false]);
        assert_eq!(told(3, 2, 2), [false, true, false]);
        assert_eq!(told(1, 2, 2), [false, false, true]);
        assert_eq!(told(2, 3, 1), [true, false, false], "one more meanwhile");
    }

    #[test]
    fn a_pause_changes_one_condition_only() {
        let mut plane = plane(2);
        let before = report(&plane, "Ready", true);
        plane.status = Some(before.clone());
        let after = paused(&plane, "why".to_owned(), Timestamp::UNIX_EPOCH);
        assert!(conditions::is_true(&after.conditions, PAUSED));
        assert!(conditions::is_true(&after.conditions, AVAILABLE));
        assert_eq!(after.version, before.version);
    }
}
