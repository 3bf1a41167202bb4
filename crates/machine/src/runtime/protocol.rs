//! What is said over the socket of a machine's first process: one line of JSON each way. Pure.

use serde::{Deserialize, Serialize};

/// Where the first process listens, as the machine sees it. The host goes through `/proc/PID/root`.
pub const SOCKET: &str = "/run/butler/machine.sock";

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Do something about a service; answered by one [`Answer`].
    Service {
        /// What to do.
        verb: Verb,
        /// With which service, such as `kubelet`.
        unit: String,
    },
    /// Tell how the bootstrap data fares: one [`Progress`] now and one for each change, until the machine ends.
    Watch,
}

/// What can be done about a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Run it from now on.
    Start,
    /// Do not run it any more.
    Stop,
    /// Run it anew.
    Restart,
    /// Say whether it runs.
    Query,
}

/// What became of a request about a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// There is no such service.
    Unknown,
    /// It runs, or is on its way to.
    Active,
    /// It does not run and shall not.
    Inactive,
}

/// How the bootstrap data fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// It is being carried out, or waits for the container runtime.
    Working,
    /// It has ended.
    Ended(Outcome),
}

/// How the bootstrap data ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Everything was done.
    Succeeded,
    /// Something could not be done.
    Failed {
        /// What, and why; without content of the bootstrap data.
        reason: String,
    },
}
