//! Calls to a tenant's API server that went wrong, and the time each of them may take.

use std::{future::Future, time::Duration};

use butler_runtime::error::{ApiError, Category, Classify};

/// A call to a tenant's API server that failed.
#[derive(Debug, thiserror::Error)]
pub enum TenantError {
    /// It was refused, or did not arrive.
    #[error("the tenant's API server did not do what it was asked")]
    Api(#[source] ApiError),
    /// There was no answer in time.
    #[error("the tenant's API server took longer than {limit:?} to {verb} {what}")]
    Late {
        /// What was tried, such as `apply`.
        verb: &'static str,
        /// With what.
        what: String,
        /// How long was waited.
        limit: Duration,
    },
}

impl Classify for TenantError {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) => error.category(),
            Self::Late { .. } => Category::Unavailable,
        }
    }
}

impl TenantError {
    /// Whether the tenant is out of reach, which is what opens a breaker; an answer that says no is an answer.
    pub fn is_outage(&self) -> bool {
        self.category() == Category::Unavailable
    }
}

/// One call with a deadline.
pub(super) async fn within<T>(
    limit: Duration,
    verb: &'static str,
    kind: &str,
    name: &str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, TenantError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => {
            answer.map_err(|error| TenantError::Api(ApiError::of(verb, kind, name)(error)))
        }
        Err(_) => Err(TenantError::Late {
            verb,
            what: format!("{kind} {name}"),
            limit,
        }),
    }
}
