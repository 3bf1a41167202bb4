//! One release has one owner.

use jiff::Timestamp;

use crate::request::ReleaseId;

/// An addon that wants a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Name for people.
    pub name: String,
    /// Identity.
    pub uid: String,
    /// Age.
    pub created: Timestamp,
    /// The release it wants.
    pub release: ReleaseId,
}

/// The addon that has the release which `own` wants, if it is another one: the oldest of all that want it.
///
/// Everybody comes to the same answer without talking: age, then identity.
pub fn winner<'a>(own: &Claim, others: &'a [Claim]) -> Option<&'a Claim> {
    let rivals = others
        .iter()
        .filter(|other| other.release == own.release && other.uid != own.uid);
    let oldest = rivals.min_by_key(|claim| (claim.created, &claim.uid));
    oldest.filter(|other| (other.created, &other.uid) < (own.created, &own.uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(uid: &str, second: i64, release: &str) -> Claim {
        Claim {
            name: uid.to_owned(),
            uid: uid.to_owned(),
            created: Timestamp::from_second(second).unwrap(),
            release: ReleaseId {
                namespace: "n".to_owned(),
                name: release.to_owned(),
            },
        }
    }

    #[test]
    fn the_oldest_has_the_release_and_of_two_equally_old_ones_only_one() {
        let all = [
            claim("b", 5, "r"),
            claim("a", 5, "r"),
            claim("c", 1, "other"),
        ];
        assert_eq!(winner(&all[0], &all).unwrap().uid, "a");
        assert_eq!(winner(&all[1], &all), None);
        assert_eq!(winner(&all[2], &all), None);
    }
}
