//! Steps with a name and a time, so that a long run says where it is.

use std::{ffi::OsStr, fs, os::unix::fs::MetadataExt, process::Command, time::Instant};

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
pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    finish(Command::new(env!("CARGO")).args(args), args, &[])
}

/// Runs the tests. Pods are namespaces of the kernel, which takes root, or being root in a user namespace.
pub(crate) fn cargo_test(args: &[&str], environment: &[(&str, &OsStr)]) -> Result<()> {
    let mut command = if is_root() {
        Command::new(env!("CARGO"))
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", env!("CARGO")]);
        command
    };
    finish(command.args(args), args, environment)
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

fn finish(command: &mut Command, args: &[&str], environment: &[(&str, &OsStr)]) -> Result<()> {
    let status = command
        .envs(environment.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("could not run cargo {}", args.join(" ")))?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}
