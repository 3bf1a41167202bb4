//! `butler controller`.

use anyhow::Result;
use butler_controller::Surroundings;

use crate::process::{self, Lease};

/// Runs until the process is asked to end.
pub(crate) async fn run(args: process::Args) -> Result<()> {
    let lease = Lease {
        namespace: butler_api::names::SYSTEM_NAMESPACE,
        name: butler_controller::LEASE,
    };
    process::run(
        args,
        lease,
        |around| {
            let process::Surroundings {
                clock,
                metrics,
                readiness,
                ..
            } = around.clone();
            Surroundings::new(clock, metrics, readiness)
        },
        |around, prepared| butler_controller::run(around.client, prepared, around.shutdown),
    )
    .await
}
