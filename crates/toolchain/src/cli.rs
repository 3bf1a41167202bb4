//! The `toolchain` command, ready to be put below any program's own.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt,
    path::Path,
};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::HumanBytes;

use crate::{
    manifest::Group,
    progress,
    selection::{Name, Selection},
    status::{ArtifactStatus, State},
    toolchain::{Error, Toolchain},
};

/// What the command can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Make the pinned components available; quick when they are
    Install(Install),
    /// Print what is there, from where and how large
    Status,
    /// Read everything that is installed and compare it with what was installed
    Verify,
    /// Remove what only building needs; installed components stay
    Prune,
}

/// What to install.
#[derive(Clone, Debug, Args)]
pub struct Install {
    /// Which components: those `make test` needs, those only the platform needs, or all
    #[arg(long, value_enum, default_value_t = GroupChoice::All, conflicts_with = "names")]
    pub group: GroupChoice,
    /// Components or binaries, such as `etcd`, `kubectl` or `kubernetes@v1.34.4`
    #[arg(value_name = "COMPONENT")]
    pub names: Vec<Name>,
}

/// The groups of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GroupChoice {
    /// What `make test` needs
    Test,
    /// What only the local platform needs
    Platform,
    /// Both
    All,
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The toolchain could not do it.
    #[error(transparent)]
    Toolchain(#[from] Error),
    /// Files are not what was installed.
    #[error("{0} of the installed components are damaged: run `cargo xtask toolchain install`")]
    Damaged(usize),
    /// The answer could not be written.
    #[error("could not print the answer")]
    Print(#[source] io::Error),
}

/// Runs the command for this user's toolchain.
pub fn run(command: &Command) -> Result<(), CommandError> {
    let toolchain = Toolchain::locate()?;
    match command {
        Command::Install(install) => {
            let progress = progress::for_stderr();
            toolchain.ensure(&install.selection(), progress.as_ref())?;
            Ok(())
        }
        Command::Status => {
            print(&table(&toolchain.status()))?;
            // Apart, because it has to look at several hundred thousand files.
            let build = HumanBytes(disk_usage(&toolchain.build_folder()));
            let folder = toolchain.folder().display();
            print(&format!(
                "build caches: {build} (`prune` removes them)\nfolder: {folder}\n"
            ))
        }
        Command::Verify => {
            let statuses = toolchain.verify()?;
            print(&table(&statuses))?;
            let damaged = |status: &&ArtifactStatus| matches!(status.state, State::Untrusted(_));
            match statuses.iter().filter(damaged).count() {
                0 => Ok(()),
                count => Err(CommandError::Damaged(count)),
            }
        }
        Command::Prune => {
            let size = HumanBytes(disk_usage(&toolchain.build_folder()));
            toolchain.prune()?;
            print(&format!("removed {size}\n"))
        }
    }
}

fn print(text: &str) -> Result<(), CommandError> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(CommandError::Print)
}

impl Install {
    /// What the arguments select.
    pub fn selection(&self) -> Selection {
        if !self.names.is_empty() {
            return Selection::Named(self.names.clone());
        }
        match self.group {
            GroupChoice::Test => Selection::Group(Group::Test),
            GroupChoice::Platform => Selection::Group(Group::Platform),
            GroupChoice::All => Selection::All,
        }
    }
}

/// A table of all artifacts, with the sum of what is installed.
fn table(statuses: &[ArtifactStatus]) -> String {
    let mut rows =
        vec![["COMPONENT", "VERSION", "NAME", "GROUP", "SIZE", "SOURCE"].map(str::to_owned)];
    let mut total = 0;
    for status in statuses {
        let (size, source) = match &status.state {
            State::Installed(artifact) => {
                total += artifact.size;
                (
                    HumanBytes(artifact.size).to_string(),
                    artifact.origin.to_string(),
                )
            }
            State::Missing => ("-".to_owned(), "not installed".to_owned()),
            State::Untrusted(reason) => ("-".to_owned(), format!("not trusted: {reason}")),
        };
        let group = match status.group {
            Group::Test => "test",
            Group::Platform => "platform",
        };
        rows.push([
            status.component.clone(),
            status.version.to_string(),
            status.name.clone(),
            group.to_owned(),
            size,
            source,
        ]);
    }
    let mut text = align(&rows);
    let _ = writeln!(text, "installed: {}", HumanBytes(total));
    text
}

/// Columns as wide as their widest cell.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Bytes on disk below a folder. What cannot be read counts nothing.
fn disk_usage(folder: &Path) -> u64 {
    let mut open = vec![folder.to_owned()];
    let mut total = 0;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            total += metadata.blocks() * 512;
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(subcommand)]
        command: Command,
    }

    fn selection(arguments: &[&str]) -> Option<Selection> {
        let arguments = ["toolchain", "install"].iter().chain(arguments);
        match Program::try_parse_from(arguments).ok()?.command {
            Command::Install(install) => Some(install.selection()),
            Command::Status | Command::Verify | Command::Prune => None,
        }
    }

    #[test]
    fn arguments_select_groups_or_names() {
        assert_eq!(selection(&[]), Some(Selection::All));
        assert_eq!(
            selection(&["--group", "test"]),
            Some(Selection::Group(Group::Test))
        );
        let names = ["etcd", "kubectl@v1.34.4"].map(|name| name.parse().unwrap());
        assert_eq!(
            selection(&["etcd", "kubectl@v1.34.4"]),
            Some(Selection::Named(names.into()))
        );
        for refused in [
            &["--group", "test", "etcd"][..],
            &["--group", "most"],
            &["etcd@newest"],
        ] {
            assert_eq!(selection(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn the_table_shows_every_state() {
        let status = |name: &str, state| ArtifactStatus {
            component: "kubernetes".into(),
            version: "v1.35.4".parse().unwrap(),
            name: name.into(),
            group: Group::Test,
            state,
        };
        let installed = State::Installed(crate::status::InstalledArtifact {
            component: "kubernetes".into(),
            version: "v1.35.4".parse().unwrap(),
            name: "kubectl".into(),
            path: "/cache/kubectl".into(),
            origin: crate::receipt::Origin::Path {
                path: "/usr/bin/kubectl".into(),
            },
            size: 3 << 20,
        });
        let text = table(&[
            status("kubectl", installed),
            status("kubelet", State::Missing),
            status("kubeadm", State::Untrusted("it is short".into())),
        ]);
        assert_eq!(
            text,
            "COMPONENT   VERSION  NAME     GROUP  SIZE      SOURCE\n\
             kubernetes  v1.35.4  kubectl  test   3.00 MiB  /usr/bin/kubectl\n\
             kubernetes  v1.35.4  kubelet  test   -         not installed\n\
             kubernetes  v1.35.4  kubeadm  test   -         not trusted: it is short\n\
             installed: 3.00 MiB\n"
        );
    }
}
