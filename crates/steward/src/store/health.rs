//! Whether a store can be used, as a verdict that fits into a condition.
//!
//! [`probe`] asks, [`judge`] decides; the second is pure.

use butler_runtime::error::chain;
use futures::future::join_all;

use super::{
    auth::Auth,
    error::{Error, Trouble},
    session::Session,
    setup::Tenancy,
    wire::{Empty, StatusResponse, path},
};

/// A word for a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The store can be used.
    Ready,
    /// The store can be used, and one more member that is lost may be one too many.
    Degraded,
    /// The settings of the store cannot be used.
    Invalid,
    /// The settings name a Secret, or a key in it, that is not there.
    SecretNotFound,
    /// The settings ask for something that is not built.
    NotSupported,
    /// No member answers, or they have no leader.
    Unreachable,
    /// The two sides could not agree on TLS.
    TlsRefused,
    /// The store does not accept us as its administrator.
    CredentialsRefused,
    /// The store does not authenticate, and tenants share it.
    AuthDisabled,
    /// The store is full and takes no writes.
    OutOfSpace,
    /// The store answers what makes no sense.
    Unexpected,
}

impl Reason {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Degraded => "Degraded",
            Self::Invalid => "Invalid",
            Self::SecretNotFound => "SecretNotFound",
            Self::NotSupported => "NotSupported",
            Self::Unreachable => "Unreachable",
            Self::TlsRefused => "TlsRefused",
            Self::CredentialsRefused => "CredentialsRefused",
            Self::AuthDisabled => "AuthDisabled",
            Self::OutOfSpace => "OutOfSpace",
            Self::Unexpected => "Unexpected",
        }
    }
}

/// What a store is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// A word.
    pub reason: Reason,
    /// A sentence. It stays the same while nothing changes.
    pub message: String,
}

impl Verdict {
    /// Whether tenants can be put there.
    pub fn is_ready(&self) -> bool {
        matches!(self.reason, Reason::Ready | Reason::Degraded)
    }
}

/// A question that was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of trouble it was.
    pub trouble: Trouble,
    /// The whole chain of causes.
    pub message: String,
}

/// A member that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Version of etcd.
    pub version: String,
    /// Bytes of its file.
    pub size: u64,
    /// Bytes of its file that hold something.
    pub size_in_use: u64,
    /// It takes no writes because its file is as large as it may be.
    pub full: bool,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The members by their address, in the order of the spec.
    pub members: Vec<(String, Result<Member, Failure>)>,
    /// The store's word on authentication, which takes a majority and an administrator to get.
    pub auth: Result<Auth, Failure>,
}

/// Asks every member, and the store as a whole. Takes a few seconds at most.
pub async fn probe(session: &Session) -> Report {
    let members = (0..session.endpoints().len()).map(|at| probe_member(session, at));
    let (members, auth) = tokio::join!(join_all(members), session.auth());
    // A store is as far away as its members are: what one of them refuses is why there is no answer.
    let refused = members.iter().find_map(|member| {
        let failure = member.as_ref().err()?;
        (failure.trouble == Trouble::TlsRefused).then(|| failure.clone())
    });
    let auth = auth.map_err(|error| match (failure(&error), refused) {
        (away, Some(refused)) if away.trouble == Trouble::Unreachable => refused,
        (failure, _) => failure,
    });
    Report {
        members: session.endpoints().iter().cloned().zip(members).collect(),
        auth,
    }
}

async fn probe_member(session: &Session, at: usize) -> Result<Member, Failure> {
    let status = session
        .call_member(at, "ask how a member is", path::STATUS, &Empty {})
        .await;
    let failure = match status {
        Ok(status) => return Ok(member(status)),
        Err(error) => failure(&error),
    };
    if !matches!(failure.trouble, Trouble::Unreachable | Trouble::TlsRefused) {
        return Err(failure);
    }
    // A connection that breaks says something else each time; the handshake alone always says the same.
    Err(match session.tls_refusal(at).await {
        Some(refusal) => Failure {
            trouble: Trouble::TlsRefused,
            message: format!(
                "could not agree on TLS with member {}: {refusal}",
                session.endpoints().get(at).map_or("", String::as_str)
            ),
        },
        None => failure,
    })
}

/// Decides what the answers mean for tenants.
pub fn judge(report: &Report, tenancy: Tenancy) -> Verdict {
    let auth = match &report.auth {
        Ok(auth) => auth,
        Err(failure) => return no_answer(report, failure),
    };
    if !auth.enabled && tenancy == Tenancy::Shared {
        return Verdict {
            reason: Reason::AuthDisabled,
            message: "the store does not authenticate its users, so every tenant could read every other: run \
                      `etcdctl auth enable`, or use it for one tenant only"
                .to_owned(),
        };
    }
    let full = report
        .members
        .iter()
        .find(|(_, member)| member.as_ref().is_ok_and(|member| member.full));
    if let Some((endpoint, _)) = full {
        return Verdict {
            reason: Reason::OutOfSpace,
            message: format!(
                "member {endpoint} has no space left and the store takes no writes: compact and defragment it or \
                 raise its quota, then disarm the alarm"
            ),
        };
    }
    let complete = report.members.iter().all(|(_, member)| member.is_ok());
    Verdict {
        reason: if complete {
            Reason::Ready
        } else {
            Reason::Degraded
        },
        message: attendance(&report.members),
    }
}

