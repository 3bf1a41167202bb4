//! What a machine does when it starts for the first time: bootstrap data as a plan of steps. Pure.
//!
//! Bootstrap data is a cloud-config, as Cluster API's kubeadm bootstrap provider writes it. [`plan`] understands it
//! once, before a machine exists; whoever carries the plan out has no choices left. It must not know how a machine is
//! made. Errors never repeat content: there are join tokens in it.

mod commands;
mod document;
mod files;
mod template;
mod users;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The file by which bootstrap data says that it succeeded: part of Cluster API's bootstrap contract.
pub const SENTINEL: &str = "/run/cluster-api/bootstrap-success.complete";

/// Everything to be done, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What to do.
    pub steps: Vec<Step>,
    /// Parts of the data that mean nothing on a machine of this platform, in words.
    pub ignored: Vec<String>,
    /// Whether success is told by [`SENTINEL`]; otherwise by the exit codes of the scripts.
    pub writes_sentinel: bool,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Write a file.
    File(File),
    /// Make a user.
    User(User),
    /// Run commands.
    Script(Script),
}

/// A file to be written.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    /// Where: always absolute.
    pub path: String,
    /// What, decoded.
    #[serde(with = "files::as_base64")]
    pub content: Vec<u8>,
    /// Who owns it, by name or number.
    pub owner: String,
    /// Which group owns it, by name or number.
    pub group: String,
    /// Who may do what with it, such as `0o640`.
    pub mode: u32,
    /// Whether it goes behind what is there.
    pub append: bool,
}

/// The content of a file is not shown: keys and tokens are written this way.
impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            path,
            content,
            owner,
            group,
            mode,
            append,
        } = self;
        f.debug_struct("File")
            .field("path", path)
            .field("bytes", &content.len())
            .field("owner", owner)
            .field("group", group)
            .field("mode", &format_args!("{mode:o}"))
            .field("append", append)
            .finish()
    }
}

/// A user to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// Name to sign in with.
    pub name: String,
    /// Real name.
    pub gecos: Option<String>,
    /// Home folder; left out, the usual one.
    pub home: Option<String>,
    /// Shell; left out, the usual one.
    pub shell: Option<String>,
    /// The group it belongs to first.
    pub primary_group: Option<String>,
    /// Further groups; those that do not exist are made.
    pub groups: Vec<String>,
    /// Lines for sudo, without the name.
    pub sudo: Vec<String>,
    /// Whether signing in with a password is impossible.
    pub locked: bool,
    /// A hashed password.
    pub password_hash: Option<String>,
    /// Keys that may sign in.
    pub authorized_keys: Vec<String>,
}

/// Commands to be run as one script, so that a directory or variable set by one line holds for the next.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// Where it comes from: `bootcmd` or `runcmd`.
    pub name: String,
    /// For `/bin/sh`.
    pub text: String,
}

/// The text of a script is not shown: it may hold secrets.
impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script")
            .field("name", &self.name)
            .field("lines", &self.text.lines().count())
            .finish()
    }
}

/// What the data may ask about the machine it runs on, as cloud-init calls it.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// `instance_id`: what is behind `local://` in the provider's id.
    pub instance_id: String,
    /// `local_hostname` and `hostname`.
    pub hostname: String,
    /// `local_ipv4` or `local_ipv6`.
    pub address: IpAddr,
}

/// Why bootstrap data cannot be used. Waiting does not help: it has to be written anew.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Another format than the only one that is understood.
    #[error(
        "the bootstrap data is {found}; machines of this platform understand #cloud-config only"
    )]
    Format {
        /// What it looks like.
        found: &'static str,
    },
    /// The data is not text.
    #[error("the bootstrap data is not UTF-8 text")]
    Binary,
    /// The data is a template that cannot be filled in.
    #[error("the bootstrap data is a jinja template that cannot be filled in: {reason}")]
    Template {
        /// Why, with the line.
        reason: String,
    },
    /// The data is not YAML.
    #[error("the bootstrap data is not YAML: see {place}")]
    Yaml {
        /// Line and column.
        place: String,
    },
    /// A part of the data is not what it should be.
    #[error("the bootstrap data has a mistake at {at}: it must be {expected}")]
    Field {
        /// Which part, such as `write_files[0].path`.
        at: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The content of a file cannot be decoded.
    #[error("the bootstrap data has a mistake at {at}: the content is not {encoding}")]
    Content {
        /// Which part.
        at: String,
        /// What it says it is.
        encoding: &'static str,
    },
}

/// Understands bootstrap data; `format` is the one that its Secret names.
pub fn plan(data: &[u8], format: Option<&str>, metadata: &Metadata) -> Result<Plan, Error> {
    match format {
        None | Some("" | "cloud-config") => {}
        Some("ignition") => {
            return Err(Error::Format {
                found: "for Ignition",
            });
        }
        Some(_) => {
            return Err(Error::Format {
                found: "in a format of another name",
            });
        }
    }
    let data = files::unpacked(data)?;
    let text = std::str::from_utf8(&data).map_err(|_| Error::Binary)?;
    let text = template::fill_in(text, metadata)?;
    let mut plan = document::read(&text)?;
    plan.writes_sentinel = text.contains(SENTINEL);
    Ok(plan)
}
