//! Taking a tenant out of a store: exactly what is its own, in an order that is safe to break off anywhere.
//!
//! The user goes first, so that nobody writes any more; then the data, in pages that leave room for others between
//! them; then the role; and the claim last, so that nobody else gets names behind which something is left.

use super::{
    claims::{self, Claims, Names, Standing},
    error::{Error, absent_as_none},
    identity::{ADMINISTRATOR, Identity, Origin},
    session::Session,
    setup::Tenancy,
    wire::{
        DeleteRangeRequest, DeleteRangeResponse, Empty, Named, RangeRequest, RangeResponse,
        UserGetResponse, path,
    },
};

/// Keys deleted by one request: a delete holds up every other write of the store while it is applied.
const PAGE: i64 = 1_000;

/// What becomes of the data of a tenant that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It goes.
    Delete,
    /// It stays, and so does the claim on its prefix: only a tenant of the same namespace and name that asks for
    /// the prefix gets it back.
    Retain,
}

/// What was removed, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Nothing is left to do; otherwise remove again.
    pub finished: bool,
    /// Keys that were deleted.
    pub keys: u64,
    /// Changes of users, roles and claims.
    pub writes: u32,
    /// Names that stay because they are somebody else's, in words.
    pub kept: Vec<String>,
}

/// One part of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Claims names that an older implementation set up without a claim.
    Adopt,
    /// Deletes the user.
    DeleteUser,
    /// Deletes every key below the prefix.
    DeleteData,
    /// Deletes the role.
    DeleteRole,
    /// Gives up the name of the user.
    ReleaseUser,
    /// Gives up both names.
    Release,
}

/// What is to be done, in order.
fn plan(policy: Policy, identity: &Identity, claims: &Claims) -> Vec<Step> {
    let standings = [&claims.schema.standing, &claims.user.standing];
    let origins = [identity.schema_origin(), identity.user_origin()];
    let unclaimed = standings.contains(&&Standing::Free);
    let nobody_elses = standings
        .iter()
        .all(|standing| matches!(standing, Standing::Free | Standing::Ours));
    // Names from status were set up; where nobody claims them, that was before there were claims.
    let adopt = unclaimed && nobody_elses && origins.contains(&Origin::Recorded);
    let [schema, user] = standings.map(|standing| *standing == Standing::Ours || adopt);
    let mut steps = Vec::new();
    if adopt {
        steps.push(Step::Adopt);
    }
    if user {
        steps.push(Step::DeleteUser);
    }
    if schema && policy == Policy::Delete {
        steps.push(Step::DeleteData);
    }
    if schema {
        steps.push(Step::DeleteRole);
    }
    match (policy, schema || user) {
        (_, false) => {}
        (Policy::Delete, true) => steps.push(Step::Release),
        (Policy::Retain, true) => steps.push(Step::ReleaseUser),
    }
    steps
}

/// Removes what is the tenant's, deleting at most about `budget` keys.
///
/// Safe to repeat: after a crash it goes on where it was, and when nothing is left it writes nothing.
///
/// # Errors
/// When the store does not answer.
pub async fn remove(
    session: &Session,
    identity: &Identity,
    policy: Policy,
    budget: u64,
) -> Result<Removed, Error> {
    let claims = claims::look(session, identity).await?;
    let mut removed = Removed {
        kept: kept(identity, &claims),
        ..Removed::default()
    };
    for step in plan(policy, identity, &claims) {
        match step {
            Step::DeleteData => {
                let (keys, finished) = delete_data(session, identity, budget).await?;
                removed.keys += keys;
                if !finished {
                    return Ok(removed);
                }
            }
            other => removed.writes += apply(session, identity, other).await?,
        }
    }
    removed.finished = true;
    Ok(removed)
}

/// Does one part; returns how many changes it took. Data is deleted without a limit.
///
/// # Errors
/// When the store refuses or does not answer.
pub async fn apply(session: &Session, identity: &Identity, step: Step) -> Result<u32, Error> {
    match step {
        Step::Adopt => {
            claims::take(session, identity, Tenancy::Shared, Names::Known).await?;
            Ok(1)
        }
        Step::DeleteUser => delete_user(session, identity).await,
        Step::DeleteData => {
            delete_data(session, identity, u64::MAX).await?;
            Ok(0)
        }
        Step::DeleteRole => {
            let _turn = session.auth_turn().await;
            let name = identity.role().to_owned();
            let answer = session
                .call(
                    "delete the role of the tenant",
                    path::ROLE_DELETE,
                    &Named { name },
                )
                .await;
            count::<Empty>(answer)
        }
        Step::ReleaseUser => claims::release(session, identity, false).await,
        Step::Release => claims::release(session, identity, true).await,
    }
}