/// The store as a whole gave no answer, or none that helps.
fn no_answer(report: &Report, failure: &Failure) -> Verdict {
    let reason = reason(failure.trouble);
    // Which member was asked for all of them changes each time, and a message must not: members are named in order.
    let first = report
        .members
        .iter()
        .find_map(|(_, member)| member.as_ref().err());
    let message = match (reason, first) {
        (Reason::Unreachable, Some(first)) => {
            format!("{}: {}", attendance(&report.members), first.message)
        }
        (Reason::Unreachable, None) => {
            let members = attendance(&report.members);
            format!("{members}, but they have no leader to agree on anything")
        }
        _ => failure.message.clone(),
    };
    Verdict { reason, message }
}

/// Who answers and who does not, in a sentence.
fn attendance(members: &[(String, Result<Member, Failure>)]) -> String {
    let missing: Vec<String> = members
        .iter()
        .filter_map(|(endpoint, member)| {
            let failure = member.as_ref().err()?;
            Some(format!("{endpoint} does not ({:?})", failure.trouble))
        })
        .collect();
    let answering = members.len() - missing.len();
    let total = members.len();
    match missing.as_slice() {
        [] => format!("{total} of {total} members answer"),
        missing => format!(
            "{answering} of {total} members answer: {}",
            missing.join(", ")
        ),
    }
}

fn reason(trouble: Trouble) -> Reason {
    match trouble {
        Trouble::Unreachable | Trouble::TimedOut => Reason::Unreachable,
        Trouble::TlsRefused => Reason::TlsRefused,
        Trouble::CredentialsRefused | Trouble::NotPermitted => Reason::CredentialsRefused,
        Trouble::AuthDisabled => Reason::AuthDisabled,
        Trouble::Full => Reason::OutOfSpace,
        Trouble::Absent
        | Trouble::Present
        | Trouble::TooLarge
        | Trouble::Stale
        | Trouble::Unexpected => Reason::Unexpected,
    }
}

fn member(status: StatusResponse) -> Member {
    let StatusResponse {
        version,
        db_size,
        db_size_in_use,
        errors,
    } = status;
    Member {
        version,
        size: u64::try_from(db_size).unwrap_or_default(),
        size_in_use: u64::try_from(db_size_in_use).unwrap_or_default(),
        full: errors.iter().any(|error| error.contains("NOSPACE")),
    }
}

fn failure(error: &Error) -> Failure {
    Failure {
        trouble: error.trouble().unwrap_or(Trouble::Unexpected),
        message: chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Auth = Auth {
        enabled: true,
        revision: 7,
    };

    fn report(auth: Result<Auth, Trouble>) -> Report {
        let failure = |trouble| Failure {
            trouble,
            message: "why".to_owned(),
        };
        let up = Member {
            version: "3.6.8".to_owned(),
            size: 10,
            size_in_use: 5,
            full: false,
        };
        Report {
            members: vec![
                ("a:2379".to_owned(), Ok(up)),
                ("b:2379".to_owned(), Err(failure(Trouble::Unreachable))),
            ],
            auth: auth.map_err(failure),
        }
    }

    #[test]
    fn a_missing_member_is_named_and_does_not_make_the_store_unusable() {
        let verdict = judge(&report(Ok(ON)), Tenancy::Shared);
        assert!(verdict.is_ready());
        assert_eq!(verdict.reason, Reason::Degraded);
        assert_eq!(
            verdict.message,
            "1 of 2 members answer: b:2379 does not (Unreachable)"
        );
    }

    #[test]
    fn the_words_about_a_store_that_is_away_do_not_depend_on_who_was_asked() {
        let mut report = report(Err(Trouble::TimedOut));
        let first = judge(&report, Tenancy::Shared);
        assert_eq!(
            first.message,
            "1 of 2 members answer: b:2379 does not (Unreachable): why"
        );
        report.auth = Err(Failure {
            trouble: Trouble::Unreachable,
            message: "somebody else".to_owned(),
        });
        assert_eq!(judge(&report, Tenancy::Shared), first);
    }

    #[test]
    fn an_open_store_is_for_one_tenant_only() {
        let off = Auth {
            enabled: false,
            ..ON
        };
        let report = report(Ok(off));
        assert_eq!(judge(&report, Tenancy::Shared).reason, Reason::AuthDisabled);
        assert!(judge(&report, Tenancy::Dedicated).is_ready());
    }

    #[test]
    fn every_trouble_has_its_word() {
        let table = [
            (Trouble::TimedOut, Reason::Unreachable),
            (Trouble::TlsRefused, Reason::TlsRefused),
            (Trouble::NotPermitted, Reason::CredentialsRefused),
            (Trouble::CredentialsRefused, Reason::CredentialsRefused),
            (Trouble::Unexpected, Reason::Unexpected),
        ];
        for (trouble, reason) in table {
            assert_eq!(judge(&report(Err(trouble)), Tenancy::Shared).reason, reason);
        }
    }

    #[test]
    fn a_full_store_is_not_ready() {
        let mut report = report(Ok(ON));
        if let Some((_, Ok(member))) = report.members.first_mut() {
            member.full = true;
        }
        assert_eq!(judge(&report, Tenancy::Shared).reason, Reason::OutOfSpace);
    }
}
