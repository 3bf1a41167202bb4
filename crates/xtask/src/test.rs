//! `cargo xtask test`: every check, quick ones first, then all tests on one API server, then a whole platform.

use anyhow::{Context, Result};
use butler_testkit::{Options, SHARED_SERVER, Server};

use crate::{
    deny, e2e, generate, layers,
    steps::{cargo, cargo_test, step},
};

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
    let shared = [(SHARED_SERVER, server.folder().as_os_str())];
    step("tests", || {
        cargo_test(&["test", "--workspace", "--no-fail-fast"], &shared)
    })?;
    drop(server);
    step("a whole platform", e2e::platform)
}
