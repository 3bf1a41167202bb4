//! Programs that run for as long as the agent does.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// Before a program that ended is started again.
const PAUSE: Duration = Duration::from_millis(300);
/// For a program that is asked to end.
const GRACE: Duration = Duration::from_secs(3);

/// One program.
pub(super) struct Service {
    /// For the log.
    pub(super) name: &'static str,
    /// It and its arguments.
    pub(super) command: Vec<OsString>,
    /// As whom it runs: further options of `setpriv`.
    pub(super) identity: &'static [&'static str],
    /// What it finds in its environment.
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// Where what it says is written.
    pub(super) log: PathBuf,
}

/// Runs a program until the agent is stopped: again whenever it ends, and whenever there is another router.
pub(super) async fn keep(
    service: Service,
    mut routers: watch::Receiver<u64>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let ended = run(&service, &mut routers, &stop).await;
        // At first there is no namespace, or it has no address yet.
        tracing::info!(name = service.name, ?ended, "a service ended");
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn run(
    service: &Service,
    routers: &mut watch::Receiver<u64>,
    stop: &CancellationToken,
) -> io::Result<ExitStatus> {
    routers.mark_unchanged();
    let mut child = start(service)?;
    tokio::select! {
        ended = child.wait() => return ended,
        () = another(routers) => {}
        () = stop.cancelled() => {}
    }
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        // One that has ended meanwhile is waited for all the same.
        let _ = kill_process(pid, Signal::TERM);
    }
    if let Ok(ended) = timeout(GRACE, child.wait()).await {
        return ended;
    }
    child.kill().await?;
    child.wait().await
}

/// Ends when there is another router; never after the last one.
async fn another(routers: &mut watch::Receiver<u64>) {
    if routers.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn start(service: &Service) -> io::Result<Child> {
    let Service {
        name: _,
        command,
        identity,
        environment,
        log,
    } = service;
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(*identity)
        .arg("--")
        .args(command)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
}
