//! Who has which name in a store, written down in the store itself.
//!
//! etcd's users and roles cannot say whom they belong to, and names may be wished for in a spec: without this, a
//! tenant could wish for the prefix or the user of another one and get it. A claim is taken by a transaction that
//! fails when somebody else was faster, before anything else is made, and given up after everything else is gone.

use serde::{Deserialize, Serialize};

use super::{
    error::Error,
    identity::{Identity, Owner},
    session::Session,
    setup::{Tenancy, check_vacancy},
    wire::{
        Compare, DeleteRangeRequest, KeyValue, Op, PutRequest, RangeRequest, RangeResponse,
        RequestOp, TxnRequest, TxnResponse, path,
    },
};

/// A dot cannot be part of a tenant's name, so no tenant may read or write here.
const SCHEMAS: &str = "/.steward/claims/schema/";
const SCHEMAS_END: &str = "/.steward/claims/schema0";
const USERS: &str = "/.steward/claims/user/";
/// The claim on a store that is one tenant's alone.
const STORE: &str = "/.steward/claims/store";
/// Losing this often means that two writers fight.
const TRIES: u32 = 5;

/// What is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    tenant: String,
    uid: String,
}

/// Whose a name is, seen from one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody's.
    Free,
    /// This tenant's.
    Ours,
    /// This tenant's when it had another UID: before it was moved or restored.
    OursBefore,
    /// Somebody else's.
    Other(String),
}

/// A claim as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    key: Vec<u8>,
    /// 0 where there is none.
    revision: i64,
    pub(crate) standing: Standing,
}

/// The claims on both names of a tenant, and on the whole store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) schema: Found,
    pub(crate) user: Found,
    pub(crate) store: Found,
}

/// Looks up whose the names are.
pub(crate) async fn look(session: &Session, identity: &Identity) -> Result<Claims, Error> {
    let owner = identity.owner();
    let (schema, user, store) = tokio::try_join!(
        find(session, owner, format!("{SCHEMAS}{}", identity.schema())),
        find(session, owner, format!("{USERS}{}", identity.user())),
        find(session, owner, STORE.to_owned()),
    )?;
    Ok(Claims {
        schema,
        user,
        store,
    })
}

/// Whether names are expected to stand for nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// They are new: what they stand for must not be somebody's.
    Fresh,
    /// They were set up before claims were made.
    Known,
}

/// Makes both names this tenant's, and the whole store where it is for one tenant alone.
///
/// # Errors
/// When a name or the store is somebody else's; nothing is written then.
pub(crate) async fn take(
    session: &Session,
    identity: &Identity,
    tenancy: Tenancy,
    names: Names,
) -> Result<Taken, Error> {
    for _ in 0..TRIES {
        let claims = look(session, identity).await?;
        let puts = plan_take(identity, &claims, tenancy)
            .map_err(|refusal| refusal.into_error(session.store()))?;
        if puts.is_empty() {
            return Ok(Taken::Held);
        }
        if tenancy == Tenancy::Dedicated {
            check_solitude(session, &claims).await?;
        }
        if names == Names::Fresh {
            check_vacancy(session, identity, &claims).await?;
        }
        if commit(session, "claim the names of the tenant", &claims, puts).await? {
            return Ok(match claims.schema.standing {
                Standing::Free => Taken::Now,
                Standing::Ours | Standing::OursBefore | Standing::Other(_) => Taken::Held,
            });
        }
    }
    Err(raced(session, "claim the names of the tenant"))
}

