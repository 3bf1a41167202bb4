//! `cargo xtask e2e`: the real Flux beside an API server, and the whole platform on this machine, from nothing to nothing.

use std::path::Path;

use anyhow::Result;
use butler_testkit::flux;
use butler_toolchain::cli::{Command, GroupChoice, Install};

use crate::steps::{cargo, is_root, step};

/// Runs all of it.
pub(crate) fn run() -> Result<()> {
    step("Flux", gitops)?;
    step("a whole platform", platform)
}

/// Installs what is missing: building Flux takes minutes, so that no other check waits for it.
fn gitops() -> Result<()> {
    let install =
        |group, names| butler_toolchain::cli::run(&Command::Install(Install { group, names }));
    install(GroupChoice::Test, Vec::new())?;
    let flux: Result<Vec<_>, _> = flux::COMPONENTS.iter().map(|name| name.parse()).collect();
    install(GroupChoice::All, flux?)?;
    ignored("gitops", &[])
}

/// Runs the tests of the programs that only run here.
fn ignored(target: &str, more: &[&str]) -> Result<()> {
    let test = ["test", "--quiet", "-p", "butler-cli", "--test", target];
    cargo(&[&test[..], &["--", "--ignored"], more].concat())
}

/// Runs it where it can be run, and says why not elsewhere.
pub(crate) fn platform() -> Result<()> {
    if !is_root() {
        println!("    skipped: a platform needs root");
        return Ok(());
    }
    if Path::new("/var/lib/butler").exists() {
        println!(
            "    skipped: there is a platform on this machine, which `butleradm reset` would remove"
        );
        return Ok(());
    }
    // The program of the pods, beside the one of the platform.
    cargo(&["build", "--quiet", "-p", "butler"])?;
    // Each takes the whole machine.
    ignored("platform", &["--nocapture", "--test-threads=1"])
}
