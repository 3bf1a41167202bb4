//! Why the platform could not be brought up, asked or taken down.

use std::{io, time::Duration};

use thiserror::Error;

use crate::preflight::Finding;

/// What went wrong, and what helps.
#[derive(Debug, Error)]
pub enum Error {
    /// This machine cannot carry a platform as it is.
    #[error("this machine is not ready:\n{}", list(.0))]
    Preflight(Vec<Finding>),
    /// There is a platform that was made with something else.
    #[error("there is a platform with {held}; run `butleradm reset` to make one with {wanted}")]
    Different {
        /// What it has.
        held: String,
        /// What was asked for.
        wanted: String,
    },
    /// There is none.
    #[error("there is no platform here; `butleradm up` makes one")]
    Nothing,
    /// Somebody else is at it.
    #[error("another butleradm is working on the platform; wait until it has ended")]
    Busy,
    /// Something did not work.
    #[error("could not {what}")]
    Failed {
        /// What was tried.
        what: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A command said no.
    #[error("could not {what}: {said}")]
    Command {
        /// What was tried.
        what: String,
        /// What it said.
        said: String,
    },
    /// Something did not happen.
    #[error("waited {} s for {what}; last: {last}", .patience.as_secs())]
    Late {
        /// What was waited for.
        what: String,
        /// For how long.
        patience: Duration,
        /// How it was at the end.
        last: String,
    },
}

impl Error {
    /// Says what was tried when something failed.
    pub fn on<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Failed {
            what,
            source: source.into(),
        }
    }

    /// The exit code of a command that ended with this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Preflight(_) => 3,
            Self::Different { .. } | Self::Nothing | Self::Busy => 4,
            Self::Failed { .. } | Self::Command { .. } | Self::Late { .. } => 1,
        }
    }
}

fn list(findings: &[Finding]) -> String {
    let lines: Vec<_> = findings.iter().map(|it| format!("  - {it}")).collect();
    lines.join("\n")
}

/// The output of a command that succeeded.
pub(crate) fn succeeded(
    what: &str,
    output: io::Result<std::process::Output>,
) -> Result<String, Error> {
    let output = output.map_err(Error::on(what))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    let said = if said.is_empty() { printed } else { said };
    let lines: Vec<_> = said.lines().rev().take(12).collect();
    Err(Error::Command {
        what: what.to_owned(),
        said: lines.into_iter().rev().collect::<Vec<_>>().join("\n"),
    })
}
