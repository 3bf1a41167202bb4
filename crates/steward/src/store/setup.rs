//! Giving a tenant its place in a store: the claim on its names, a role for its prefix, a user with that role.
//!
//! Look, plan, apply: the plan is pure, each step can be repeated, and a store that is as it should be is not
//! written to. Reading users and roles costs etcd as much as a write does, so a tenant whose names were nobody's a
//! moment ago is not looked at.

use futures::future::join_all;

use super::{
    claims::{self, Claims, Names, Standing, Taken},
    error::{Error, Trouble, absent_as_none},
    identity::{ADMINISTRATOR, Identity, Origin},
    session::Session,
    usage::{self, Trust},
    wire::{
        Empty, Named, Permission, READ_WRITE, RoleGetResponse, RoleGrantRequest, RoleRevokeRequest,
        UserAddOptions, UserAddRequest, UserGetResponse, UserRoleRequest, path,
    },
};

/// Each look finds what the one before did not expect; more than this means that somebody undoes our work.
const LOOKS: u32 = 4;

/// Whether other tenants are in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// Others are, or may come: the store must keep them apart.
    Shared,
    /// The store is this tenant's alone.
    Dedicated,
}

/// What setting up came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The store keeps the tenant apart from others; `false` only in a dedicated store without authentication.
    pub enforced: bool,
    /// How many changes were made; 0 when everything was there.
    pub writes: u32,
}

/// A right of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// First key of the range.
    pub key: Vec<u8>,
    /// First key after the range; empty for the key alone.
    pub range_end: Vec<u8>,
    /// Reading and writing, and not just one of them.
    pub read_write: bool,
}

/// What there is of a tenant among users and roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The rights of the role, where it is.
    pub role: Option<Vec<Grant>>,
    /// The roles of the user, where it is.
    pub user: Option<Vec<String>>,
}

/// One change of users and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Adds the role.
    AddRole,
    /// Takes a right from the role that it should not have.
    Revoke(Grant),
    /// Gives the role the right to the tenant's prefix.
    Grant,
    /// Adds the user, who signs in with a certificate only.
    AddUser,
    /// Takes a role from the user that it should not have.
    TakeRole(String),
    /// Gives the user the role.
    GiveRole,
}

/// The user of the tenant is an administrator of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Administrator;

/// What must change, in order.
///
/// # Errors
/// When the user may do everything: whoever got its certificate could read every tenant.
pub fn plan(identity: &Identity, observed: &Observed) -> Result<Vec<Step>, Administrator> {
    let Observed { role, user } = observed;
    let mut steps = Vec::new();
    let wanted = wanted(identity);
    let grants = role.as_deref().unwrap_or_default();
    if role.is_none() {
        steps.push(Step::AddRole);
    }
    let same_range =
        |grant: &&Grant| grant.key == wanted.key && grant.range_end == wanted.range_end;
    let surplus = grants.iter().filter(|grant| !same_range(grant));
    steps.extend(surplus.cloned().map(Step::Revoke));
    if !grants.contains(&wanted) {
        steps.push(Step::Grant);
    }
    let roles = user.as_deref().unwrap_or_default();
    if roles.iter().any(|role| role == ADMINISTRATOR) {
        return Err(Administrator);
    }
    if user.is_none() {
        steps.push(Step::AddUser);
    }
    let surplus = roles.iter().filter(|role| *role != identity.role());
    steps.extend(surplus.cloned().map(Step::TakeRole));
    if !roles.iter().any(|role| role == identity.role()) {
        steps.push(Step::GiveRole);
    }
    Ok(steps)
}

/// The steps in two waves: those of one do not need each other, and the store takes its time for each.
fn waves(steps: &[Step]) -> [Vec<&Step>; 2] {
    let gives = |step: &&Step| matches!(step, Step::Grant | Step::GiveRole);
    let (last, first) = steps.iter().partition(gives);
    [first, last]
}

