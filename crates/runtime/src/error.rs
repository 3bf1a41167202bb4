//! Errors of talking to the API server, and what every reconciler's error must be able to say.

use kube::core::Status;

/// A bounded word for metrics and conditions: what kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// The request itself is wrong; waiting does not help.
    Invalid,
    /// We may not do this; a person has to grant it.
    Forbidden,
    /// Something that must exist does not.
    NotFound,
    /// Somebody was faster; look again.
    Conflict,
    /// The other side is not there, too slow or too busy; waiting helps.
    Unavailable,
    /// An answer that makes no sense.
    Internal,
}

impl Category {
    /// The label of a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::Conflict => "Conflict",
            Self::Unavailable => "Unavailable",
            Self::Internal => "Internal",
        }
    }

    /// Whether trying again without a change of the object can help.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Invalid => false,
            // Grants and missing objects appear without an event on the object that needs them.
            Self::Forbidden
            | Self::NotFound
            | Self::Conflict
            | Self::Unavailable
            | Self::Internal => true,
        }
    }
}

/// What a reconciler's error can say of itself.
pub trait Classify: std::error::Error + Send + Sync + 'static {
    /// What kind of trouble it is.
    fn category(&self) -> Category;
}

/// A request to the API server that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} {kind} {name:?}")]
pub struct ApiError {
    /// What was tried, such as `apply`.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object, with its namespace where it has one.
    pub name: String,
    /// What the client reported.
    #[source]
    pub source: Box<kube::Error>,
}

impl ApiError {
    /// An error about one object, for `map_err`.
    pub fn of(
        verb: &'static str,
        kind: &str,
        name: &str,
    ) -> impl FnOnce(kube::Error) -> Self + use<> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        move |source| Self {
            verb,
            kind,
            name,
            source: Box::new(source),
        }
    }
}

impl Classify for ApiError {
    fn category(&self) -> Category {
        match &*self.source {
            kube::Error::Api(status) => category_of(status),
            kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => Category::Internal,
            _ => Category::Unavailable,
        }
    }
}

/// Whether the API server said that the object is not there.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API server said that there is an object of this name.
pub fn is_already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

fn category_of(status: &Status) -> Category {
    match status.code {
        // The object was replaced by another of the same name since we saw it.
        422 if names_only(status, "metadata.uid") => Category::Conflict,
        400 | 405 | 406 | 413 | 415 | 422 => Category::Invalid,
        401 | 403 => Category::Forbidden,
        404 | 410 => Category::NotFound,
        409 => Category::Conflict,
        408 | 429 | 500..=599 => Category::Unavailable,
        _ => Category::Internal,
    }
}

/// Whether every cause that the API server gives is about this field.
fn names_only(status: &Status, field: &str) -> bool {
    let causes = status
        .details
        .as_ref()
        .map(|details| details.causes.as_slice());
    causes
        .is_some_and(|causes| !causes.is_empty() && causes.iter().all(|cause| cause.field == field))
}

/// The error and everything below it in one line: `could not apply …: connection refused`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line.push_str(": ");
        if let Some(status) = answer(cause) {
            // The client prints everything there is about an answer, twice.
            line.push_str(&status.message);
            break;
        }
        line.push_str(&cause.to_string());
        next = cause.source();
    }
    line
}

/// What the API server said, if that is what an error is about.
fn answer<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Status> {
    let boxed = error.downcast_ref::<Box<kube::Error>>();
    let plain = boxed.map(|error| &**error).or_else(|| error.downcast_ref());
    match plain {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> ApiError {
        let status = Status {
            code,
            ..Status::default()
        };
        ApiError::of("apply", "Namespace", "x")(kube::Error::Api(status.boxed()))
    }

    #[test]
    fn a_refused_object_is_not_tried_again_and_a_busy_server_is() {
        assert!(!answer(422).category().is_transient());
        assert!(answer(429).category().is_transient());
        assert!(answer(503).category().is_transient());
        assert_eq!(answer(409).category(), Category::Conflict);
    }

    #[test]
    fn the_chain_ends_with_what_the_server_said() {
        let status = Status {
            code: 403,
            message: "pods is forbidden".to_owned(),
            ..Status::default()
        };
        let error = ApiError::of("create", "Pod", "a/b")(kube::Error::Api(status.boxed()));
        let said = r#"could not create Pod "a/b": pods is forbidden"#;
        assert_eq!(chain(&error), said);
    }

    #[test]
    fn the_chain_says_every_cause_once() {
        let line = chain(&answer(404));
        assert!(
            line.starts_with("could not apply Namespace \"x\": "),
            "{line}"
        );
    }
}
