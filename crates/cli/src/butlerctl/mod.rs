//! The command line of `butlerctl`: what there is, and how it ends.

mod addon;
mod cluster;
mod news;
mod progress;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    connection::{self, Access},
    documents,
    failure::{self, Failure, exit_codes},
    output, table,
};

/// Name of the program, and of the field manager of what it writes.
const NAME: &str = "butlerctl";

/// Use the Kubernetes clusters of a Butler platform
#[derive(Parser)]
#[command(name = NAME, version, after_help = exit_codes())]
struct Cli {
    #[command(flatten)]
    access: Access,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List, make, change and remove clusters
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// See to addons of clusters
    #[command(subcommand)]
    Addon(addon::Command),
    /// Say which release this is
    Version,
    /// Write the completion script of a shell
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// Runs what the command line asks for.
pub async fn run() -> ExitCode {
    let cli = Cli::parse();
    match carry_out(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{NAME}: {failure}");
            failure.code.into()
        }
    }
}

async fn carry_out(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Cluster(command) => Box::pin(cluster::run(command, &cli.access)).await,
        Command::Addon(command) => Box::pin(addon::run(command, &cli.access)).await,
        Command::Version => output::line(&format!("{NAME} {}", env!("CARGO_PKG_VERSION"))),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), NAME, &mut script);
            output::bytes(&script)
        }
    }
}

/// The whole command line, for its reference.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_fits_together() {
        super::command().debug_assert();
    }
}
