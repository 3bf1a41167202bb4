//! stub
use super::super::{connection::Access, failure::Failure};
#[derive(clap::Args)]
pub(crate) struct Plan {}
pub(crate) async fn run(_args: &Plan, _access: &Access) -> Result<(), Failure> { Ok(()) }
