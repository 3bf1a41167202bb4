//! `destroy`: asks, deletes exactly the cluster that was seen, and waits until nothing of it is left.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use butler_api::{butler::TenantCluster, names};
use kube::api::{DeleteParams, Preconditions};

use super::{
    super::{
        connection::{Access, Connection, within_if_any},
        failure::Failure,
        output,
        progress::{self, Limit, Verdict},
    },
    change::annotation,
};

/// Which cluster goes, and how.
#[derive(clap::Args)]
pub(crate) struct Destroy {
    /// Name of the cluster
    name: String,
    /// Do not ask; needed where nobody can be asked
    #[arg(short, long)]
    yes: bool,
    /// Wait for nothing that cannot be reached any more; an event names what is left behind
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    waiting: Waiting,
}

/// Whether and how long its end is waited for.
#[derive(clap::Args)]
struct Waiting {
    /// Wait until it is gone, as happens anyway
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Return as soon as the API server knows
    #[arg(long)]
    no_wait: bool,
    /// How long to wait until it is gone, such as 90s or 15m
    #[arg(long, default_value = "15m", value_name = "TIME")]
    timeout: Limit,
}

pub(crate) async fn run(args: &Destroy, access: &Access) -> Result<(), Failure> {
    let connection = access.connect().await?;
    let cluster = connection.cluster(&args.name).await?;
    let title = connection.title(&args.name);
    if cluster.spec.deletion_protection {
        return Err(Failure::refused(format!(
            "{title} is protected: nothing of it is removed while spec.deletionProtection is true; to lift that: \
             kubectl patch tenantcluster {} -n {} --type merge -p '{{\"spec\":{{\"deletionProtection\":false}}}}'",
            args.name, connection.namespace
        )));
    }
    if cluster.metadata.deletion_timestamp.is_none() {
        confirm(args, &title, &cluster)?;
        let uid = cluster.metadata.uid.clone();
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid,
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api = connection.clusters();
        let what = format!("remove {title}");
        within_if_any(&what, api.delete(&args.name, &parameters)).await?;
    }
    if args.force {
        force(&connection, &args.name, &cluster).await?;
    }
    if args.waiting.no_wait {
        return output::line(&format!("{title} is being removed"));
    }
    let what = format!("see {title} gone");
    let gone = |seen: Option<&TenantCluster>| {
        let same = seen.is_some_and(|seen| seen.metadata.uid == cluster.metadata.uid);
        if same {
            Verdict::Waiting
        } else {
            Verdict::Done
        }
    };
    progress::follow(
        connection.clusters(),
        &args.name,
        &what,
        args.waiting.timeout,
        gone,
    )
    .await?;
    output::line(&format!("{title} is gone"))
}

/// Gives up on what keeps a deletion, of exactly the cluster that was seen. One that is gone already needs no force.
async fn force(connection: &Connection, name: &str, seen: &TenantCluster) -> Result<(), Failure> {
    let (parameters, change) = annotation(seen, names::FORCE_DELETE);
    let api = connection.clusters();
    let what = format!("force the removal of {}", connection.title(name));
    within_if_any(&what, api.patch(name, &parameters, &change)).await?;
    Ok(())
}

/// Asks for the name, which nobody types by accident.
fn confirm(args: &Destroy, title: &str, cluster: &TenantCluster) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "nobody can be asked whether {title} shall go, because standard input is no terminal: say --yes"
        )));
    }
    let workers = cluster
        .status
        .as_ref()
        .and_then(|status| status.worker_nodes_ready);
    eprintln!(
        "{title} ({}, {} workers) and everything in it will be removed, volumes included. This cannot be undone.",
        cluster.spec.kubernetes_version,
        workers.unwrap_or(0)
    );
    eprint!("Type the name of the cluster to go on: ");
    let mut typed = String::new();
    let read = io::stderr()
        .flush()
        .and_then(|()| io::stdin().lock().read_line(&mut typed));
    if read.is_ok() && typed.trim() == args.name {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "that is not its name: {title} stays"
    )))
}
