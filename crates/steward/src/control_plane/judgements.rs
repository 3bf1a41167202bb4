//! What was found about certificates, for as long as nothing about them changes.

use std::{collections::HashMap, sync::Mutex};

use butler_pki::{Fingerprint, Item, Plan};
use butler_runtime::sync::lock;
use jiff::Timestamp;

/// When something about certificates is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    of: Fingerprint,
    at: Timestamp,
    /// All is as it should be: looking again before something is due would find the same.
    well: bool,
    /// When the next certificate is due.
    pub(super) next_renewal: Option<Timestamp>,
    /// When the first of them expires, authorities aside.
    pub(super) first_expiry: Option<Timestamp>,
}

impl Judgement {
    /// What a plan says about what is wanted and held.
    pub(super) fn new(of: Fingerprint, plan: &Plan, at: Timestamp) -> Self {
        let leaves = plan
            .steps
            .iter()
            .filter(|(item, _)| !matches!(item, Item::Ca | Item::FrontProxyCa));
        Self {
            of,
            at,
            well: plan.is_settled() && plan.blocked().next().is_none(),
            next_renewal: plan.next_renewal(),
            first_expiry: leaves.filter_map(|(_, step)| step.not_after).min(),
        }
    }

    /// Whether it would be the same now. A clock that was set back tells nothing.
    fn holds(&self, of: Fingerprint, now: Timestamp) -> bool {
        let mut moments = [self.next_renewal, self.first_expiry].into_iter().flatten();
        self.well && self.of == of && self.at <= now && moments.all(|due| now < due)
    }
}

/// The judgements of this process, by the UID of the control plane.
#[derive(Default)]
pub(super) struct Judgements(Mutex<HashMap<String, Judgement>>);

impl Judgements {
    /// The one that holds.
    pub(super) fn get(&self, uid: &str, of: Fingerprint, now: Timestamp) -> Option<Judgement> {
        let held = lock(&self.0).get(uid).copied();
        held.filter(|held| held.holds(of, now))
    }

    pub(super) fn put(&self, uid: &str, judgement: Judgement) {
        lock(&self.0).insert(uid.to_owned(), judgement);
    }

    pub(super) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use butler_pki::{
        Action, Algorithm, AltNames, Contents, Lifetimes, Reason, Servers, Step, Tenant, Wanted,
    };
    use jiff::ToSpan;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn fingerprint(name: &str) -> Fingerprint {
        let tenant = Tenant {
            name: name.to_owned(),
            namespace: "team-a".to_owned(),
        };
        let wanted = Wanted {
            servers: Servers::new(&tenant, 6443, "10.0.0.1", 6443),
            tenant,
            algorithm: Algorithm::EcdsaP256,
            replace_other_algorithms: false,
            lifetimes: Lifetimes::default(),
            authority: None,
            server_names: AltNames::default(),
            store: None,
            tunnel: false,
            rotation: None,
        };
        Fingerprint::of(&wanted, &Contents::default())
    }

    fn plan(action: Action) -> Plan {
        let step = Step {
            action,
            not_after: Some(NOW + 3.hours()),
            renew_at: Some(NOW + 2.hours()),
        };
        Plan {
            steps: BTreeMap::from([(Item::ApiServer, step)]),
        }
    }

    #[test]
    fn a_judgement_holds_until_something_is_due_or_changes() {
        let (same, other) = (fingerprint("blue"), fingerprint("green"));
        let judgements = Judgements::default();
        judgements.put("one", Judgement::new(same, &plan(Action::Keep), NOW));
        let held = |of, now| judgements.get("one", of, now);
        assert_eq!(
            held(same, NOW + 1.hour()).and_then(|held| held.next_renewal),
            Some(NOW + 2.hours())
        );
        assert_eq!(held(other, NOW + 1.hour()), None);
        assert_eq!(held(same, NOW + 2.hours()), None);
        assert_eq!(held(same, NOW - 1.hour()), None);
        assert_eq!(judgements.get("two", same, NOW), None);
        judgements.forget("one");
        assert_eq!(judgements.get("one", same, NOW), None);
    }

    #[test]
    fn what_is_blocked_or_to_be_done_is_judged_each_time() {
        let of = fingerprint("blue");
        let reason = Reason::Missing;
        for action in [
            Action::Blocked {
                reason: reason.clone(),
            },
            Action::Issue { reason },
        ] {
            let judgements = Judgements::default();
            judgements.put("one", Judgement::new(of, &plan(action), NOW));
            assert_eq!(judgements.get("one", of, NOW), None);
        }
    }
}