async fn delete_user(session: &Session, identity: &Identity) -> Result<u32, Error> {
    let _turn = session.auth_turn().await;
    let named = Named {
        name: identity.user().to_owned(),
    };
    let user = session
        .call("read the user of the tenant", path::USER_GET, &named)
        .await;
    let Some(user) = absent_as_none::<UserGetResponse>(user)? else {
        return Ok(0);
    };
    // A user that somebody made an administrator is not a tenant's any more.
    if user.roles.iter().any(|role| role == ADMINISTRATOR) {
        return Ok(0);
    }
    let answer = session
        .call("delete the user of the tenant", path::USER_DELETE, &named)
        .await;
    count::<Empty>(answer)
}

/// Deletes keys page by page; says how many, and whether none is left.
async fn delete_data(
    session: &Session,
    identity: &Identity,
    budget: u64,
) -> Result<(u64, bool), Error> {
    let mut keys = 0;
    while keys < budget {
        let request = RangeRequest {
            key: identity.prefix(),
            range_end: identity.range_end(),
            limit: PAGE,
            keys_only: true,
            ..RangeRequest::default()
        };
        let page: RangeResponse = session
            .call("list the keys of the tenant", path::RANGE, &request)
            .await?;
        let Some(last) = page.kvs.last() else {
            return Ok((keys, true));
        };
        let request = DeleteRangeRequest {
            key: identity.prefix(),
            range_end: [last.key.as_slice(), &[0]].concat(),
        };
        let answer: DeleteRangeResponse = session
            .call("delete keys of the tenant", path::DELETE_RANGE, &request)
            .await?;
        keys += u64::try_from(answer.deleted).unwrap_or_default();
    }
    Ok((keys, false))
}

/// What another implementation, tenant or management cluster holds, in words.
fn kept(identity: &Identity, claims: &Claims) -> Vec<String> {
    let names = [
        ("schema", identity.schema(), &claims.schema.standing),
        ("user", identity.user(), &claims.user.standing),
    ];
    let words = names.map(|(what, name, standing)| match standing {
        Standing::Free | Standing::Ours => None,
        Standing::OursBefore => Some(format!(
            "{what} {name:?} belongs to a tenant of this name with another UID"
        )),
        Standing::Other(owner) => Some(format!("{what} {name:?} belongs to {owner}")),
    });
    words.into_iter().flatten().collect()
}

fn count<T>(answer: Result<T, Error>) -> Result<u32, Error> {
    Ok(u32::from(absent_as_none(answer)?.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Chosen, Owner, claims::Found};

    fn identity(recorded: bool) -> Identity {
        let owner = Owner {
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            uid: "1".to_owned(),
        };
        let name = |name: &str| recorded.then(|| name.to_owned());
        let recorded = Chosen {
            schema: name("a_b"),
            user: name("a_b"),
        };
        Identity::of(owner, &recorded, &Chosen::default()).unwrap()
    }

    fn claims(schema: Standing, user: Standing) -> Claims {
        Claims {
            schema: Found::new(schema),
            user: Found::new(user),
            store: Found::new(Standing::Free),
        }
    }

    #[test]
    fn nobody_can_write_before_data_goes_and_the_claim_goes_last() {
        let claims = claims(Standing::Ours, Standing::Ours);
        let steps = plan(Policy::Delete, &identity(false), &claims);
        let order = [
            Step::DeleteUser,
            Step::DeleteData,
            Step::DeleteRole,
            Step::Release,
        ];
        assert_eq!(steps, order);
        let steps = plan(Policy::Retain, &identity(false), &claims);
        assert_eq!(
            steps,
            [Step::DeleteUser, Step::DeleteRole, Step::ReleaseUser]
        );
    }

    #[test]
    fn what_is_not_ours_stays() {
        let other = || Standing::Other("tenant x/y".to_owned());
        for identity in [identity(false), identity(true)] {
            let theirs = claims(other(), other());
            assert_eq!(plan(Policy::Delete, &identity, &theirs), []);
            assert_eq!(kept(&identity, &theirs).len(), 2);
            let moved = claims(Standing::OursBefore, Standing::OursBefore);
            assert_eq!(plan(Policy::Delete, &identity, &moved), []);
            let mixed = claims(other(), Standing::Free);
            assert_eq!(plan(Policy::Delete, &identity, &mixed), []);
        }
    }

    #[test]
    fn a_tenant_of_an_older_implementation_is_claimed_before_it_is_removed() {
        let free = claims(Standing::Free, Standing::Free);
        assert_eq!(plan(Policy::Delete, &identity(false), &free), []);
        let steps = plan(Policy::Delete, &identity(true), &free);
        assert_eq!(steps.first(), Some(&Step::Adopt));
        assert_eq!(steps.len(), 5);
    }
}
