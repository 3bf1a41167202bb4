//! `butlerctl addon`: addons of tenant clusters.

use butler_api::butler::TenantAddon;
use butler_controller::tenant_addon::preview::preview;
use clap::Subcommand;
use kube::{Api, ResourceExt as _};

use super::cluster::kubeconfig;
use crate::{
    addon_plan::{Plan, definition},
    connection::Access,
    failure::{Failure, exit_codes},
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what a `TenantAddon` would change in its cluster, without changing it
    #[command(after_help = exit_codes())]
    Plan(Box<Plan>),
}

pub(crate) async fn run(command: Command, access: &Access) -> Result<(), Failure> {
    match command {
        Command::Plan(args) => plan(&args, access).await,
    }
}

async fn plan(args: &Plan, access: &Access) -> Result<(), Failure> {
    let mut connection = access.connect().await?;
    let api: Api<TenantAddon> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let mut addon = args.addon(&api).await?;
    match &addon.metadata.namespace {
        Some(namespace) => connection.namespace.clone_from(namespace),
        None => addon.metadata.namespace = Some(connection.namespace.clone()),
    }
    let definition = definition(&addon, &connection.client).await?;
    let kubeconfig = kubeconfig::fetch(&connection, &addon.spec.cluster_ref.name).await?;
    let bench = args.bench()?;
    let tools = bench.tools(args);
    let found = preview(
        &connection.client,
        &tools,
        &addon,
        definition.as_ref(),
        &kubeconfig,
    );
    let found = Box::pin(found).await;
    let title = format!("TenantAddon {}/{}", connection.namespace, addon.name_any());
    args.tell(&title, found)
}
