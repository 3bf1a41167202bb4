//! What can go wrong with a store, as words that conditions, metrics and retries understand.
//!
//! Pure: it reads answers of etcd and failures of connections; it never makes a request.

use std::{error::Error as StdError, fmt, io, time::Duration};

use butler_runtime::error::{Category, Classify};
use tonic::{Code, Status};

use super::{credentials, identity};

/// What kind of trouble a request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// Nobody answered at the address, or the members have no leader.
    Unreachable,
    /// An answer did not come in time.
    TimedOut,
    /// The two sides could not agree on TLS: another authority, another name, no TLS at all.
    TlsRefused,
    /// User or password are wrong.
    CredentialsRefused,
    /// The user is known and may not do this.
    NotPermitted,
    /// The store lets everybody do everything.
    AuthDisabled,
    /// The store has no room left and takes no writes.
    Full,
    /// The user or role is not there.
    Absent,
    /// The user or role is there already.
    Present,
    /// The answer would be larger than a message may be.
    TooLarge,
    /// Users or roles changed while the request was on its way; the same request will do.
    Stale,
    /// An answer that makes no sense here.
    Unexpected,
}

impl Trouble {
    /// Reads a failure of a call.
    pub(crate) fn of(status: &Status) -> Self {
        from_message(status.message())
            .or_else(|| from_source(status))
            .unwrap_or_else(|| from_code(status.code()))
    }

    /// Whether another member of the store may answer where this one did not.
    pub(crate) fn is_about_one_member(self) -> bool {
        match self {
            Self::Unreachable | Self::TimedOut | Self::TlsRefused => true,
            Self::CredentialsRefused
            | Self::NotPermitted
            | Self::AuthDisabled
            | Self::Full
            | Self::Absent
            | Self::Present
            | Self::TooLarge
            | Self::Stale
            | Self::Unexpected => false,
        }
    }

    fn category(self) -> Category {
        match self {
            Self::Unreachable | Self::TimedOut | Self::Full | Self::TooLarge => {
                Category::Unavailable
            }
            Self::TlsRefused
            | Self::CredentialsRefused
            | Self::NotPermitted
            | Self::AuthDisabled => Category::Forbidden,
            Self::Absent => Category::NotFound,
            Self::Present | Self::Stale => Category::Conflict,
            Self::Unexpected => Category::Internal,
        }
    }
}

/// etcd tells its errors apart by text; the codes are shared by several of them.
fn from_message(message: &str) -> Option<Trouble> {
    let told = message.strip_prefix("etcdserver: ")?;
    Some(match told {
        "user name not found"
        | "role name not found"
        | "role is not granted to the user"
        | "permission is not granted to the role" => Trouble::Absent,
        "user name already exists" | "role name already exists" => Trouble::Present,
        "permission denied" | "user name is empty" => Trouble::NotPermitted,
        "authentication is not enabled" => Trouble::AuthDisabled,
        "revision of auth store is old" => Trouble::Stale,
        "mvcc: database space exceeded" => Trouble::Full,
        _ if told.starts_with("authentication failed") || told == "invalid auth token" => {
            Trouble::CredentialsRefused
        }
        _ => return None,
    })
}

/// A failed connection hides its reason at the bottom of the chain.
fn from_source(error: &(dyn StdError + 'static)) -> Option<Trouble> {
    let mut next = Some(error);
    let mut broken = false;
    while let Some(cause) = next {
        // HTTP/2 keeps only the text of what broke a connection that was made. In TLS 1.3 a client's certificate
        // is refused just then: after the client believes that the handshake is done.
        if cause.is::<rustls::Error>() || cause.to_string().contains("received fatal alert") {
            return Some(Trouble::TlsRefused);
        }
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            let inner = cause.get_ref();
            if inner.is_some_and(<dyn StdError + Send + Sync>::is::<rustls::Error>) {
                return Some(Trouble::TlsRefused);
            }
            broken = true;
        }
        next = cause.source();
    }
    broken.then_some(Trouble::Unreachable)
}

fn from_code(code: Code) -> Trouble {
    match code {
        Code::DeadlineExceeded => Trouble::TimedOut,
        Code::ResourceExhausted | Code::OutOfRange => Trouble::TooLarge,
        // Cancelled is what requests on a connection are told when it closes.
        Code::Unavailable | Code::Cancelled => Trouble::Unreachable,
        Code::PermissionDenied => Trouble::NotPermitted,
        Code::Unauthenticated => Trouble::CredentialsRefused,
        _ => Trouble::Unexpected,
    }
}

/// What a request that failed was told.
#[derive(Debug)]
pub enum Cause {
    /// The store's answer, or the connection's failure.
    Refused(Box<Status>),
    /// No answer for this long.
    Silence(Duration),
}

