//! `butleradm mirror`: fill a registry, as a site without Internet does.

use std::{path::PathBuf, process::ExitCode};

use butler_images::{Layout, Reference, Registry, mirror, parse_list};
use butler_toolchain::Toolchain;

use super::Failure;

/// What to send where.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address of the registry, such as `https://registry.example.com/butler`
    #[arg(long)]
    to: String,
    /// File with one image a line; default: all images
    #[arg(long)]
    list: Option<PathBuf>,
    /// Folder with the images; default: those that `butleradm up` made
    #[arg(long)]
    from: Option<PathBuf>,
    /// Certificate authority of the registry, as PEM
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// Name to sign in with; the password is read from `BUTLER_REGISTRY_PASSWORD`
    #[arg(long)]
    username: Option<String>,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| Failure {
            text: format!("could not read {}: {error}", path.display()),
            code: 1,
        })
    };
    let authority = args.ca_file.as_ref().map(read).transpose()?;
    let registry = Registry::new(&args.to, authority.as_deref());
    let mut registry = registry.map_err(|error| Failure::new(&error, 2))?;
    if let Some(name) = args.username {
        let password = std::env::var("BUTLER_REGISTRY_PASSWORD").unwrap_or_default();
        registry = registry.with_login(name, password);
    }
    let list = args.list.as_ref().map(read).transpose()?;
    let list: Option<Vec<Reference>> = match list {
        None => None,
        Some(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Some(parse_list(&text).map_err(|error| Failure::new(&error, 2))?)
        }
    };
    let folder = if let Some(folder) = args.from {
        folder
    } else {
        let toolchain = Toolchain::locate().map_err(|error| Failure::new(&error, 1))?;
        let cache = toolchain.folder();
        cache.parent().unwrap_or(cache).join("images")
    };
    let layout = Layout::new(folder);
    let tell = |it: &butler_images::Sent| {
        let word = if it.sent { "sent" } else { "there" };
        println!("{word:<6} {}", it.name);
    };
    let done = mirror(&layout, list.as_deref(), &registry, tell).await;
    done.map_err(|error| Failure::new(&error, 1))?;
    Ok(ExitCode::SUCCESS)
}
