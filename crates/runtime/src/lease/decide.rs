//! Who may hold a lease. Pure: what was seen and for how long it has not moved go in, a step comes out.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;

/// What to do about a lease now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It does not exist: create it for us.
    Create,
    /// It is ours: write a fresh time.
    Renew,
    /// It is free or its holder is silent for too long: take it over.
    Take,
    /// Somebody else holds it.
    Wait,
}

/// Decides by how long the record has not moved on our own watch, never by comparing clocks of two machines.
pub(super) fn step(record: Option<&LeaseSpec>, me: &str, unmoved_for: Duration) -> Step {
    let Some(record) = record else {
        return Step::Create;
    };
    let holder = record.holder_identity.as_deref().unwrap_or_default();
    if holder == me {
        return Step::Renew;
    }
    let patience = record
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    let patience = Duration::from_secs(patience.unwrap_or_default());
    if holder.is_empty() || unmoved_for > patience {
        Step::Take
    } else {
        Step::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_that_moves_is_left_alone() {
        assert_eq!(
            step(Some(&held_by("b")), "a", Duration::from_secs(15)),
            Step::Wait
        );
    }

    #[test]
    fn a_silent_holder_loses_it() {
        assert_eq!(
            step(Some(&held_by("b")), "a", Duration::from_secs(16)),
            Step::Take
        );
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        assert_eq!(step(Some(&held_by("")), "a", Duration::ZERO), Step::Take);
    }

    #[test]
    fn our_own_lease_is_renewed_even_after_a_long_silence() {
        assert_eq!(
            step(Some(&held_by("a")), "a", Duration::from_secs(99)),
            Step::Renew
        );
    }

    #[test]
    fn a_missing_lease_is_created() {
        assert_eq!(step(None, "a", Duration::ZERO), Step::Create);
    }
}
