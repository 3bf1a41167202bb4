//! `butlerctl`: for people who use clusters.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    butler_cli::butlerctl::run().await
}
