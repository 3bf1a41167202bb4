//! `cargo xtask test`: every check, quick ones first, then all tests on one API server, then a whole platform.

use std::{env, ffi::OsStr, thread};

use anyhow::{Context, Result};
use butler_testkit::{Options, SHARED_SERVER, Server};

use crate::{
    deny, e2e, generate, layers,
    steps::{cargo, cargo_test, step},
};

/// How many tests run at once, as the test harness reads it.
const THREADS: &str = "RUST_TEST_THREADS";

pub(crate) fn run() -> Result<()> {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("generated files", || generate::run(true))?;
    step("layers", layers::check)?;
    step("licences and bans", deny::check)?;
    step("lints", || {
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ])
    })?;
    step("build tests", || {
        cargo(&["test", "--workspace", "--no-run", "--quiet"])
    })?;
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    let server = step("API server", || {
        runtime
            .block_on(Server::start(Options::default()))
            .context("could not start an API server")
    })?;
    let threads = threads()?;
    let environment = [
        (SHARED_SERVER, server.folder().as_os_str()),
        (THREADS, OsStr::new(&threads)),
    ];
    step("tests", || {
        cargo_test(&["test", "--workspace", "--no-fail-fast"], &environment)
    })?;
    drop(server);
    step("a whole platform", e2e::platform)
}

/// Most tests wait for real components most of the time, so there is one more than cores, unless somebody says otherwise.
fn threads() -> Result<String> {
    if let Ok(said) = env::var(THREADS) {
        return Ok(said);
    }
    let cores = thread::available_parallelism().context("could not count the cores")?;
    Ok((cores.get() + 1).to_string())
}
