//! `butleradm`: for people who run the platform.

mod addon;
mod local;
mod machine;
mod mirror;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure;

/// Run a Butler platform
#[derive(Parser)]
#[command(name = "butleradm", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a platform on this machine, or what is missing of it
    Up(local::Up),
    /// Say how the platform of this machine is
    Status,
    /// End the platform of this machine; its disks stay
    Down,
    /// Show the log of a part
    Logs(local::Logs),
    /// End the platform and remove its disks
    Reset,
    /// Break a machine of a tenant on purpose, or repair it
    Machine(machine::Args),
    /// See to addons of the management cluster
    Addon(addon::Args),
    /// Fill a registry with the platform's images
    Mirror(mirror::Args),
    /// Keep a platform going; started by `up`
    #[command(hide = true)]
    Agent,
}

/// Runs what the command line asks for.
pub fn main() -> ExitCode {
    // A machine begins as this program, with one thread and nothing else.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == butler_local::machines::WORD
    {
        return butler_machine::runtime::main(rest);
    }
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Up(args) => local::up(&args).await,
        Command::Status => local::status().await,
        Command::Down => local::down().await,
        Command::Logs(args) => local::logs(&args),
        Command::Reset => local::reset().await,
        Command::Machine(args) => machine::run(&args),
        Command::Addon(args) => match Box::pin(addon::run(&args)).await {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(failure) => Err(failure.into()),
        },
        Command::Mirror(args) => mirror::run(args).await,
        Command::Agent => local::agent().await,
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("butleradm: {}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// How a command ended that did not do what it should.
struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    fn new(error: &dyn std::error::Error, code: u8) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self { text, code }
    }
}

impl From<butler_local::Error> for Failure {
    fn from(error: butler_local::Error) -> Self {
        Self::new(&error, error.exit_code())
    }
}

impl From<failure::Failure> for Failure {
    fn from(failure: failure::Failure) -> Self {
        Self {
            text: failure.to_string(),
            code: failure.code as u8,
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
