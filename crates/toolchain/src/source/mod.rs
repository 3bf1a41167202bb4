//! The places artifacts come from. Each either leaves a file in a staging folder or says why it cannot.
//!
//! None of them decides whether it is used (that is [`crate::plan`]) or touches what is installed (that is
//! [`crate::cache`]).

pub(crate) mod archive;
pub(crate) mod download;
pub(crate) mod gobuild;
pub(crate) mod mirror;
pub(crate) mod path;

/// An error with all its causes on one line, for people who see only this line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
