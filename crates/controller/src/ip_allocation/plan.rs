//! What has to be done for a claim besides giving it addresses. Pure.

use butler_runtime::controller::Wake;
use jiff::{SignedDuration, Timestamp};

use crate::network_pool::{Claim, Owner, State};

/// No timer is set further ahead.
const LONGEST: std::time::Duration = std::time::Duration::from_hours(1);

/// What was observed of the pool that a claim draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSeen {
    /// There is none of that name.
    Missing,
    /// It is there, and keeps released claims for this long.
    Keeps(SignedDuration),
    /// It is on its way out, and keeps nothing.
    Ending,
}

/// What to do with a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Step {
    /// Nothing.
    Leave,
    /// Say that there is no such pool.
    NoPool,
    /// Delete it, once a live read shows that its owner is gone.
    Collect,
    /// Give the addresses back.
    Release,
    /// Let it go.
    LetGo,
}

/// What to do, and when to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Plan {
    /// What to do.
    pub step: Step,
    /// When to look again.
    pub wake: Wake,
}

/// Decides.
pub fn plan(claim: &Claim, pool: PoolSeen, now: Timestamp) -> Plan {
    let at_once = |step| Plan {
        step,
        wake: Wake::OnChange,
    };
    match (&claim.state, claim.deleting) {
        (State::Waiting, true) => at_once(Step::LetGo),
        (State::Holding(_), true) => at_once(Step::Release),
        (State::Released(_, at), true) => match pool {
            PoolSeen::Missing | PoolSeen::Ending => at_once(Step::LetGo),
            PoolSeen::Keeps(keep) => {
                let over = at.saturating_add(keep).unwrap_or(Timestamp::MAX);
                match std::time::Duration::try_from(over.duration_since(now)) {
                    Ok(left) if !left.is_zero() => Plan {
                        step: Step::Leave,
                        wake: Wake::After(left.min(LONGEST)),
                    },
                    _ => at_once(Step::LetGo),
                }
            }
        },
        (_, false) if matches!(claim.owner, Owner::Gone(_)) => at_once(Step::Collect),
        (State::Waiting, false) if pool == PoolSeen::Missing => at_once(Step::NoPool),
        (State::Waiting | State::Holding(_) | State::Released(..), false) => at_once(Step::Leave),
    }
}

#[cfg(test)]
mod tests {
    use butler_api::butler::ip_allocation::AllocationType;

    use super::*;

    const KEEPS: PoolSeen = PoolSeen::Keeps(SignedDuration::from_secs(60));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn claim(state: State, deleting: bool) -> Claim {
        Claim {
            name: "a".to_owned(),
            uid: "1".to_owned(),
            created: at(0),
            owner: Owner::Known("owner".to_owned()),
            purpose: AllocationType::Loadbalancer,
            count: None,
            pinned: None,
            several: false,
            state,
            deleting,
        }
    }

    fn held() -> State {
        State::Holding(vec!["10.0.0.1-10.0.0.2".parse().unwrap()])
    }

    fn step(claim: &Claim, pool: PoolSeen, now: i64) -> Step {
        plan(claim, pool, at(now)).step
    }

    #[test]
    fn a_claim_that_goes_gives_back_first_and_is_kept_for_a_while() {
        assert_eq!(step(&claim(held(), true), KEEPS, 0), Step::Release);
        let released = claim(State::Released(Vec::new(), at(100)), true);
        let kept = plan(&released, KEEPS, at(150));
        assert_eq!(kept.step, Step::Leave);
        assert_eq!(kept.wake, Wake::After(std::time::Duration::from_secs(10)));
        assert_eq!(step(&released, KEEPS, 160), Step::LetGo);
    }

    #[test]
    fn a_claim_that_never_got_anything_goes_at_once() {
        assert_eq!(step(&claim(State::Waiting, true), KEEPS, 0), Step::LetGo);
    }

    #[test]
    fn a_pool_that_goes_keeps_no_released_claims() {
        let released = claim(State::Released(Vec::new(), at(100)), true);
        assert_eq!(step(&released, PoolSeen::Ending, 100), Step::LetGo);
        assert_eq!(step(&released, PoolSeen::Missing, 100), Step::LetGo);
    }

    #[test]
    fn a_claim_whose_owner_is_gone_is_collected_and_one_whose_owner_is_not_there_yet_waits() {
        let orphan = Claim {
            owner: Owner::Gone("old".to_owned()),
            ..claim(held(), false)
        };
        assert_eq!(step(&orphan, KEEPS, 0), Step::Collect);
        let early = Claim {
            owner: Owner::Missing("TenantCluster a/b".to_owned()),
            ..claim(State::Waiting, false)
        };
        assert_eq!(step(&early, KEEPS, 0), Step::Leave);
    }

    #[test]
    fn a_claim_on_no_pool_is_told_so_and_keeps_what_it_has() {
        assert_eq!(
            step(&claim(State::Waiting, false), PoolSeen::Missing, 0),
            Step::NoPool
        );
        assert_eq!(
            step(&claim(held(), false), PoolSeen::Missing, 0),
            Step::Leave
        );
    }
}
