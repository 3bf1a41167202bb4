//! `butler steward`.

use std::sync::Arc;

use anyhow::Result;
use butler_steward::{Reach, Settings, Surroundings};

use crate::process::{self, Lease};

/// Settings of Steward.
#[derive(clap::Args)]
// Groups are named after their types, and the ones below are called so too.
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    process: process::Args,
    /// Store of control planes that name none
    #[arg(long, env = "STEWARD_DATASTORE", default_value = "default")]
    datastore: String,
    /// DNS domain of the cluster that control planes run in
    #[arg(long, env = "STEWARD_CLUSTER_DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
    /// Reach tenants by their endpoints instead of their Services: for running outside the cluster
    #[arg(long)]
    outside: bool,
}

/// Runs until the process is asked to end.
pub(crate) async fn run(args: Args) -> Result<()> {
    let settings = Settings {
        default_store: args.datastore,
        management_domain: args.cluster_domain,
        reach: if args.outside {
            Reach::Endpoint
        } else {
            Reach::Service
        },
    };
    let lease = Lease {
        namespace: butler_steward::rbac::NAMESPACE,
        name: butler_steward::LEASE,
    };
    process::run(
        args.process,
        lease,
        |around| {
            Surroundings::new(
                Arc::clone(&around.clock),
                &around.metrics,
                around.readiness.clone(),
                settings,
            )
        },
        |around, prepared| butler_steward::run(around.client, prepared, around.shutdown),
    )
    .await
}
