//! One run of a scenario.

use std::pin::{Pin, pin};

use kube::{Client, discovery::ApiResource};
use serde_json::Value;
use tokio::time::{Duration, Instant, timeout};

use super::{
    Scenario, World,
    point::{self, WritePoint},
    state::{self, State},
};
use crate::{
    Server,
    faults::{self, Activity, Fault, Handle, Plan},
    server::chain,
};

/// How long a run that has settled elsewhere than expected may still move.
const GRACE: Duration = Duration::from_secs(3);
/// How often a controller may end by itself after a fault before the run is given up.
const RESTARTS: usize = 10;

/// A scenario and what all its runs need.
pub(super) struct Bench<'a, S> {
    server: &'a Server,
    scenario: &'a S,
    client: Client,
    resources: Vec<ApiResource>,
}

/// How a disturbed run ended.
pub(super) struct Outcome {
    /// Which run it was.
    pub(super) run: String,
    /// Whether the fault took place.
    pub(super) reached: bool,
    /// What was wrong; nothing when it ended as expected.
    pub(super) lines: Vec<String>,
}

impl<'a, S: Scenario> Bench<'a, S> {
    pub(super) async fn new(server: &'a Server, scenario: &'a S) -> Result<Self, String> {
        let client = server.client();
        let resources = state::resources(&client, &scenario.kinds()).await;
        let resources = resources.map_err(|error| chain(&error))?;
        Ok(Self {
            server,
            scenario,
            client,
            resources,
        })
    }

    /// The end state without faults, and the write points.
    pub(super) async fn undisturbed(&self) -> Result<(State, Vec<WritePoint>), String> {
        let world = self.world().await;
        let mut course = Course::begin(self, &world, Plan::none());
        let ended = course.follow(async |quiet| quiet.settled().await).await;
        if course.restarts > 0 {
            return Err("the controller ended by itself".to_owned());
        }
        ended?;
        let counts = self.scenario.write_points();
        let log = course.first.log().into_iter().map(|logged| logged.sent);
        let points = point::of(log.filter(counts), &world);
        Ok((self.read(&world).await?, points))
    }

    /// Runs with one fault, or none, and compares.
    pub(super) async fn disturbed(
        &self,
        point: Option<(&WritePoint, Fault)>,
        expected: &State,
    ) -> Outcome {
        let world = self.world().await;
        let plan = point.map_or_else(Plan::none, |(point, fault)| {
            point.plan(&world, self.scenario.write_points(), fault)
        });
        let mut course = Course::begin(self, &world, plan);
        let compared = course
            .follow(async |quiet| quiet.settled_as(expected).await)
            .await;
        let hit = course.first.hit();
        let run = match (point, &hit) {
            (None, _) => "undisturbed for the second time (the scenario itself varies)".to_owned(),
            (Some((point, fault)), Some(_)) => format!("{point}: {fault}"),
            (Some((point, fault)), None) => format!("{point}: {fault}, but it was not reached"),
        };
        let lines = compared.unwrap_or_else(|reason| vec![reason]);
        Outcome {
            run,
            reached: point.is_none() || hit.is_some(),
            lines,
        }
    }

    async fn world(&self) -> World {
        let world = World {
            namespace: self.server.namespace("w").await,
            alike: self.scenario.alike(),
        };
        self.scenario.set_up(&world).await;
        world
    }

    async fn read(&self, world: &World) -> Result<State, String> {
        let simplify = |object: &mut Value| self.scenario.simplify(object);
        let state = state::read(&self.client, &self.resources, &world.likeness(), simplify).await;
        state.map_err(|error| chain(&error))
    }
}

/// The life of one world: a controller that is restarted when it ends, and what happens around it.
struct Course<'a, S> {
    bench: &'a Bench<'a, S>,
    world: &'a World,
    activity: Activity,
    /// The first client's handle: the only one with a plan.
    first: Handle,
    client: Client,
    restarts: usize,
}

impl<'a, S: Scenario> Course<'a, S> {
    fn begin(bench: &'a Bench<'a, S>, world: &'a World, plan: Plan) -> Self {
        let activity = Activity::default();
        let (client, first) =
            faults::reporting(bench.server.client(), plan, Activity::clone(&activity));
        Self {
            bench,
            world,
            activity,
            first,
            client,
            restarts: 0,
        }
    }

    /// Lets the user act and then waits as told, with the controller running all the time.
    async fn follow<T>(
        &mut self,
        wait: impl AsyncFnOnce(Quiet<'_, S>) -> Result<T, String>,
    ) -> Result<T, String> {
        let (bench, world) = (self.bench, self.world);
        let quiet = Quiet {
            bench,
            world,
            activity: self.activity.subscribe(),
            deadline: Instant::now() + bench.scenario.patience(),
        };
        let mut around = pin!(async {
            bench.scenario.user(world).await;
            wait(quiet).await
        });
        let mut controller = self.controller(self.client.clone());
        let mut handle = self.first.clone();
        loop {
            tokio::select! {
                result = &mut around => return result,
                () = handle.crashed() => {}
                () = &mut controller => self.restarts += 1,
            }
            if self.restarts > RESTARTS {
                return Err(format!("the controller ended by itself {RESTARTS} times"));
            }
            // The old controller must be gone before the new one acts.
            drop(controller);
            let activity = Activity::clone(&self.activity);
            let (client, next) = faults::reporting(bench.server.client(), Plan::none(), activity);
            controller = self.controller(client);
            handle = next;
        }
    }

    fn controller(&self, client: Client) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(self.bench.scenario.controller(client, self.world))
    }
}

/// Waits until nothing happens any more.
struct Quiet<'a, S> {
    bench: &'a Bench<'a, S>,
    world: &'a World,
    activity: tokio::sync::watch::Receiver<usize>,
    deadline: Instant,
}

impl<S: Scenario> Quiet<'_, S> {
    /// Waits until the scenario says that it is done.
    async fn settled(mut self) -> Result<(), String> {
        self.wait().await
    }

    /// Waits until it is done and as expected; returns how it differs if it stays different.
    async fn settled_as(mut self, expected: &State) -> Result<Vec<String>, String> {
        let mut give_up = None;
        loop {
            self.wait().await?;
            let found = self.bench.read(self.world).await?;
            let lines = state::differences(expected, &found);
            let give_up = *give_up.get_or_insert_with(|| Instant::now() + GRACE);
            if lines.is_empty() || Instant::now() > give_up {
                return Ok(lines);
            }
        }
    }

    async fn wait(&mut self) -> Result<(), String> {
        let (bench, quiet) = (self.bench, self.bench.scenario.quiet());
        loop {
            let changed = timeout(quiet, self.activity.changed()).await.is_ok();
            let late = Instant::now() > self.deadline;
            if changed && !late {
                continue;
            }
            let missing = match bench.scenario.settled(self.world).await {
                Ok(()) if !changed => return Ok(()),
                Ok(()) => "it never stops writing".to_owned(),
                Err(missing) => missing,
            };
            if late {
                let patience = bench.scenario.patience();
                return Err(format!("did not settle in {patience:?}: {missing}"));
            }
        }
    }
}
