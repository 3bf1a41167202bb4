//! The status of a `LocalMachine`, in the contract's terms. Pure.

use std::net::IpAddr;

use butler_api::{
    infrastructure::{
        LocalMachine,
        contract::Initialization,
        local_machine::{LocalMachineStatus, MachineAddress},
    },
    steward::tenant_control_plane::kubernetes::AddressType,
};
use butler_runtime::conditions::{self, Verdict};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::runtime::{Held, Observed, protocol::Outcome};

/// Whether the machine is as it should be; Cluster API shows it as the Machine's `InfrastructureReady`.
pub(super) const READY: &str = "Ready";
/// Whether the bootstrap data was carried out.
pub(super) const BOOTSTRAPPED: &str = "BootstrapSucceeded";
/// Whether nothing is done to it.
pub(super) const PAUSED: &str = "Paused";

/// What a pass found out.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Why the pass could not go on: a word and a sentence.
    pub(super) waits: Option<(&'static str, String)>,
    /// What is there of the machine.
    pub(super) observed: Option<Observed>,
    /// Its address, once it is connected.
    pub(super) address: Option<IpAddr>,
}

/// The next status of a machine that is being worked on.
pub(super) fn status(
    raw: &LocalMachine,
    findings: &Findings,
    now: Timestamp,
) -> LocalMachineStatus {
    let held = raw.status.clone().unwrap_or_default();
    let runs = findings
        .observed
        .as_ref()
        .is_some_and(|seen| seen.pid.is_some());
    let was = held
        .initialization
        .as_ref()
        .and_then(|held| held.provisioned);
    // It never goes back, and comes only with what Cluster API reads along with it.
    let provisioned =
        was == Some(true) || (runs && findings.address.is_some() && raw.spec.provider_id.is_some());
    let addresses = match findings.address {
        Some(address) => addresses(raw, address),
        None => held.addresses.clone(),
    };
    let generation = raw.metadata.generation;
    LocalMachineStatus {
        observed_generation: generation,
        conditions: conditions::settle(
            &held.conditions,
            &verdicts(findings, provisioned),
            generation,
            now,
        ),
        initialization: Some(Initialization {
            provisioned: Some(provisioned),
        }),
        addresses,
    }
}

/// The next status of a machine that nothing may be done to: only that is said, the rest stays.
pub(super) fn paused(raw: &LocalMachine, reason: String, now: Timestamp) -> LocalMachineStatus {
    let held = raw.status.clone().unwrap_or_default();
    let verdict = Verdict::yes(PAUSED, "Paused", reason);
    let said = conditions::settle(&held.conditions, &[verdict], raw.metadata.generation, now);
    let others = held.conditions.iter().filter(|held| held.type_ != PAUSED);
    LocalMachineStatus {
        conditions: others.cloned().chain(said).collect(),
        ..held
    }
}

fn addresses(raw: &LocalMachine, address: IpAddr) -> Vec<MachineAddress> {
    let of = |kind, address| MachineAddress { kind, address };
    vec![
        of(AddressType::InternalIP, address.to_string()),
        of(AddressType::Hostname, raw.name_any()),
        of(AddressType::InternalDNS, raw.name_any()),
    ]
}

fn verdicts(findings: &Findings, provisioned: bool) -> Vec<Verdict> {
    let unpaused = Verdict::no(PAUSED, "NotPaused", "changes are carried out");
    vec![
        ready(findings, provisioned),
        bootstrapped(findings),
        unpaused,
    ]
}

fn ready(findings: &Findings, provisioned: bool) -> Verdict {
    if let Some((reason, message)) = &findings.waits {
        // A machine that is not ready is repaired after a minute, which helps none that is yet to come.
        let verdict = if provisioned {
            Verdict::no
        } else {
            Verdict::unknown
        };
        return verdict(READY, reason, message.clone());
    }
    let Some(seen) = &findings.observed else {
        return Verdict::unknown(READY, "NotObserved", "the machine was not looked at yet");
    };
    match (seen.held, &seen.outcome, seen.pid) {
        (Some(held), ..) => {
            let (reason, what) = match held {
                Held::Paused => ("PausedOnPurpose", "stands still"),
                Held::Killed => ("KilledOnPurpose", "was killed"),
                Held::Partitioned => ("PartitionedOnPurpose", "is cut off from its network"),
            };
            let message =
                format!("the machine {what} on purpose; `butleradm machine resume` takes it back");
            Verdict::no(READY, reason, message)
        }
        (None, _, None) => Verdict::no(READY, "NotRunning", "the machine does not run"),
        (None, Some(Outcome::Failed { reason }), Some(_)) => {
            Verdict::no(READY, "BootstrapFailed", reason.clone())
        }
        (None, Some(Outcome::Succeeded) | None, Some(_)) => {
            Verdict::yes(READY, "Running", "the machine runs")
        }
    }
}