/// Gives up names; claims that are not this tenant's stay.
pub(crate) async fn release(
    session: &Session,
    identity: &Identity,
    with_schema: bool,
) -> Result<u32, Error> {
    for _ in 0..TRIES {
        let claims = look(session, identity).await?;
        let wanted = [
            (&claims.schema, with_schema),
            (&claims.user, true),
            (&claims.store, with_schema),
        ];
        let ours = wanted
            .into_iter()
            .filter(|(found, wanted)| *wanted && found.standing == Standing::Ours);
        let deletes: Vec<Op> = ours
            .map(|(found, _)| {
                Op::Delete(DeleteRangeRequest {
                    key: found.key.clone(),
                    range_end: Vec::new(),
                })
            })
            .collect();
        if deletes.is_empty() {
            return Ok(0);
        }
        if commit(session, "give up the names of the tenant", &claims, deletes).await? {
            return Ok(1);
        }
    }
    Err(raced(session, "give up the names of the tenant"))
}

/// What taking claims came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The schema was nobody's until now.
    Now,
    /// The schema was this tenant's already.
    Held,
}

/// Somebody else has a name, or the store.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    what: &'static str,
    name: String,
    owner: String,
}

impl Refusal {
    fn into_error(self, store: &str) -> Error {
        let Self { what, name, owner } = self;
        let store = store.to_owned();
        match what {
            WHOLE => Error::Occupied { store, owner },
            what => Error::Taken {
                what,
                name,
                store,
                owner,
            },
        }
    }
}

/// What a refusal is about that is about the whole store.
const WHOLE: &str = "store";

fn plan_take(identity: &Identity, claims: &Claims, tenancy: Tenancy) -> Result<Vec<Op>, Refusal> {
    let names = [
        ("schema", identity.schema(), &claims.schema),
        ("user", identity.user(), &claims.user),
    ];
    // A claim on the whole store keeps others out for as long as it stands, whatever the store is said to be now.
    let alone =
        tenancy == Tenancy::Dedicated || matches!(claims.store.standing, Standing::Other(_));
    let whole = alone.then_some((WHOLE, "", &claims.store));
    let mut puts = Vec::new();
    for (what, name, found) in names.into_iter().chain(whole) {
        match &found.standing {
            Standing::Ours => {}
            Standing::Free | Standing::OursBefore => puts.push(Op::Put(PutRequest {
                key: found.key.clone(),
                value: written(identity.owner()),
            })),
            Standing::Other(owner) => {
                return Err(Refusal {
                    what,
                    name: name.to_owned(),
                    owner: owner.clone(),
                });
            }
        }
    }
    Ok(puts)
}

/// A store for one tenant alone must not hold another one from before.
async fn check_solitude(session: &Session, claims: &Claims) -> Result<(), Error> {
    let request = RangeRequest {
        key: SCHEMAS.as_bytes().to_vec(),
        range_end: SCHEMAS_END.as_bytes().to_vec(),
        limit: 2,
        ..RangeRequest::default()
    };
    let answer: RangeResponse = session
        .call("look up who is in the store", path::RANGE, &request)
        .await?;
    let other = answer
        .kvs
        .into_iter()
        .find(|kv| kv.key != claims.schema.key);
    match other {
        None => Ok(()),
        Some(other) => Err(Error::Occupied {
            store: session.store().to_owned(),
            owner: serde_json::from_slice::<Claim>(&other.value).map_or_else(
                |_| "somebody unknown".to_owned(),
                |claim| format!("tenant {}", claim.tenant),
            ),
        }),
    }
}

fn written(owner: &Owner) -> Vec<u8> {
    let claim = Claim {
        tenant: owner.to_string(),
        uid: owner.uid.clone(),
    };
    serde_json::to_vec(&claim).expect("two texts are always written")
}

fn standing(owner: &Owner, value: &[u8]) -> Standing {
    match serde_json::from_slice::<Claim>(value) {
        Ok(claim) if claim.tenant == owner.to_string() => {
            if claim.uid == owner.uid {
                Standing::Ours
            } else {
                Standing::OursBefore
            }
        }
        Ok(claim) => Standing::Other(format!("tenant {}", claim.tenant)),
        Err(_) => Standing::Other("somebody unknown".to_owned()),
    }
}

