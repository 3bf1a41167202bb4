//! What goes to standard output: text for people, or objects for programs.

use std::io::{self, Write as _};

use butler_api::butler::TenantCluster;
use clap::ValueEnum;
use serde::Serialize;

use crate::failure::{Code, Failure};

/// How an answer is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For people, with more columns
    Wide,
    /// For programs
    Json,
    /// For programs and files
    Yaml,
}

/// How data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

impl Format {
    /// The syntax of a format for programs.
    pub(crate) fn syntax(self) -> Option<Syntax> {
        match self {
            Self::Table | Self::Wide => None,
            Self::Json => Some(Syntax::Json),
            Self::Yaml => Some(Syntax::Yaml),
        }
    }
}

/// Writes a value as data.
pub(crate) fn data(value: &impl Serialize, syntax: Syntax) -> Result<(), Failure> {
    let wrong = |error: &dyn std::error::Error| {
        Failure::new(Code::Failed, format!("could not write the answer: {error}"))
    };
    let text = match syntax {
        Syntax::Json => serde_json::to_string_pretty(value).map_err(|error| wrong(&error))? + "\n",
        Syntax::Yaml => serde_saphyr::to_string(value).map_err(|error| wrong(&error))?,
    };
    bytes(text.as_bytes())
}

/// Writes one line.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes text or anything else.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(|error| {
            Failure::new(
                Code::Failed,
                format!("could not write to standard output: {error}"),
            )
        }),
    }
}

/// A cluster without what only the API server needs.
pub(crate) fn clean(mut cluster: TenantCluster) -> TenantCluster {
    cluster.metadata.managed_fields = None;
    cluster
}
