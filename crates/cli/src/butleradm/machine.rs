//! `butleradm machine`: break machines of tenants on purpose, to see what happens then.

use std::process::ExitCode;

use butler_local::Error;
use butler_machine::runtime::{MachineId, Machines};
use clap::ValueEnum;

use super::{Failure, local};

/// What to do to which machine.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// The machine: name of its Node, `namespace/name` of its `LocalMachine`, or its UID
    name: String,
}

/// What can be done to a machine.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Let every process of it stand still
    Pause,
    /// End it as a power cut would; it stays off until it is resumed
    Kill,
    /// Cut it off from everything but itself
    Partition,
    /// Take back what was done to it
    Resume,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let machines = local::existing()?.machines()?;
    let id = find(&machines, &args.name)?;
    let done = match args.action {
        Action::Pause => machines.pause(&id),
        Action::Kill => machines.kill(&id),
        Action::Partition => machines.partition(&id),
        Action::Resume => machines.resume(&id),
    };
    done.map_err(|error| Failure::new(&error, 1))?;
    Ok(ExitCode::SUCCESS)
}

fn find(machines: &Machines, name: &str) -> Result<MachineId, Failure> {
    let found = machines
        .called(name)
        .map_err(Error::on("look for machines"))?;
    let failure = |text: String| Failure { text, code: 2 };
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(failure(format!(
            "no machine is called {name:?}; `kubectl get localmachines -A` shows all"
        ))),
        [..] => Err(failure(format!(
            "{} machines are called {name:?}: name one as namespace/name",
            found.len()
        ))),
    }
}
