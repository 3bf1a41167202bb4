//! `butlerctl cluster`: everything about tenant clusters.

mod change;
mod create;
mod destroy;
mod export;
pub(crate) mod kubeconfig;
mod merge;
mod pause;
mod plan;
mod retry;
mod show;
mod sleep;
mod wait;

use clap::Subcommand;

use super::{connection::Access, failure::Failure};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List clusters
    #[command(visible_alias = "ls")]
    List(show::List),
    /// Show one cluster
    Get(show::Get),
    /// Make a cluster, from flags or from a file
    Create(Box<create::Create>),
    /// Change how many workers a cluster has
    Scale(change::Scale),
    /// Move a cluster to another Kubernetes release
    Upgrade(change::Upgrade),
    /// Let a cluster sleep: no workers, no control plane, all data kept
    Hibernate(sleep::Sleeper),
    /// Wake a cluster that sleeps
    Wake(sleep::Sleeper),
    /// Stop all changes of a cluster, an upgrade that is under way included; what runs goes on
    Pause(pause::Pauser),
    /// Go on with the changes of a cluster that is paused
    Resume(pause::Pauser),
    /// Show what a new cluster or a change would do, without doing it
    Plan(plan::Plan),
    /// Try a cluster again that failed
    Retry(retry::Retry),
    /// Write the administrator's kubeconfig of a cluster
    Kubeconfig(kubeconfig::Kubeconfig),
    /// Write the addons of a cluster down as files for Flux
    Export(export::Export),
    /// Remove a cluster and everything in it
    Destroy(destroy::Destroy),
}

pub(crate) async fn run(command: Command, access: &Access) -> Result<(), Failure> {
    match command {
        Command::List(args) => show::list(&args, access).await,
        Command::Get(args) => show::get(&args, access).await,
        Command::Create(args) => create::run(&args, access).await,
        Command::Scale(args) => Box::pin(change::scale(&args, access)).await,
        Command::Upgrade(args) => Box::pin(change::upgrade(&args, access)).await,
        Command::Hibernate(args) => sleep::hibernate(&args, access).await,
        Command::Wake(args) => sleep::wake(&args, access).await,
        Command::Pause(args) => pause::pause(&args, access).await,
        Command::Resume(args) => pause::resume(&args, access).await,
        Command::Plan(args) => Box::pin(plan::run(&args, access)).await,
        Command::Retry(args) => retry::run(&args, access).await,
        Command::Kubeconfig(args) => kubeconfig::run(&args, access).await,
        Command::Export(args) => export::run(&args, access).await,
        Command::Destroy(args) => destroy::run(&args, access).await,
    }
}