/// Makes sure that the tenant has its place and nobody else's.
///
/// Safe to repeat after a crash at any point and to run in several processes at once.
///
/// # Errors
/// When a name is somebody else's, when a shared store does not authenticate, or when the store does not answer.
pub async fn ensure(
    session: &Session,
    identity: &Identity,
    tenancy: Tenancy,
) -> Result<Outcome, Error> {
    let enforced = session.authenticates().await?;
    if !enforced && tenancy == Tenancy::Shared {
        return Err(Error::Open {
            store: session.store().to_owned(),
        });
    }
    let taken = claims::take(session, identity, tenancy, Names::Fresh).await?;
    let mut writes = u32::from(taken == Taken::Now);
    if !enforced {
        return Ok(Outcome { enforced, writes });
    }
    let _turn = session.auth_turn().await;
    let observed = match (taken, identity.user_origin()) {
        (Taken::Now, Origin::Derived) if identity.schema_origin() == Origin::Derived => {
            Observed::default()
        }
        _ => observe(session, identity).await?,
    };
    writes += bring_about(session, identity, observed).await?;
    Ok(Outcome { enforced, writes })
}

/// Changes users and roles until they are as they should be; how many changes that took. The turn is the caller's.
pub(super) async fn bring_about(
    session: &Session,
    identity: &Identity,
    mut observed: Observed,
) -> Result<u32, Error> {
    let mut writes = 0;
    for _ in 0..LOOKS {
        let steps =
            plan(identity, &observed).map_err(|Administrator| administrator(session, identity))?;
        let mut surprised = false;
        for wave in waves(&steps) {
            let sent = wave.iter().map(|step| apply(session, identity, step));
            // All of them, also when one fails: what is under way is done or not when we look again.
            for result in join_all(sent).await {
                match result {
                    Ok(()) => writes += 1,
                    Err(error) if is_surprise(&error) => surprised = true,
                    Err(error) => return Err(error),
                }
            }
            if surprised {
                break;
            }
        }
        if !surprised {
            return Ok(writes);
        }
        observed = observe(session, identity).await?;
    }
    Err(Error::Raced {
        action: "set up the tenant",
        store: session.store().to_owned(),
    })
}

/// The tenant's user may do everything.
pub(super) fn administrator(session: &Session, identity: &Identity) -> Error {
    taken_by(
        session,
        "user",
        identity.user(),
        "an administrator of the store",
    )
}

/// What there is of the tenant among users and roles.
///
/// # Errors
/// When the store does not answer.
pub async fn observe(session: &Session, identity: &Identity) -> Result<Observed, Error> {
    let (role, user) = (identity.role().to_owned(), identity.user().to_owned());
    let (role, user) = (Named { name: role }, Named { name: user });
    let (role, user) = tokio::join!(
        session.call("read the role of the tenant", path::ROLE_GET, &role),
        session.call("read the user of the tenant", path::USER_GET, &user),
    );
    let role: Option<RoleGetResponse> = absent_as_none(role)?;
    let user: Option<UserGetResponse> = absent_as_none(user)?;
    let grant = |permission: Permission| Grant {
        key: permission.key,
        range_end: permission.range_end,
        read_write: permission.kind == READ_WRITE,
    };
    Ok(Observed {
        role: role.map(|role| role.permissions.into_iter().map(grant).collect()),
        user: user.map(|user| user.roles),
    })
}

/// Makes one change.
///
/// # Errors
/// When the store refuses or does not answer.
pub async fn apply(session: &Session, identity: &Identity, step: &Step) -> Result<(), Error> {
    let (role, user) = (identity.role().to_owned(), identity.user().to_owned());
    let _: Empty = match step {
        Step::AddRole => {
            let request = Named { name: role };
            session
                .call("add the role of the tenant", path::ROLE_ADD, &request)
                .await?
        }
        Step::Revoke(Grant { key, range_end, .. }) => {
            let request = RoleRevokeRequest {
                role,
                key: key.clone(),
                range_end: range_end.clone(),
            };
            session
                .call("take a right from the role", path::ROLE_REVOKE, &request)
                .await?
        }
        Step::Grant => {
            let Grant { key, range_end, .. } = wanted(identity);
            let permission = Some(Permission {
                kind: READ_WRITE,
                key,
                range_end,
            });
            let request = RoleGrantRequest { role, permission };
            session
                .call("give the role its prefix", path::ROLE_GRANT, &request)
                .await?
        }
        Step::AddUser => {
            let options = Some(UserAddOptions { no_password: true });
            let request = UserAddRequest {
                name: user,
                options,
            };
            session
                .call("add the user of the tenant", path::USER_ADD, &request)
                .await?
        }
        Step::TakeRole(role) => {
            let role = role.clone();
            let request = UserRoleRequest { user, role };
            session
                .call(
                    "take a role from the user",
                    path::USER_REVOKE_ROLE,
                    &request,
                )
                .await?
        }
        Step::GiveRole => {
            let request = UserRoleRequest { user, role };
            session
                .call("give the user its role", path::USER_GRANT_ROLE, &request)
                .await?
        }
    };
    Ok(())
}

