//! `cargo xtask`: everything about the repository that is more than building it.

mod bench;
mod deny;
mod e2e;
mod generate;
mod layers;
mod steps;
mod test;
mod up;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tasks of the Butler repository.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated files: crds/, rbac/ and the field reference
    Gen {
        /// Only compare, and fail if a file is out of date
        #[arg(long)]
        check: bool,
    },
    /// Check that arrows between crates point one way and pure crates are pure
    Layers,
    /// Check licences and banned packages
    Deny,
    /// Run every check and every test
    Test,
    /// Hand addons over to the real Flux; then bring a whole platform up on this machine, use it, break it, take it down
    /// and count what is left
    E2e,
    /// Start a real API server with Butler's resources and controllers
    Up,
    /// Measure, and compare with the goals
    Bench {
        /// What to measure
        #[arg(value_enum)]
        subject: bench::Subject,
        /// How long addons are watched while nothing happens
        #[arg(long, default_value = "600")]
        quiet_seconds: u64,
    },
    /// Run the controllers of addons alone, to be measured
    #[command(hide = true)]
    AddonsAlone(bench::addons::alone::Alone),
    /// Make the real components available: etcd, Kubernetes, Cluster API, Helm, ...
    #[command(subcommand)]
    Toolchain(butler_toolchain::cli::Command),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    match Cli::parse().task {
        Task::Gen { check } => generate::run(check),
        Task::Layers => layers::check(),
        Task::Deny => deny::check(),
        Task::Test => test::run(),
        Task::E2e => e2e::run(),
        Task::Up => up::run(),
        Task::Bench {
            subject,
            quiet_seconds,
        } => bench::run(subject, quiet_seconds),
        Task::AddonsAlone(alone) => bench::addons::alone::run(alone),
        Task::Toolchain(command) => Ok(butler_toolchain::cli::run(&command)?),
    }
}