impl fmt::Display for Cause {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The status's own text repeats the whole chain below it.
            Self::Refused(status) if status.message().is_empty() => {
                text.write_str(status.code().description())
            }
            Self::Refused(status) => text.write_str(status.message()),
            Self::Silence(time) => write!(text, "no answer within {} s", time.as_secs()),
        }
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Refused(status) => {
                let source = status.source()?;
                // A failed connection is reported with the text of its first cause.
                if source.to_string() == status.message() {
                    source.source()
                } else {
                    Some(source)
                }
            }
            Self::Silence(_) => None,
        }
    }
}

/// Why something could not be done in a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("could not {action} in store {store:?} at {endpoint}")]
    Request {
        /// What was tried, such as `add the role`.
        action: &'static str,
        /// Name of the store.
        store: String,
        /// The member that was asked last.
        endpoint: String,
        /// What kind of trouble it was.
        trouble: Trouble,
        /// What was reported.
        #[source]
        source: Cause,
    },
    /// An address cannot be used.
    #[error("could not use endpoint {endpoint:?} of store {store:?}: it must be host:port")]
    Endpoint {
        /// Name of the store.
        store: String,
        /// The address.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: Box<tonic::transport::Error>,
    },
    /// The store's credentials cannot be used.
    #[error("could not use the credentials of store {store:?}")]
    Credentials {
        /// Name of the store.
        store: String,
        /// The field that is wrong.
        #[source]
        source: credentials::Error,
    },
    /// The tenant's names cannot be used.
    #[error("could not name a place in the store")]
    Identity(#[from] identity::Error),
    /// Somebody else has the name.
    #[error(
        "{what} {name:?} of store {store:?} belongs to {owner}; choose another name, or leave it out to get one \
         that nobody else has"
    )]
    Taken {
        /// `schema` or `user`.
        what: &'static str,
        /// The name.
        name: String,
        /// Name of the store.
        store: String,
        /// Who has it.
        owner: String,
    },
    /// The store is for one tenant alone, and there is one.
    #[error(
        "store {store:?} is for one control plane alone and belongs to {owner}; name another store in spec.dataStore"
    )]
    Occupied {
        /// Name of the store.
        store: String,
        /// Whose it is.
        owner: String,
    },
    /// The store does not keep tenants apart.
    #[error(
        "store {store:?} does not authenticate its users, so every tenant could read every other; run \
         `etcdctl auth enable` on it, or give the tenant a store of its own"
    )]
    Open {
        /// Name of the store.
        store: String,
    },
    /// Others kept changing the same entries.
    #[error("could not {action} in store {store:?}: somebody else changed it at the same time")]
    Raced {
        /// What was tried.
        action: &'static str,
        /// Name of the store.
        store: String,
    },
}

impl Error {
    /// What kind of trouble a request met; `None` for errors that are not about a request.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Request { trouble, .. } => Some(*trouble),
            Self::Endpoint { .. }
            | Self::Credentials { .. }
            | Self::Identity(_)
            | Self::Taken { .. }
            | Self::Occupied { .. }
            | Self::Open { .. }
            | Self::Raced { .. } => None,
        }
    }
}

impl Classify for Error {
    fn category(&self) -> Category {
        match self {
            Self::Request { trouble, .. } => trouble.category(),
            Self::Endpoint { .. } | Self::Credentials { .. } | Self::Identity(_) => {
                Category::Invalid
            }
            // Heals without a change of the object that waits: the other tenant goes, auth is turned on.
            Self::Taken { .. } | Self::Occupied { .. } | Self::Raced { .. } => Category::Conflict,
            Self::Open { .. } => Category::Forbidden,
        }
    }
}

/// Says of a user or role that it is not there instead of failing.
pub(crate) fn absent_as_none<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.trouble() == Some(Trouble::Absent) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_etcd_are_understood() {
        let table = [
            ("etcdserver: user name not found", Trouble::Absent),
            ("etcdserver: role name already exists", Trouble::Present),
            ("etcdserver: permission denied", Trouble::NotPermitted),
            (
                "etcdserver: authentication is not enabled",
                Trouble::AuthDisabled,
            ),
            (
                "etcdserver: authentication failed, invalid user ID or password",
                Trouble::CredentialsRefused,
            ),
            ("etcdserver: mvcc: database space exceeded", Trouble::Full),
            ("etcdserver: revision of auth store is old", Trouble::Stale),
        ];
        for (message, trouble) in table {
            assert_eq!(from_message(message), Some(trouble), "{message}");
        }
        assert_eq!(from_message("etcdserver: no leader"), None);
        assert_eq!(from_code(Code::Unavailable), Trouble::Unreachable);
    }

    #[test]
    fn a_handshake_that_failed_is_not_taken_for_a_dead_host() {
        let tls = io::Error::new(
            io::ErrorKind::InvalidData,
            rustls::Error::NoCertificatesPresented,
        );
        assert_eq!(from_source(&tls), Some(Trouble::TlsRefused));
        let dead = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(from_source(&dead), Some(Trouble::Unreachable));
    }
}