fn bootstrapped(findings: &Findings) -> Verdict {
    let outcome = findings
        .observed
        .as_ref()
        .map(|seen| (&seen.outcome, seen.pid));
    match outcome {
        Some((Some(Outcome::Succeeded), _)) => Verdict::yes(
            BOOTSTRAPPED,
            "Succeeded",
            "the bootstrap data was carried out",
        ),
        Some((Some(Outcome::Failed { reason }), _)) => {
            Verdict::no(BOOTSTRAPPED, "Failed", reason.clone())
        }
        Some((None, Some(_))) => Verdict::unknown(
            BOOTSTRAPPED,
            "Working",
            "the bootstrap data is being carried out",
        ),
        Some((None, None)) | None => Verdict::unknown(
            BOOTSTRAPPED,
            "NotStarted",
            "the machine has not been started",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn raw() -> LocalMachine {
        let mut raw = LocalMachine::default();
        raw.metadata.name = Some("w".to_owned());
        raw.spec.provider_id = Some("local://team/w".to_owned());
        raw
    }

    fn running(outcome: Option<Outcome>) -> Findings {
        Findings {
            observed: Some(Observed {
                pid: Some(7),
                held: None,
                outcome,
            }),
            address: Some(Ipv4Addr::new(10, 40, 0, 7).into()),
            waits: None,
        }
    }

    fn told(raw: &LocalMachine, findings: &Findings) -> LocalMachineStatus {
        status(raw, findings, Timestamp::UNIX_EPOCH)
    }

    fn provisioned(status: &LocalMachineStatus) -> Option<bool> {
        status
            .initialization
            .as_ref()
            .and_then(|held| held.provisioned)
    }

    fn reason<'a>(status: &'a LocalMachineStatus, type_: &str) -> &'a str {
        let found = status.conditions.iter().find(|held| held.type_ == type_);
        found.map(|held| held.reason.as_str()).unwrap()
    }

    #[test]
    fn provisioned_waits_for_the_provider_id_and_the_address_and_never_goes_back() {
        let mut raw = raw();
        assert_eq!(provisioned(&told(&raw, &Findings::default())), Some(false));
        let mut without_id = raw.clone();
        without_id.spec.provider_id = None;
        assert_eq!(provisioned(&told(&without_id, &running(None))), Some(false));
        let first = told(&raw, &running(None));
        assert_eq!(provisioned(&first), Some(true));
        raw.status = Some(first.clone());
        let dead = Findings {
            observed: Some(Observed {
                pid: None,
                held: None,
                outcome: None,
            }),
            ..Findings::default()
        };
        let later = told(&raw, &dead);
        assert_eq!(provisioned(&later), Some(true));
        assert_eq!(later.addresses, first.addresses);
        assert_eq!(reason(&later, READY), "NotRunning");
    }

    #[test]
    fn a_machine_that_is_yet_to_come_is_not_one_that_is_down() {
        let waiting = Findings {
            waits: Some(("NoImage", "there is no image".to_owned())),
            ..Findings::default()
        };
        let mut raw = raw();
        let ready = |raw: &LocalMachine| {
            let conditions = told(raw, &waiting).conditions;
            let mut ready = conditions.into_iter().filter(|held| held.type_ == READY);
            ready.next().unwrap().status
        };
        assert_eq!(ready(&raw), "Unknown");
        raw.status = Some(told(&raw, &running(None)));
        assert_eq!(ready(&raw), "False");
    }

    #[test]
    fn the_address_the_name_and_the_conditions_are_told() {
        let status = told(&raw(), &running(Some(Outcome::Succeeded)));
        assert_eq!(status.addresses[0].address, "10.40.0.7");
        assert_eq!(status.addresses[1].address, "w");
        assert_eq!(reason(&status, READY), "Running");
        assert_eq!(reason(&status, BOOTSTRAPPED), "Succeeded");
        assert_eq!(reason(&status, PAUSED), "NotPaused");
    }

    #[test]
    fn what_was_broken_on_purpose_is_told_apart_from_what_broke() {
        let mut findings = running(Some(Outcome::Succeeded));
        for (held, expected) in [
            (Held::Paused, "PausedOnPurpose"),
            (Held::Killed, "KilledOnPurpose"),
            (Held::Partitioned, "PartitionedOnPurpose"),
        ] {
            findings.observed.as_mut().unwrap().held = Some(held);
            assert_eq!(reason(&told(&raw(), &findings), READY), expected);
        }
        let failed = running(Some(Outcome::Failed {
            reason: "runcmd ended with 1".to_owned(),
        }));
        assert_eq!(reason(&told(&raw(), &failed), READY), "BootstrapFailed");
    }

    #[test]
    fn a_pause_changes_one_condition_only() {
        let mut raw = raw();
        raw.status = Some(told(&raw, &running(None)));
        let after = paused(&raw, "why".to_owned(), Timestamp::UNIX_EPOCH);
        assert!(conditions::is_true(&after.conditions, PAUSED));
        assert!(conditions::is_true(&after.conditions, READY));
        assert_eq!(after.conditions.len(), 3);
    }
}
