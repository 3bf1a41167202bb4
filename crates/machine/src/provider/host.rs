//! Where machines run, as far as the controllers have to know it.

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::Trouble;
use crate::{
    bootstrap::Plan,
    runtime::{MachineId, MachineSpec, Observed},
};

/// Runs machines. Everything may be asked again after a crash, and does the same then.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Starts a machine, unless it runs. The plan is for its first start.
    async fn start(&self, spec: MachineSpec, plan: Plan) -> Result<(), Trouble>;

    /// What is there of a machine. From then on, changes of it are told.
    async fn observe(&self, id: &MachineId) -> Result<Observed, Trouble>;

    /// Ends a machine and removes everything of it.
    async fn remove(&self, id: &MachineId) -> Result<(), Trouble>;

    /// Machines about which something may have changed.
    fn changes(&self) -> BoxStream<'static, MachineId>;
}
