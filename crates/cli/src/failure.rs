//! How a command ends that did not do what it should: a sentence for people and a number for scripts.

use std::{fmt, process::ExitCode};

use butler_runtime::error::chain;

/// Exit codes. They are part of the interface: none ever changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Something went wrong that is none of the others.
    Failed = 1,
    /// The command line, a file or the kubeconfig is not right.
    Usage = 2,
    /// The cluster, or something it names, is not there.
    NotFound = 3,
    /// The API server does not let you.
    Denied = 4,
    /// It did not become true in time; what was asked for stands.
    TimedOut = 5,
    /// A rule forbids the change, or somebody else was faster; nothing was written.
    Refused = 6,
    /// There are changes, and they were to be told by this code.
    Differs = 7,
}

/// All codes with their meaning, for the help.
pub(crate) fn exit_codes() -> String {
    let codes = [
        (0, "done"),
        (Code::Failed as u8, "failed"),
        (
            Code::Usage as u8,
            "the command line, a file or the kubeconfig is not right",
        ),
        (
            Code::NotFound as u8,
            "the cluster, or something it names, is not there",
        ),
        (Code::Denied as u8, "the API server does not let you"),
        (
            Code::TimedOut as u8,
            "not true within --timeout; what was asked for stands and goes on",
        ),
        (
            Code::Refused as u8,
            "a rule forbids it, or somebody else was faster; nothing was written",
        ),
        (Code::Differs as u8, "with --exit-code: there are changes"),
    ];
    let lines = codes.map(|(code, meaning)| format!("\n  {code}  {meaning}"));
    format!("Exit codes:{}", lines.concat())
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command did not do what it should.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::Usage, text)
    }

    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(Code::Refused, text)
    }

    /// What the API server answered when it was asked to do `what`, such as `scale TenantCluster team-a/demo`.
    pub(crate) fn answer(what: &str, error: &kube::Error) -> Self {
        let (code, remedy) = match error {
            kube::Error::Api(status) => match status.code {
                401 => (
                    Code::Denied,
                    "the API server does not know who you are: renew the credentials of your kubeconfig",
                ),
                403 => (
                    Code::Denied,
                    "ask an administrator of the team or the platform for that right",
                ),
                404 if is_unknown_kind(status) => (
                    Code::Failed,
                    "this API server does not know Butler's kinds: point --kubeconfig or --context at the management cluster",
                ),
                404 => (Code::NotFound, ""),
                409 if status.reason == "AlreadyExists" => (
                    Code::Refused,
                    "choose another name, or change the one that is there",
                ),
                409 => (Code::Refused, "look at it again, then repeat the command"),
                400 | 422 => (Code::Refused, "nothing was written"),
                429 | 500..=599 => (
                    Code::Failed,
                    "the API server is busy or not well: repeat the command in a moment",
                ),
                _ => (Code::Failed, ""),
            },
            _ => (
                Code::Failed,
                "is the management cluster up, and does --kubeconfig or --context point at it?",
            ),
        };
        let mut text = format!("could not {what}: {}", said(error));
        if !remedy.is_empty() {
            text.push_str("; ");
            text.push_str(remedy);
        }
        Self { code, text }
    }
}

/// Whether a 404 is about the kind and not about an object: only the latter is named in the answer.
fn is_unknown_kind(status: &kube::core::Status) -> bool {
    let details = status.details.as_ref();
    details.is_none_or(|details| details.name.is_empty())
}

/// What the API server said, in its own words; else why it could not be asked.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16, name: &str) -> Failure {
        let status =
            serde_json::json!({"code": code, "message": "said so", "details": {"name": name}});
        let status: Status = serde_json::from_value(status).unwrap();
        Failure::answer("get TenantCluster a/b", &kube::Error::Api(status.boxed()))
    }

    #[test]
    fn every_kind_of_answer_has_its_own_exit_code() {
        assert_eq!(answer(401, "b").code, Code::Denied);
        assert_eq!(answer(403, "b").code, Code::Denied);
        assert_eq!(answer(404, "b").code, Code::NotFound);
        assert_eq!(answer(409, "b").code, Code::Refused);
        assert_eq!(answer(422, "b").code, Code::Refused);
        assert_eq!(answer(503, "b").code, Code::Failed);
    }

    #[test]
    fn an_api_server_without_butler_is_not_a_missing_cluster() {
        let failure = answer(404, "");
        assert_eq!(failure.code, Code::Failed);
        assert!(
            failure.to_string().contains("management cluster"),
            "{failure}"
        );
    }

    #[test]
    fn the_help_names_every_code() {
        let help = exit_codes();
        for code in 0..=7 {
            assert!(help.contains(&format!("\n  {code}  ")), "{help}");
        }
    }
}
