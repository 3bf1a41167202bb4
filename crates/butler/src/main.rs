//! `butler`: the long-running parts of the platform, one sub-command each.

mod controller;
mod process;
mod steward;

use std::process::ExitCode;

use butler_runtime::logging::{self, Format};
use clap::{Parser, Subcommand};

/// Passes are made of small, short-lived pieces, which the system's allocator spends a fifth of their time on.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The long-running parts of the Butler platform.
#[derive(Parser)]
#[command(version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    part: Part,
    /// How log lines look: json or text
    #[arg(long, env = "BUTLER_LOG_FORMAT", default_value = "json", global = true)]
    log_format: Format,
    /// Which log lines are written, such as `debug` or `info,kube=warn`
    #[arg(long, env = "BUTLER_LOG", default_value = "info", global = true)]
    log: String,
}

#[derive(Subcommand)]
enum Part {
    /// Reconcile Butler's own kinds: configuration, teams, clusters, addons
    Controller(controller::Args),
    /// Run hosted control planes: control planes as pods, and the stores they keep their state in
    Steward(steward::Args),
}

fn main() -> ExitCode {
    // A machine of the local platform begins as this program, with one thread and nothing else.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == "machine"
    {
        return butler_machine::runtime::main(rest);
    }
    run()
}

#[tokio::main]
async fn run() -> ExitCode {
    let cli = Cli::parse();
    logging::init(cli.log_format, &cli.log);
    let result = match cli.part {
        Part::Controller(args) => controller::run(args).await,
        Part::Steward(args) => steward::run(args).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "cannot go on");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_fits_together() {
        super::Cli::command().debug_assert();
    }
}
