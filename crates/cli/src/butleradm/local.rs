//! The commands about the platform of this machine.

use std::{
    io::{Write as _, stdout},
    process::ExitCode,
};

use butler_local::{
    Controllers, Error, Platform,
    agent::AGENT,
    settings::{Paths, Settings},
};
use butler_runtime::{
    logging::{self, Format},
    shutdown,
};
use butler_toolchain::{Toolchain, progress};
use ipnet::Ipv4Net;

use super::Failure;

type Result<T = ExitCode> = std::result::Result<T, Failure>;

/// Settings of a new platform.
#[derive(clap::Args)]
pub(crate) struct Up {
    /// Addresses of machines and load balancers
    #[arg(long, default_value = "10.40.0.0/24")]
    range: Ipv4Net,
    /// Addresses of the management cluster's pods
    #[arg(long, default_value = "10.42.0.0/16")]
    pods: Ipv4Net,
    /// Addresses of the management cluster's Services
    #[arg(long, default_value = "10.96.0.0/16")]
    services: Ipv4Net,
    /// Where Butler's own controllers run: on the host they are quick to replace, for whoever works on them
    #[arg(long, default_value = "pods")]
    controllers: Place,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Place {
    Pods,
    #[value(alias = "processes")]
    Process,
}

impl From<Place> for Controllers {
    fn from(place: Place) -> Self {
        match place {
            Place::Pods => Self::Pods,
            Place::Process => Self::Processes,
        }
    }
}

/// Which log.
#[derive(clap::Args)]
pub(crate) struct Logs {
    /// agent, registry, resolver, containerd, kubelet, console, butler-controller or steward
    #[arg(default_value = AGENT)]
    part: String,
}

fn place() -> Result<(Paths, Toolchain)> {
    let toolchain = Toolchain::locate().map_err(Error::on("find the cache folder"))?;
    let cache = toolchain.folder();
    let paths = Paths::new(cache.parent().unwrap_or(cache));
    Ok((paths, toolchain))
}

/// The platform that is there, whatever it was made with.
pub(crate) fn existing() -> Result<Platform> {
    let (paths, toolchain) = place()?;
    let settings = match paths
        .load()
        .map_err(Error::on("read the platform's settings"))?
    {
        Some(settings) => settings,
        None => defaults(&toolchain)?,
    };
    Ok(Platform::new(paths, settings, toolchain)?)
}

fn defaults(toolchain: &Toolchain) -> Result<Settings> {
    let net =
        |text: &str| -> Result<Ipv4Net> { Ok(text.parse().map_err(Error::on("read a range"))?) };
    settings(
        toolchain,
        net("10.40.0.0/24")?,
        net("10.42.0.0/16")?,
        net("10.96.0.0/16")?,
    )
}

fn settings(
    toolchain: &Toolchain,
    range: Ipv4Net,
    pods: Ipv4Net,
    services: Ipv4Net,
) -> Result<Settings> {
    let layout = range.try_into().map_err(Error::on("use the range"))?;
    // The first that is pinned is the one taken when no version is asked for.
    let known = toolchain.status();
    let kubelet = known.iter().find(|it| it.name == "kubelet");
    let kubernetes = kubelet.map(|it| it.version.to_string()).unwrap_or_default();
    Ok(Settings {
        layout,
        pods,
        services,
        kubernetes,
    })
}

pub(crate) async fn up(args: &Up) -> Result {
    let (paths, toolchain) = place()?;
    let settings = settings(&toolchain, args.range, args.pods, args.services)?;
    let platform = Platform::new(paths, settings, toolchain)?;
    let controllers = args.controllers.into();
    platform.up(controllers, &*progress::for_stderr()).await?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn status() -> Result {
    let status = existing()?.status().await?;
    print(&format!("{status}\n"));
    Ok(if status.is_well() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whoever has read enough may hang up.
fn print(text: &str) {
    let _ = stdout().write_all(text.as_bytes());
}

pub(crate) async fn down() -> Result {
    existing()?.down().await?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn reset() -> Result {
    existing()?.reset().await?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn logs(args: &Logs) -> Result {
    print(&existing()?.log_of(&args.part)?);
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn agent() -> Result {
    logging::init(Format::Text, "info,kube_client=off,kube_runtime=off");
    let (stop, _signals) = shutdown::on_signal().map_err(Error::on("listen for signals"))?;
    let (paths, toolchain) = place()?;
    let settings = paths
        .load()
        .map_err(Error::on("read the platform's settings"))?;
    let settings = settings.ok_or(Error::Nothing)?;
    butler_local::agent::run(paths, settings, toolchain, stop).await?;
    Ok(ExitCode::SUCCESS)
}
