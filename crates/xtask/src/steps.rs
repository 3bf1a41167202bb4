//! Steps with a name and a time, so that a long run says where it is.

use std::{process::Command, time::Instant};

use anyhow::{Context, Result, ensure};

use crate::workspace::root;

/// Runs one step and prints how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("==> {name}");
    let started = Instant::now();
    let result = work().with_context(|| format!("step failed: {name}"))?;
    println!("    {name}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(result)
}

/// Runs cargo in the workspace, its output going where ours goes.
pub(crate) fn cargo(args: &[&str], environment: &[(&str, &std::ffi::OsStr)]) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("could not run cargo {}", args.join(" ")))?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}