async fn find(session: &Session, owner: &Owner, key: String) -> Result<Found, Error> {
    let key = key.into_bytes();
    let request = RangeRequest {
        key: key.clone(),
        ..RangeRequest::default()
    };
    let answer: RangeResponse = session
        .call(
            "look up whose the tenant's names are",
            path::RANGE,
            &request,
        )
        .await?;
    let held: Option<KeyValue> = answer.kvs.into_iter().next();
    Ok(Found {
        revision: held.as_ref().map_or(0, |held| held.mod_revision),
        standing: held.map_or(Standing::Free, |held| standing(owner, &held.value)),
        key,
    })
}

/// Writes if nobody changed any of the claims since they were looked at.
async fn commit(
    session: &Session,
    action: &'static str,
    claims: &Claims,
    operations: Vec<Op>,
) -> Result<bool, Error> {
    let unchanged = |found: &Found| Compare::unchanged(found.key.clone(), found.revision);
    let request = TxnRequest {
        compare: [&claims.schema, &claims.user, &claims.store]
            .map(unchanged)
            .to_vec(),
        success: operations
            .into_iter()
            .map(|operation| RequestOp {
                op: Some(operation),
            })
            .collect(),
    };
    let answer: TxnResponse = session.call(action, path::TXN, &request).await?;
    Ok(answer.succeeded)
}

fn raced(session: &Session, action: &'static str) -> Error {
    Error::Raced {
        action,
        store: session.store().to_owned(),
    }
}

#[cfg(test)]
impl Found {
    pub(crate) fn new(standing: Standing) -> Self {
        Self {
            key: b"k".to_vec(),
            revision: 0,
            standing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Chosen;

    fn owner(name: &str, uid: &str) -> Owner {
        Owner {
            namespace: "teams".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    #[test]
    fn a_claim_follows_its_tenant_through_a_move_and_stays_closed_to_others() {
        let written = written(&owner("one", "1"));
        assert_eq!(standing(&owner("one", "1"), &written), Standing::Ours);
        assert_eq!(standing(&owner("one", "2"), &written), Standing::OursBefore);
        let other = standing(&owner("two", "1"), &written);
        assert_eq!(other, Standing::Other("tenant teams/one".to_owned()));
        assert!(matches!(
            standing(&owner("one", "1"), b"garbage"),
            Standing::Other(_)
        ));
    }

    #[test]
    fn one_name_of_another_tenant_stops_the_taking_of_both() {
        let identity =
            Identity::of(owner("one", "1"), &Chosen::default(), &Chosen::default()).unwrap();
        let claims = Claims {
            schema: Found::new(Standing::Free),
            user: Found::new(Standing::Other("tenant teams/two".to_owned())),
            store: Found::new(Standing::Free),
        };
        let refused = plan_take(&identity, &claims, Tenancy::Shared);
        assert_eq!(refused.unwrap_err().what, "user");
        let claims = Claims {
            schema: Found::new(Standing::OursBefore),
            user: Found::new(Standing::Ours),
            store: Found::new(Standing::Free),
        };
        let puts = |tenancy| plan_take(&identity, &claims, tenancy).unwrap().len();
        assert_eq!((puts(Tenancy::Shared), puts(Tenancy::Dedicated)), (1, 2));
    }

    #[test]
    fn a_store_that_is_somebodys_alone_takes_nobody_else_also_when_it_is_shared_later() {
        let identity =
            Identity::of(owner("one", "1"), &Chosen::default(), &Chosen::default()).unwrap();
        let claims = Claims {
            schema: Found::new(Standing::Free),
            user: Found::new(Standing::Free),
            store: Found::new(Standing::Other("tenant teams/two".to_owned())),
        };
        for tenancy in [Tenancy::Shared, Tenancy::Dedicated] {
            let refused = plan_take(&identity, &claims, tenancy).unwrap_err();
            let error = refused.into_error("x");
            assert!(matches!(error, Error::Occupied { .. }), "{error}");
        }
    }
}
