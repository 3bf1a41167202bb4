//! Putting right what others changed: a tenant's user or role that is gone, or may do something else.
//!
//! Looking comes first and takes no turn, since most tenants are as they should be; only what differs is changed, in
//! the same turn as every other change.

use super::{
    error::Error,
    identity::Identity,
    session::Session,
    setup::{self, Administrator},
};

/// The look at all tenants of a store that follows a change by somebody else.
///
/// A change while it goes on is a reason to look once more; a look that is dropped before [`Self::finish`] does not
/// count.
#[derive(Debug)]
pub struct Inspection<'a> {
    session: &'a Session,
    finished: bool,
}

impl<'a> Inspection<'a> {
    /// Begins.
    pub fn begin(session: &'a Session) -> Self {
        session.auth_changes().tally().begin();
        Self {
            session,
            finished: false,
        }
    }

    /// Every tenant was looked at.
    pub fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Inspection<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.session.auth_changes().tally().break_off();
        }
    }
}

/// Whether the tenant's user and role are as they should be.
///
/// # Errors
/// When the store does not answer.
pub async fn stands(session: &Session, identity: &Identity) -> Result<bool, Error> {
    let observed = setup::observe(session, identity).await?;
    Ok(setup::plan(identity, &observed).is_ok_and(|steps| steps.is_empty()))
}

/// Makes the tenant's user and role what they should be; returns how many changes that took.
///
/// `wanted` is asked when it is our turn and something is to be changed: a tenant that is being removed must not get
/// back what was taken from it, and whoever removes it waits for the same turn.
///
/// # Errors
/// When the store refuses or does not answer, and when somebody made the user an administrator.
pub async fn repair(
    session: &Session,
    identity: &Identity,
    wanted: impl Future<Output = bool>,
) -> Result<u32, Error> {
    let _turn = session.auth_turn().await;
    let observed = setup::observe(session, identity).await?;
    let steps = setup::plan(identity, &observed)
        .map_err(|Administrator| setup::administrator(session, identity))?;
    if steps.is_empty() || !wanted.await {
        return Ok(0);
    }
    setup::bring_about(session, identity, observed).await
}
