//! `cargo xtask e2e`: the whole platform on this machine, from nothing to nothing.

use std::path::Path;

use anyhow::Result;

use crate::steps::{cargo, is_root};

/// Runs it where it can be run, and says why not elsewhere.
pub(crate) fn run() -> Result<()> {
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
    cargo(&[
        "test",
        "--quiet",
        "-p",
        "butler-cli",
        "--test",
        "platform",
        "--",
        "--ignored",
        "--nocapture",
        // Each takes the whole machine.
        "--test-threads=1",
    ])
}
