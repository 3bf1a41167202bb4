//! `butlerctl addon`: addons of tenant clusters.

mod plan;

use clap::Subcommand;

use super::{
    connection::Access,
    failure::{Failure, exit_codes},
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what an addon would change in its cluster, without changing it
    #[command(after_help = exit_codes())]
    Plan(Box<plan::Plan>),
}

pub(crate) async fn run(command: Command, access: &Access) -> Result<(), Failure> {
    match command {
        Command::Plan(args) => plan::run(&args, access).await,
    }
}
