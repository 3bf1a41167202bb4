//! The two services on the router: the registry, and a resolver that knows no names.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use butler_fabric::{Fabric, Space};
use butler_runtime::task::{self, Task};
use butler_toolchain::Toolchain;
use tokio::{process::Command, time::sleep};

use crate::settings::{Paths, REGISTRY_PORT, Settings, write};

/// Before a service that ended is started again.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs both until the tasks are dropped.
pub(super) fn start(
    paths: &Paths,
    settings: &Settings,
    toolchain: &Toolchain,
) -> io::Result<Vec<Task>> {
    let find = |name: &str| toolchain.binary(name, None).map_err(io::Error::other);
    let registry = paths.state.join("registry.yaml");
    write(
        &registry,
        &registry_config(settings, &paths.cache.join("registry")),
    )?;
    let names = paths.state.join("Corefile");
    write(&names, &resolver_config(settings))?;
    let router = Fabric::new(paths.network()).file(&Space::Router);
    let service = |name: &'static str, program: PathBuf, arguments: Vec<PathBuf>| {
        let log = paths.log(name);
        task::spawn(name, keep(name, router.clone(), program, arguments, log))
    };
    Ok(vec![
        service(
            "registry",
            find("registry")?,
            vec!["serve".into(), registry],
        ),
        service("resolver", find("coredns")?, vec!["-conf".into(), names]),
    ])
}

/// Runs a program in the router's namespace, again whenever it ends.
async fn keep(
    name: &'static str,
    router: PathBuf,
    program: PathBuf,
    arguments: Vec<PathBuf>,
    log: PathBuf,
) {
    loop {
        let ended = run(&router, &program, &arguments, &log).await;
        // At first there is no namespace, or it has no address yet.
        tracing::info!(name, ?ended, "a service ended and is started again");
        sleep(PAUSE).await;
    }
}

async fn run(
    router: &Path,
    program: &Path,
    arguments: &[PathBuf],
    log: &Path,
) -> io::Result<std::process::ExitStatus> {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)?;
    let mut net = std::ffi::OsString::from("--net=");
    net.push(router);
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "nsenter"])
        .arg(net)
        .arg(program)
        .args(arguments)
        .env("OTEL_TRACES_EXPORTER", "none")
        // Far above what either needs at rest: the registry gives back what it took to be filled.
        .env("GOMEMLIMIT", "128MiB")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?;
    child.wait().await
}

fn registry_config(settings: &Settings, storage: &Path) -> String {
    let config = serde_json::json!({
        "version": 0.1,
        "log": { "level": "warn", "accesslog": { "disabled": true } },
        "storage": {
            "filesystem": { "rootdirectory": storage },
            "delete": { "enabled": true },
        },
        "http": { "addr": format!("{}:{REGISTRY_PORT}", settings.layout.services()) },
    });
    config.to_string()
}

/// Nobody is outside: whoever asks is told at once that there is no such name, instead of waiting.
fn resolver_config(settings: &Settings) -> String {
    let address = settings.layout.services();
    format!(".:53 {{\n  bind {address}\n  template ANY ANY {{\n    rcode NXDOMAIN\n  }}\n}}\n")
}
