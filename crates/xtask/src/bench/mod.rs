//! `cargo xtask bench`: figures against their goals, in one table. Nothing here fails a test run.

pub(crate) mod addons;
mod crowd;
mod foundation;
mod ipam;
mod local;
mod process;
mod steward;
mod tenants;
mod waiting;

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::{ValueEnum, builder::PossibleValue};
use steward::Part;

use crate::{steps::cargo, workspace::root};

/// What can be measured.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Subject {
    /// A thousand releases over a hundred tenants: time, memory, idle cost, drift
    Addons,
    /// Set-up of the tests, idle controllers, size of the definitions
    Foundation,
    /// Addresses: the allocator alone, beside its model, and through a real API server
    Ipam,
    /// The platform on one machine: up, down, a machine that joins, memory; takes the whole machine and root
    Local,
    /// Hosted control planes: a crowd of them, and some that serve
    Steward,
    /// A thousand hosted control planes: time, memory, idle cost, restart
    StewardCrowd,
    /// Hosted control planes that serve: start, upgrade, memory
    StewardServing,
    /// Ten thousand tenant clusters: time, memory, idle cost, restart
    Tenants,
}

/// One figure.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    /// The most that is acceptable.
    pub(crate) goal: f64,
    pub(crate) unit: &'static str,
}

fn figure(name: &'static str, value: f64, goal: f64, unit: &'static str) -> Figure {
    Figure {
        name,
        value,
        goal,
        unit,
    }
}

/// Measures with what users run: what this process does is part of the figures too. All programs are built at once,
/// because each selection of them would build the large libraries again.
fn optimised(subject: Subject, quiet: u64) -> Result<()> {
    println!("building optimised programs");
    let programs = ["-p", "butler", "-p", "butler-cli", "-p", "xtask"];
    cargo(&[&["build", "--release", "--quiet"], &programs[..]].concat())?;
    let name = subject.to_possible_value();
    let name = name.as_ref().map_or("", PossibleValue::get_name);
    let status = Command::new(root().join("target/release/xtask"))
        .args(["bench", name, "--quiet-seconds", &quiet.to_string()])
        .status()
        .context("could not start the benchmark")?;
    ensure!(status.success(), "the benchmark {name} ended with {status}");
    Ok(())
}

/// Measures, prints, and fails if a goal is missed.
pub(crate) fn run(subject: Subject, quiet: u64) -> Result<()> {
    if cfg!(debug_assertions) {
        return optimised(subject, quiet);
    }
    let quiet = Duration::from_secs(quiet);
    let figures = match subject {
        Subject::Addons => addons::measure(quiet)?,
        Subject::Foundation => foundation::measure()?,
        Subject::Ipam => ipam::measure()?,
        Subject::Local => local::measure()?,
        Subject::Steward => steward::measure(&[Part::Serving, Part::Crowd(quiet)])?,
        Subject::StewardCrowd => steward::measure(&[Part::Crowd(quiet)])?,
        Subject::StewardServing => steward::measure(&[Part::Serving])?,
        Subject::Tenants => tenants::measure(quiet)?,
    };
    println!("\n{:<46} {:>10} {:>10}  unit", "figure", "measured", "goal");
    for Figure {
        name,
        value,
        goal,
        unit,
    } in &figures
    {
        let verdict = if value <= goal { "" } else { "  MISSED" };
        println!("{name:<46} {value:>10.2} {goal:>10.2}  {unit}{verdict}");
    }
    if matches!(subject, Subject::Steward | Subject::StewardCrowd) {
        println!("\n{}", steward::PEERS);
    }
    let missed = figures
        .iter()
        .filter(|figure| figure.value > figure.goal)
        .count();
    if missed > 0 {
        bail!("{missed} goals missed");
    }
    Ok(())
}
