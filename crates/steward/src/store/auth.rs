//! The users and roles of a store as a whole: whether they are kept apart, who changes them, and one queue for
//! changes of our own.

use std::{
    sync::{Mutex, MutexGuard as StdGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard},
    time::Instant,
};

use super::{
    error::{Error, Trouble},
    session::Session,
    tally::Tally,
    wire::{self, path},
};

/// How long it is believed that a store authenticates its users.
const BELIEF: Duration = Duration::from_mins(1);

/// Whether a store keeps its users apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Users must prove who they are, and may do only what their roles say.
    pub enabled: bool,
    /// Grows with every change of a user or a role: while it stands still, everything that was set up stands.
    pub revision: u64,
}

/// What all sessions to one store share: requests with old and with new credentials change the same users.
#[derive(Debug, Default)]
pub(crate) struct AuthChanges {
    turn: AsyncMutex<()>,
    tally: Mutex<Tally>,
}

impl AuthChanges {
    /// The count of changes.
    pub(crate) fn tally(&self) -> StdGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that changes users or roles, by how it ended and whether it was made more than once.
    pub(crate) fn count<T>(&self, result: &Result<T, Error>, repeated: bool) {
        let trouble = result.as_ref().err().map(Error::trouble);
        match trouble {
            None if !repeated => self.tally().changed(),
            Some(Some(
                Trouble::Absent
                | Trouble::Present
                | Trouble::NotPermitted
                | Trouble::CredentialsRefused
                | Trouble::AuthDisabled
                | Trouble::Full
                | Trouble::Stale,
            )) if !repeated => {}
            _ => self.tally().doubt(),
        }
    }
}

impl Session {
    /// Waits for the turn to change users and roles.
    ///
    /// Each change makes etcd compute the rights of all users anew and disturbs requests that are under way, so
    /// one tenant after the other.
    pub(crate) async fn auth_turn(&self) -> MutexGuard<'_, ()> {
        self.auth_changes().turn.lock().await
    }

    /// Whether the store keeps its users apart. Only administrators are told.
    pub(crate) async fn auth(&self) -> Result<Auth, Error> {
        // The count can be compared only while nobody changes it; a store that we are at work in is compared later.
        let idle = self.auth_changes().turn.try_lock();
        let answer = self
            .call(
                "ask how users are kept apart",
                path::AUTH_STATUS,
                &wire::Empty {},
            )
            .await;
        let status: wire::AuthStatusResponse = answer.map_err(own_user_is_unknown)?;
        self.believe(status.enabled.then(Instant::now));
        if idle.is_ok() && status.enabled {
            self.auth_changes().tally().told(status.revision);
        }
        Ok(Auth {
            enabled: status.enabled,
            revision: status.revision,
        })
    }

    /// Whether the store authenticates its users. A yes is believed for a minute, a no is never.
    pub(crate) async fn authenticates(&self) -> Result<bool, Error> {
        if self.believed().is_some_and(|seen| seen.elapsed() < BELIEF) {
            return Ok(true);
        }
        Ok(self.auth().await?.enabled)
    }

    /// Whether somebody else changed users or roles since the rights of tenants were last looked at.
    pub fn is_disturbed(&self) -> bool {
        self.auth_changes().tally().is_disturbed()
    }
}

/// Where no other user is named, one that is not found is our own.
fn own_user_is_unknown(error: Error) -> Error {
    match error {
        Error::Request {
            action,
            store,
            endpoint,
            trouble: Trouble::Absent,
            source,
        } => Error::Request {
            action,
            store,
            endpoint,
            trouble: Trouble::CredentialsRefused,
            source,
        },
        other => other,
    }
}