fn wanted(identity: &Identity) -> Grant {
    Grant {
        key: identity.prefix(),
        range_end: identity.range_end(),
        read_write: true,
    }
}

/// Somebody else was at the same user or role: what was observed does not hold any more.
fn is_surprise(error: &Error) -> bool {
    matches!(error.trouble(), Some(Trouble::Present | Trouble::Absent))
}

/// A name from a spec must not stand for anything yet: the prefix may hold what others keep in the same etcd.
pub(super) async fn check_vacancy(
    session: &Session,
    identity: &Identity,
    claims: &Claims,
) -> Result<(), Error> {
    let asked =
        |origin, standing: &Standing| origin == Origin::Asked && *standing == Standing::Free;
    let schema = asked(identity.schema_origin(), &claims.schema.standing);
    let user = asked(identity.user_origin(), &claims.user.standing);
    if !schema && !user {
        return Ok(());
    }
    let observed = observe(session, identity).await?;
    if user && observed.user.is_some() {
        return Err(taken_by(
            session,
            "user",
            identity.user(),
            "somebody unknown",
        ));
    }
    if schema && (observed.role.is_some() || is_filled(session, identity).await?) {
        return Err(taken_by(
            session,
            "schema",
            identity.schema(),
            "somebody unknown",
        ));
    }
    Ok(())
}

async fn is_filled(session: &Session, identity: &Identity) -> Result<bool, Error> {
    Ok(usage::count_keys(session, identity, Trust::Store).await? > 0)
}

fn taken_by(session: &Session, what: &'static str, name: &str, owner: &str) -> Error {
    Error::Taken {
        what,
        name: name.to_owned(),
        store: session.store().to_owned(),
        owner: owner.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Chosen, Owner};

    fn identity() -> Identity {
        let owner = Owner {
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            uid: "1".to_owned(),
        };
        Identity::of(owner, &Chosen::default(), &Chosen::default()).unwrap()
    }

    fn complete() -> Observed {
        Observed {
            role: Some(vec![wanted(&identity())]),
            user: Some(vec!["steward-1".to_owned()]),
        }
    }

    #[test]
    fn a_new_tenant_needs_four_changes_and_a_complete_one_none() {
        let steps = plan(&identity(), &Observed::default()).unwrap();
        assert_eq!(
            steps,
            [Step::AddRole, Step::Grant, Step::AddUser, Step::GiveRole]
        );
        assert_eq!(plan(&identity(), &complete()).unwrap(), []);
    }

    #[test]
    fn a_role_and_a_user_are_there_before_anything_is_given_to_them() {
        let steps = plan(&identity(), &Observed::default()).unwrap();
        let [first, last] = waves(&steps);
        assert_eq!(first, [&Step::AddRole, &Step::AddUser]);
        assert_eq!(last, [&Step::Grant, &Step::GiveRole]);
    }

    #[test]
    fn rights_beyond_the_prefix_are_taken_away() {
        let everything = Grant {
            key: vec![0],
            range_end: vec![0],
            read_write: true,
        };
        let mut observed = complete();
        observed.role.as_mut().unwrap().push(everything.clone());
        observed.user.as_mut().unwrap().push("other".to_owned());
        let steps = plan(&identity(), &observed).unwrap();
        assert_eq!(
            steps,
            [Step::Revoke(everything), Step::TakeRole("other".to_owned())]
        );
    }

    #[test]
    fn a_right_that_only_reads_is_widened_in_place() {
        let mut observed = complete();
        observed.role = Some(vec![Grant {
            read_write: false,
            ..wanted(&identity())
        }]);
        assert_eq!(plan(&identity(), &observed).unwrap(), [Step::Grant]);
    }

    #[test]
    fn an_administrator_is_never_made_a_tenant() {
        let mut observed = complete();
        observed.user = Some(vec!["root".to_owned()]);
        assert_eq!(plan(&identity(), &observed), Err(Administrator));
    }
}
