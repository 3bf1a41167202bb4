//! The process that keeps a platform going: its network, its registry, its names and its load balancers.
//!
//! It holds nothing that cannot be read again, so it can be killed and started at any time: machines live on meanwhile.

pub mod addresses;
mod book;
mod claims;
mod cluster;
mod controllers;
mod follow;
pub mod health;
mod machines;
mod services;
mod supervise;
mod tenants;
pub mod world;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use butler_fabric::{Fabric, Keeper};
use butler_runtime::task;
use butler_toolchain::Toolchain;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cgroup,
    error::Error,
    settings::{Paths, Settings},
    wait::until,
};

pub use book::{Attached, Book, BookError};

/// The agent's cgroup, and its log.
pub const AGENT: &str = "agent";
/// It ends its registry and its listeners first.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs until it is stopped. One at a time: a second one says so and ends.
pub async fn run(
    paths: Paths,
    settings: Settings,
    toolchain: Toolchain,
    stop: CancellationToken,
) -> Result<(), Error> {
    let _lock = lock(&paths)?;
    let fabric = Fabric::new(paths.network());
    let ledger = book::read(&paths).map_err(Error::on("read the book of clusters"))?;
    let seen = cluster::Seen::load(&paths);
    // As it was: whoever starts again cuts nobody off.
    let (sender, records) = watch::channel(seen.records(&settings, &ledger, &[]));
    let keeper = Keeper::new(fabric.clone(), records);
    let mut applied = keeper.applied();
    let book = Book::new(&paths, &settings, ledger, fabric, keeper.applied());
    let routers = keeper.routers();
    let keeper = task::spawn("fabric", keeper.run(stop.clone()));
    let mut services = services::all(&paths, &settings, &toolchain)
        .map_err(Error::on("prepare the registry and the resolver"))?;
    services.extend(controllers::services(&paths, &settings));
    let services: Vec<_> = services
        .into_iter()
        .map(|it| {
            let name = it.name;
            task::spawn(name, supervise::keep(it, routers.clone(), stop.clone()))
        })
        .collect();
    let looking_after = {
        let (paths, settings) = (paths.clone(), settings.clone());
        machines::run(paths, settings, toolchain, book.clone(), stop.clone())
    };
    let work = task::spawn("clusters and machines", async move {
        // Nobody may ask for an address of the network before it is there.
        if applied.wait_for(Option::is_some).await.is_ok() {
            let following = cluster::follow(paths, settings, book, seen, sender);
            tokio::join!(following, looking_after);
        }
    });
    stop.cancelled().await;
    drop(work);
    for service in services {
        service.join().await;
    }
    keeper.join().await;
    Ok(())
}

fn lock_path(paths: &Paths) -> std::path::PathBuf {
    paths.run.join("agent.lock")
}

/// Held for as long as the agent lives; its content is the agent's process.
fn lock(paths: &Paths) -> Result<File, Error> {
    let path = lock_path(paths);
    let open = || {
        fs::create_dir_all(&paths.run)?;
        OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&path)
    };
    let mut file = open().map_err(Error::on(format!("open {}", path.display())))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Busy),
        Err(TryLockError::Error(source)) => {
            return Err(Error::on(format!("lock {}", path.display()))(source));
        }
    }
    let note = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{}", std::process::id())
    };
    note(&mut file).map_err(Error::on(format!("write {}", path.display())))?;
    Ok(file)
}

/// The agent's process, if one runs.
pub fn process(paths: &Paths) -> Option<u32> {
    let mut file = OpenOptions::new().read(true).open(lock_path(paths)).ok()?;
    if file.try_lock_shared().is_ok() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Starts an agent of this program unless one runs.
pub fn start(paths: &Paths, program: &Path) -> io::Result<()> {
    if process(paths).is_some() {
        return Ok(());
    }
    // What a killed one left behind.
    cgroup::end(Some(AGENT))?;
    let log = paths.log(AGENT);
    fs::create_dir_all(log.parent().unwrap_or(&log))?;
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut child = Command::new("setsid")
        .args(["sh", "-c", "read -r _ && exec \"$@\"", "butler-agent"])
        .arg(program)
        .arg(AGENT)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    cgroup::enter(AGENT, child.id())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"\n")?;
    }
    Ok(())
}

/// Ends the agent and everything it started.
pub async fn end(paths: &Paths) -> Result<(), Error> {
    if let Some(pid) = process(paths).and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, Signal::TERM);
        let gone = until("the agent to end", PATIENCE, async || {
            process(paths).map_or(Ok(()), |pid| Err(format!("process {pid} is there")))
        });
        // Whoever does not end when asked is ended below.
        let _ = gone.await;
    }
    cgroup::end(Some(AGENT)).map_err(Error::on("end the agent"))?;
    let _ = fs::remove_file(lock_path(paths));
    Ok(())
}
