//! How long certificates live and when they are renewed. Time is an argument everywhere.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::certificate::Certificate;

/// How far a certificate starts in the past, so that a clock that is a little late accepts it.
pub const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

const SHORTEST: SignedDuration = SignedDuration::from_hours(1);
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 36_500);

/// How long a new certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime(SignedDuration);

/// A lifetime that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("certificates cannot be valid for {0:#}: choose between one hour and one hundred years")]
pub struct LifetimeError(pub SignedDuration);

impl TryFrom<SignedDuration> for Lifetime {
    type Error = LifetimeError;

    /// Below an hour the backdated start would be most of a life, and renewing would never rest.
    fn try_from(duration: SignedDuration) -> Result<Self, Self::Error> {
        if (SHORTEST..=LONGEST).contains(&duration) {
            Ok(Self(duration))
        } else {
            Err(LifetimeError(duration))
        }
    }
}

/// The lifetimes of a control plane's certificates; by default those of kubeadm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of authorities: ten years.
    pub authority: Lifetime,
    /// Of everything they sign: one year.
    pub leaf: Lifetime,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            authority: Lifetime(SignedDuration::from_hours(24 * 3650)),
            leaf: Lifetime(SignedDuration::from_hours(24 * 365)),
        }
    }
}

/// Where in the window of renewal a tenant stands, so that tenants made together do not renew together.
///
/// All certificates of one tenant share it: renewing them in one pass rolls its pods once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter(u16);

impl Jitter {
    /// The first moment of the window.
    pub const NONE: Self = Self(0);

    /// The place of a tenant, from an identity that never changes, such as its UID.
    pub fn of(identity: &str) -> Self {
        let digest = Sha256::digest(identity.as_bytes());
        let place = digest
            .iter()
            .take(2)
            .fold(0, |place, byte| place << 8 | u16::from(*byte));
        Self(place)
    }
}

/// Since when and until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Validity {
    /// From a little before now, for a lifetime.
    pub fn starting(now: Timestamp, lifetime: Lifetime) -> Self {
        Self {
            not_before: second(now.as_second() - BACKDATE.as_secs()),
            not_after: second(now.as_second() + lifetime.0.as_secs()),
        }
    }

    /// The same, but not longer than the authority that signs: beyond it nobody would believe it.
    #[must_use]
    pub fn within(self, authority: &Certificate) -> Self {
        Self {
            not_before: self.not_before.max(authority.not_before()),
            not_after: self.not_after.min(authority.not_after()),
        }
    }
}

/// When a certificate is renewed: after two thirds of its life, and up to a twelfth later by the tenant's jitter.
///
/// A lifetime that was shortened since counts from now on.
pub fn renew_at(certificate: &Certificate, lifetime: Lifetime, jitter: Jitter) -> Timestamp {
    let start = certificate.not_before().as_second();
    let given = certificate.not_after().as_second() - start;
    let life = given.min(lifetime.0.as_secs() + BACKDATE.as_secs());
    let spread = life / 12 * i64::from(jitter.0) / (i64::from(u16::MAX) + 1);
    second(start + life / 3 * 2 + spread)
}

/// Certificates count whole seconds, and no calendar goes beyond the year 9999.
fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_below_an_hour_are_refused() {
        let error = Lifetime::try_from(SignedDuration::from_mins(59)).unwrap_err();
        assert!(error.to_string().contains("between one hour"), "{error}");
        assert!(Lifetime::try_from(SignedDuration::from_hours(1)).is_ok());
    }

    #[test]
    fn tenants_made_together_stand_at_different_places() {
        let places: std::collections::BTreeSet<u16> = (0..1000)
            .map(|index| Jitter::of(&format!("uid-{index}")).0 / 656)
            .collect();
        assert!(places.len() > 90, "{} of 100 places are used", places.len());
        assert_eq!(Jitter::of("a"), Jitter::of("a"));
    }
}
