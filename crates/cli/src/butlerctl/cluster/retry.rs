//! `retry`: asks for another try of a cluster that failed.

use butler_api::{butler::tenant_cluster::Phase, names};

use super::{
    super::{
        connection::{Access, within},
        failure::Failure,
        output,
    },
    change::annotation,
};

/// Which cluster is tried again.
#[derive(clap::Args)]
pub(crate) struct Retry {
    /// Name of the cluster
    name: String,
}

pub(crate) async fn run(args: &Retry, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = connection.cluster(&args.name).await?;
    let title = connection.title(&args.name);
    let phase = cluster.status.as_ref().and_then(|status| status.phase);
    if phase != Some(Phase::Failed) {
        let phase = phase.map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"));
        return Err(Failure::refused(format!(
            "{title} is {phase}, and only a cluster that is Failed can be tried again; `butlerctl cluster get` shows what it waits for"
        )));
    }
    let (parameters, change) = annotation(&cluster, names::RETRY);
    let api = connection.clusters();
    let request = api.patch(&args.name, &parameters, &change);
    within(&format!("change {title}"), request).await?;
    output::line(&format!("{title} is tried again"))
}
