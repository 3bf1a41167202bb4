//! Runs the real Helm (ADR 0029): [`process`] starts it, [`charts`] keeps charts by their digest, [`release`] carries out
//! one step of a release, [`pool`] bounds how many run at once, and [`look`] reads what stands in a cluster without it.

pub mod charts;
pub mod look;
pub mod namespace;
pub mod pool;
pub mod process;
pub mod release;

use std::io;

use butler_addons::failure::Class;

/// A step that could not be carried out, in words that may be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StepError {
    /// What kind of trouble.
    pub class: Class,
    /// What happened, without anything secret.
    pub message: String,
}

impl StepError {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }

    /// This machine could not do its part.
    pub(crate) fn broken(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(Class::Interrupted, format!("could not {what}: {error}"))
    }
}
