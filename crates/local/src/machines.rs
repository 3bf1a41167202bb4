//! The machines of tenants on this host, for whoever starts, breaks, counts or ends them.

use butler_machine::runtime::{self, Machines, Supervisor};

use crate::{error::Error, platform::Platform, settings::Paths};

/// The word with which this program becomes the launcher or the first process of a machine.
pub const WORD: &str = "machine-process";
/// Where packages put network plugins.
pub(crate) const PLUGINS: &str = "/usr/lib/cni";

/// All of them. Each has the platform's program as its first process.
pub fn machines(paths: &Paths) -> Result<Machines, runtime::Error> {
    let supervisor = Supervisor {
        program: paths.program(),
        arguments: vec![WORD.to_owned()],
    };
    Machines::new(paths.workers(), supervisor)
}

impl Platform {
    /// The machines of tenants.
    pub fn machines(&self) -> Result<Machines, Error> {
        machines(&self.paths).map_err(Error::on("look at machines"))
    }

    /// Ends those of tenants; their disks stay.
    pub(crate) fn end_workers(&self) -> Result<usize, Error> {
        let machines = self.machines()?;
        let all = machines.list().map_err(Error::on("list machines"))?;
        for id in &all {
            let what = format!("end machine {id}");
            machines.stop(id).map_err(Error::on(what))?;
        }
        Ok(all.len())
    }
}
