//! Running a controller once for every write it makes and every way in which that write can go wrong, and comparing
//! where it ends up with where it ends up undisturbed.

mod point;
mod run;
mod state;

use std::{fmt, time::Duration};

use futures::{StreamExt as _, stream};
use kube::Client;
use serde_json::Value;

use crate::{
    Namespace, Server,
    faults::{Fault, Refusal, Sent},
};

/// What a controller is tested with: how to begin, how to run it, what happens meanwhile, and when it is done.
///
/// Every run has a [`World`] of its own. Objects must be in its namespace or carry its name in theirs, and the
/// controller must keep to them.
#[allow(
    async_fn_in_trait,
    reason = "all runs of a test are polled by that test"
)]
pub trait Scenario {
    /// Makes what is there before the controller starts.
    async fn set_up(&self, world: &World);

    /// Runs the controller with a client of the admin; it is dropped when the run is over or the controller crashes,
    /// and called again with a new client after a crash.
    async fn controller(&self, client: Client, world: &World);

    /// What the user does while the controller runs.
    async fn user(&self, world: &World) {
        let _ = world;
    }

    /// Whether the controller is done, and if not, what is missing. Asked whenever no write was seen for [`quiet`].
    ///
    /// [`quiet`]: Self::quiet
    async fn settled(&self, world: &World) -> Result<(), String>;

    /// `apiVersion` and `kind` of everything that makes up the end state.
    fn kinds(&self) -> Vec<(&'static str, &'static str)>;

    /// Takes out of an object of the end state what differs between equal runs, such as keys or hashes. Names,
    /// identities, versions and times are taken out already.
    fn simplify(&self, object: &mut Value) {
        let _ = object;
    }

    /// Makes names equal that are made from identities, in the end state and in the paths of requests.
    fn alike(&self) -> fn(&str) -> String {
        str::to_owned
    }

    /// Which requests are write points: all writes but those that depend on time, which are leases and events.
    fn write_points(&self) -> fn(&Sent) -> bool {
        |sent| sent.is_write() && !sent.is_about("leases") && !sent.is_about("events")
    }

    /// What goes wrong at every write point.
    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::Refuse(Refusal::Conflict),
            Fault::LoseAnswer,
            Fault::Duplicate,
            Fault::Stale(self.quiet() / 2),
        ]
    }

    /// How long no write means that the controller may be done.
    fn quiet(&self) -> Duration {
        Duration::from_millis(400)
    }

    /// How long one run may take to settle.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// How many runs go on at once.
    fn parallel(&self) -> usize {
        8
    }
}

/// Where one run takes place.
pub struct World {
    namespace: Namespace,
    alike: fn(&str) -> String,
}

impl World {
    /// The namespace of this run.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The server.
    pub fn server(&self) -> &Server {
        self.namespace.server()
    }

    /// What is its own in texts.
    fn likeness(&self) -> Likeness {
        Likeness {
            world: self.namespace.name().to_owned(),
            alike: self.alike,
        }
    }

    /// A name for an object outside the namespace, unlike that of any other run.
    pub fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.namespace.name())
    }
}

/// How texts of one world become those of every world.
#[derive(Clone, Debug)]
struct Likeness {
    world: String,
    alike: fn(&str) -> String,
}

impl Likeness {
    fn generic(&self, text: &str) -> String {
        (self.alike)(&text.replace(&self.world, "world"))
    }
}

/// What [`at_every_write`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Write points of the undisturbed run.
    pub writes: usize,
    /// Disturbed runs.
    pub runs: usize,
    /// Disturbed runs that never came to their write point, because an earlier write could be left out.
    pub not_reached: usize,
}

/// Why a scenario failed.
#[derive(Debug)]
pub struct Failures(Vec<Failure>);

#[derive(Debug)]
struct Failure {
    /// Which run.
    run: String,
    /// What was wrong with it, one line each.
    lines: Vec<String>,
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs did not end like the undisturbed one:",
            self.0.len()
        )?;
        for Failure { run, lines } in &self.0 {
            writeln!(f, "- {run}")?;
            lines
                .iter()
                .try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

impl std::error::Error for Failures {}

/// Runs a scenario undisturbed, and then once for every write point and every fault; every run must end the same.
///
/// # Panics
/// When one does not; the message has all of them.
pub async fn at_every_write(server: &Server, scenario: &impl Scenario) -> Summary {
    let result = try_at_every_write(server, scenario).await;
    result.unwrap_or_else(|failures| panic!("{failures}"))
}

/// Like [`at_every_write`], for controllers that are expected to fail.
pub async fn try_at_every_write(
    server: &Server,
    scenario: &impl Scenario,
) -> Result<Summary, Failures> {
    let only = |run: &str, reason: String| {
        Failures(vec![Failure {
            run: run.to_owned(),
            lines: vec![reason],
        }])
    };
    let bench = run::Bench::new(server, scenario)
        .await
        .map_err(|error| only("set-up", error))?;
    let undisturbed = Box::pin(bench.undisturbed()).await;
    let (expected, write_points) =
        undisturbed.map_err(|error| only("the undisturbed run", error))?;

    let mut points = vec![None];
    for point in &write_points {
        points.extend(
            scenario
                .faults()
                .into_iter()
                .map(|fault| Some((point, fault))),
        );
    }
    let (writes, runs) = (write_points.len(), points.len() - 1);
    let outcomes: Vec<_> = stream::iter(points)
        .map(|point| Box::pin(bench.disturbed(point, &expected)))
        .buffered(scenario.parallel())
        .collect()
        .await;
    let not_reached = outcomes.iter().filter(|outcome| !outcome.reached).count();
    let failures: Vec<_> = outcomes
        .into_iter()
        .filter(|outcome| !outcome.lines.is_empty())
        .map(|outcome| Failure {
            run: outcome.run,
            lines: outcome.lines,
        })
        .collect();
    if failures.is_empty() {
        Ok(Summary {
            writes,
            runs,
            not_reached,
        })
    } else {
        Err(Failures(failures))
    }
}
