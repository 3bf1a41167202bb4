//! Structured logs: one line an event, with fields; JSON for machines, text for people.

use std::{
    io::{IsTerminal as _, stderr},
    str::FromStr,
};

use tracing_subscriber::{EnvFilter, fmt};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Text for a terminal.
    #[default]
    Text,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            other => Err(UnknownFormat(other.to_owned())),
        }
    }
}

/// A log format that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("unknown log format {0:?}: use json or text")]
pub struct UnknownFormat(String);

/// Sends the logs of this process to standard error; `filter` is like `info,kube=warn`.
///
/// A process does this once; a second call is ignored, so that tests may call it as well.
pub fn init(format: Format, filter: &str) {
    let filter = EnvFilter::new(filter);
    let lines = fmt().with_env_filter(filter).with_writer(stderr);
    let result = match format {
        Format::Json => lines.json().flatten_event(true).try_init(),
        Format::Text => lines.with_ansi(stderr().is_terminal()).try_init(),
    };
    if result.is_err() {
        tracing::debug!("logs were set up before");
    }
}
