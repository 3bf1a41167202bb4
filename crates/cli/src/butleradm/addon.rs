//! `butleradm addon`: addons of the management cluster.

use butler_api::butler::ManagementAddon;
use butler_controller::management_addon::preview::preview;
use butler_runtime::clock::SystemClock;
use clap::Subcommand;
use kube::{Api, ResourceExt as _};

use crate::{
    addon_plan::{Plan, definition},
    connection::{Which, client},
    failure::{Failure, exit_codes},
};

/// Which management cluster, and what to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what a `ManagementAddon` would change in the management cluster, without changing it
    // --version is the chart's.
    #[command(after_help = exit_codes(), disable_version_flag = true)]
    Plan(Box<Plan>),
}

pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Plan(plan) => self::plan(plan, &args.which).await,
    }
}

async fn plan(args: &Plan, which: &Which) -> Result<(), Failure> {
    let config = which.config().await?;
    let client = client(config.clone())?;
    let api: Api<ManagementAddon> = Api::all(client.clone());
    let addon = args.addon(&api).await?;
    let definition = definition(&addon, &client).await?;
    let bench = args.bench()?;
    let tools = bench.tools(args);
    let found = preview(
        &config,
        &client,
        SystemClock::shared(),
        &tools,
        &addon,
        definition.as_ref(),
    );
    let found = Box::pin(found).await;
    args.tell(&format!("ManagementAddon {}", addon.name_any()), found)
}
