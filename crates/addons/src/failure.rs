//! What kind of trouble a step had, and when it is worth another try.

use std::time::Duration;

use serde::Serialize;

/// The first wait.
const FIRST: Duration = Duration::from_secs(5);
/// The longest wait where time may heal it.
const LONGEST: Duration = Duration::from_mins(10);
/// The wait where only somebody can heal it, in a place that is not watched.
const HOPELESS: Duration = Duration::from_mins(30);

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Class {
    /// There is no such chart or version.
    ChartNotFound,
    /// The archive is not the one that was asked for.
    WrongDigest,
    /// The repository does not answer.
    RepositoryUnavailable,
    /// The repository wants other credentials.
    RepositoryForbidden,
    /// The chart does not accept the values, or cannot be rendered with them.
    InvalidValues,
    /// The API server refused an object.
    Refused,
    /// Objects belong to somebody else.
    Foreign,
    /// The cluster does not answer.
    Unreachable,
    /// Somebody else is at the release.
    Busy,
    /// It took too long.
    TimedOut,
    /// Helm did not run, or was ended.
    Interrupted,
    /// Anything else.
    Other,
}

impl Class {
    /// The reason of a condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ChartNotFound => "ChartNotFound",
            Self::WrongDigest => "WrongDigest",
            Self::RepositoryUnavailable => "RepositoryUnavailable",
            Self::RepositoryForbidden => "RepositoryForbidden",
            Self::InvalidValues => "InvalidValues",
            Self::Refused => "ObjectsRefused",
            Self::Foreign => "ObjectsOfOthers",
            Self::Unreachable => "ClusterUnreachable",
            Self::Busy => "ReleaseBusy",
            Self::TimedOut => "TimedOut",
            Self::Interrupted => "Interrupted",
            Self::Other => "HelmFailed",
        }
    }

    /// Whether waiting alone can help.
    pub fn is_transient(self) -> bool {
        match self {
            Self::WrongDigest | Self::InvalidValues | Self::Refused | Self::Foreign => false,
            Self::ChartNotFound
            | Self::RepositoryUnavailable
            | Self::RepositoryForbidden
            | Self::Unreachable
            | Self::Busy
            | Self::TimedOut
            | Self::Interrupted
            | Self::Other => true,
        }
    }

    /// How long to wait after so many failures in a row.
    pub fn patience(self, failures: u32) -> Duration {
        if !self.is_transient() {
            return HOPELESS;
        }
        let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(LONGEST)
    }
}

/// Words of Helm, and what they mean; the first that is found counts.
const WORDS: [(&str, Class); 27] = [
    (
        "another operation (install/upgrade/rollback) is in progress",
        Class::Busy,
    ),
    ("invalid ownership metadata", Class::Foreign),
    (
        "values don't meet the specifications of the schema",
        Class::InvalidValues,
    ),
    ("execution error at", Class::InvalidValues),
    ("error calling", Class::InvalidValues),
    ("YAML parse error", Class::InvalidValues),
    ("parse error at", Class::InvalidValues),
    ("nil pointer evaluating", Class::InvalidValues),
    ("chart requires kubeVersion", Class::InvalidValues),
    ("401 Unauthorized", Class::RepositoryForbidden),
    ("response status code 401", Class::RepositoryForbidden),
    ("response status code 403", Class::RepositoryForbidden),
    ("403 Forbidden", Class::RepositoryForbidden),
    ("404 Not Found", Class::ChartNotFound),
    (": not found", Class::ChartNotFound),
    ("not found in", Class::ChartNotFound),
    ("chart version not found", Class::ChartNotFound),
    ("looks like", Class::RepositoryUnavailable),
    ("Kubernetes cluster unreachable", Class::Unreachable),
    ("connection refused", Class::Unreachable),
    ("no route to host", Class::Unreachable),
    ("i/o timeout", Class::Unreachable),
    ("context deadline exceeded", Class::TimedOut),
    ("timed out", Class::TimedOut),
    ("is invalid", Class::Refused),
    ("forbidden", Class::Refused),
    ("failed to create typed patch object", Class::Refused),
];

/// What the words of a step that changes a release mean.
pub fn of_release(said: &str) -> Class {
    let found = WORDS.iter().find(|(words, _)| said.contains(words));
    match found {
        // The chart is at hand by then: what is missing is something in the cluster.
        Some((_, Class::ChartNotFound)) | None => Class::Other,
        Some((_, class)) => *class,
    }
}

/// What the words of fetching a chart mean.
pub fn of_fetching(said: &str) -> Class {
    let found = WORDS.iter().find(|(words, _)| said.contains(words));
    match found.map(|(_, class)| *class) {
        Some(Class::ChartNotFound) => Class::ChartNotFound,
        Some(Class::Refused | Class::RepositoryForbidden) => Class::RepositoryForbidden,
        _ => Class::RepositoryUnavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_helm_are_understood() {
        let schema = "Error: values don't meet the specifications of the schema(s) in the following chart(s):";
        assert_eq!(of_release(schema), Class::InvalidValues);
        let refused = "Error: Deployment.apps \"x\" is invalid: spec.replicas";
        assert_eq!(of_release(refused), Class::Refused);
        assert_eq!(
            of_release("Error: Kubernetes cluster unreachable: EOF"),
            Class::Unreachable
        );
        assert_eq!(of_release("what?"), Class::Other);
        let missing = "Error: failed to download: 127.0.0.1:5000/charts/x:9.9.9: not found";
        assert_eq!(of_fetching(missing), Class::ChartNotFound);
        assert_eq!(
            of_fetching("dial tcp: connection refused"),
            Class::RepositoryUnavailable
        );
    }

    #[test]
    fn waits_double_up_to_the_longest_and_what_is_hopeless_waits_longest() {
        let class = Class::Unreachable;
        assert_eq!(class.patience(1), Duration::from_secs(5));
        assert_eq!(class.patience(3), Duration::from_secs(20));
        assert_eq!(class.patience(99), LONGEST);
        assert_eq!(Class::InvalidValues.patience(1), HOPELESS);
    }
}
