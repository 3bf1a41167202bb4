//! The pools of a plan: each with its decision, one rollout at a time.

use serde::Serialize;

use super::Draft;
use crate::{
    build::{self, PoolOrder},
    day2::{self, Decision, Doze, Target, Upgrade, next_opening, open_until},
    node,
    object::Object,
    observe::PoolState,
    reason::Reason,
    spec::Pool,
};

/// Machines that are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Roll {
    /// The pool.
    pub pool: String,
    /// How many machines.
    pub nodes: u32,
    /// How many of them were replaced so far.
    pub replaced: u32,
    /// What is different: `version`, `machine` or `bootstrap`.
    pub because: Vec<&'static str>,
    /// Whether it goes back to what was before, because the new machines do not work.
    pub back: bool,
}

/// What machines of a pool would be made from.
struct Made {
    template: Object,
    bootstrap: Object,
    target: Target,
}

pub(super) fn plan(draft: &mut Draft<'_>, doze: Doze, upgrade: &Upgrade) {
    let mut busy = first_rolling(draft);
    for pool in &draft.spec.pools {
        let state = draft.observed.pools.get(&pool.name);
        match make(draft, pool, upgrade) {
            Ok(made) => {
                let decision = decide(
                    draft,
                    pool,
                    state,
                    made.target.clone(),
                    upgrade,
                    busy.as_deref(),
                );
                if matches!(decision, Decision::Roll { .. } | Decision::TakeBack { .. }) {
                    busy = Some(pool.name.clone());
                }
                order(draft, pool, state, Some(made), &decision, doze, upgrade);
            }
            Err(wait) => {
                draft.is_partial = true;
                draft.wait(Reason::Waiting, wait);
                // The pool that stands goes on; only what it should become cannot be said yet.
                if let Some(state) = state {
                    let stay = Decision::Stay(state.target.clone());
                    order(draft, pool, Some(state), None, &stay, doze, upgrade);
                }
            }
        }
    }
}

/// A pool whose machines are being replaced.
fn first_rolling(draft: &Draft<'_>) -> Option<String> {
    let pools = draft.observed.pools.iter();
    let mut rolling = pools.filter(|(_, pool)| pool.is_rolling());
    rolling.next().map(|(name, _)| name.clone())
}

/// What machines of a pool should be made from, or what that waits for.
fn make(draft: &Draft<'_>, pool: &Pool, upgrade: &Upgrade) -> Result<Made, String> {
    let (spec, inputs) = (draft.spec, &draft.observed.inputs);
    let version = upgrade.machines.unwrap_or(upgrade.control_plane);
    let template = spec.infrastructure.template(spec, pool);
    let template = template.map_err(|missing| missing.to_string())?;
    let told = node::tell(
        spec,
        pool,
        version,
        inputs.join.as_ref(),
        inputs.talos.as_ref(),
    );
    let told = told.map_err(|early| format!("pool {}: {early}", pool.name))?;
    let bootstrap = build::bootstrap(spec, pool, told);
    let target = Target {
        version,
        machine_template: template.id().into(),
        bootstrap: bootstrap.id().into(),
    };
    Ok(Made {
        template,
        bootstrap,
        target,
    })
}

fn decide(
    draft: &mut Draft<'_>,
    pool: &Pool,
    state: Option<&PoolState>,
    wanted: Target,
    upgrade: &Upgrade,
    busy: Option<&str>,
) -> Decision {
    let is_empty = state.is_some_and(|state| state.replicas == 0 && state.wanted == 0);
    let held_back = if upgrade.machines.is_none() {
        Some("the control plane comes first".to_owned())
    } else if is_empty {
        None
    } else if let Some(other) = busy.filter(|other| *other != pool.name) {
        Some(format!("pool {other} is replacing its machines"))
    } else if open_until(&draft.spec.windows, draft.now).is_none() {
        let opens = next_opening(&draft.spec.windows, draft.now);
        draft.wake.extend(opens);
        Some(opens.map_or_else(
            || "no maintenance window comes".to_owned(),
            |opens| format!("the maintenance window opens at {opens}"),
        ))
    } else {
        None
    };
    let running = draft.observed.control_plane.as_ref();
    let running = running.and_then(|held| held.running);
    day2::decide_rollout(wanted, state, held_back.as_deref(), running, draft.now)
}

/// Writes down a decision.
fn order(
    draft: &mut Draft<'_>,
    pool: &Pool,
    state: Option<&PoolState>,
    made: Option<Made>,
    decision: &Decision,
    doze: Doze,
    upgrade: &Upgrade,
) {
    // Cluster API makes no machine before the API server serves this version, and is slow to look again.
    if state.is_none() && upgrade.machines.is_none() {
        let wait = format!("pool {} waits for the control plane", pool.name);
        draft.wait(Reason::Waiting, wait);
        draft.is_partial = true;
        return;
    }
    let target = decision.target();
    for held in [
        Some(target),
        decision.came_from(),
        state.map(|state| &state.target),
    ] {
        let names = held.map(|held| [held.machine_template.clone(), held.bootstrap.clone()]);
        draft.keep.extend(names.into_iter().flatten());
    }
    if let Some(made) = made.filter(|made| made.target == *target) {
        draft.objects.push(made.template);
        draft.objects.push(made.bootstrap);
    }
    note(draft, pool, state, decision);
    let asleep = match doze {
        Doze::Awake => false,
        // Workers come last: the control plane has to serve again first.
        Doze::Waking | Doze::FallingAsleep | Doze::Asleep => true,
    };
    let spec = draft.spec;
    let deployment = build::machine_deployment(
        spec,
        pool,
        &PoolOrder {
            target,
            came_from: decision.came_from(),
            began: match decision {
                Decision::Roll { .. } => Some(draft.now),
                Decision::Rolling { .. } => state.and_then(|state| state.began),
                Decision::Make(_)
                | Decision::Stay(_)
                | Decision::Hold { .. }
                | Decision::TakeBack { .. }
                | Decision::Failed { .. }
                | Decision::Stuck { .. } => None,
            },
            failed: decision.failed(),
            asleep,
        },
    );
    draft.objects.push(deployment);
    if pool.repair {
        draft.objects.push(build::machine_health_check(spec, pool));
    }
}

/// What a decision means for people.
fn note(draft: &mut Draft<'_>, pool: &Pool, state: Option<&PoolState>, decision: &Decision) {
    let name = &pool.name;
    let mut roll = |to: &Target, from: Option<&Target>, back: bool| {
        let nodes = state.map_or(
            0,
            |state| {
                if back { state.up_to_date } else { state.wanted }
            },
        );
        // Numbers that speak about an earlier target count nothing of this one. A machine is replaced when it is gone: the
        // one that is to take its place is an additional one until then.
        let is_counted = |state: &&PoolState| state.current && state.target == *to;
        let old = state
            .filter(is_counted)
            .map_or(nodes, PoolState::out_of_date);
        draft.rolls.push(Roll {
            pool: name.clone(),
            nodes,
            replaced: nodes.saturating_sub(old),
            because: from.map_or_else(Vec::new, |from| differences(from, to)),
            back,
        });
    };
    match decision {
        Decision::Make(_) | Decision::Stay(_) => {
            draft.is_settled &= !state.is_some_and(PoolState::is_rolling);
        }
        Decision::Roll { to, from } => {
            let from = state.map_or(from, |state| &state.target);
            roll(to, Some(from), false);
            draft.is_settled = false;
        }
        Decision::Rolling { to, from } => {
            // A new machine is not counted among those that are up to date at once: it replaces nobody.
            if let Some(from) = from {
                roll(to, Some(from), false);
            }
            draft.is_settled = false;
            let deadline = state.and_then(PoolState::last_progress);
            let deadline = deadline.and_then(|at| at.checked_add(day2::ROLLOUT_DEADLINE).ok());
            draft.wake.extend(deadline);
        }
        Decision::Hold { because, .. } => {
            draft.is_settled = false;
            draft.wait(Reason::Waiting, format!("new machines of pool {name} wait: {because}"));
        }
        Decision::TakeBack { to, .. } => {
            roll(to, state.map(|state| &state.target), true);
            draft.is_settled = false;
            draft.wait(Reason::Waiting, format!(
                "new machines of pool {name} did not become ready, so it goes back to {} as before",
                to.version
            ));
        }
        Decision::Failed { at, .. } => draft.wait(Reason::RolloutFailed, format!(
            "the last change of pool {name} was taken back to {} because new machines did not become ready: change the spec to try again",
            at.version
        )),
        Decision::Stuck { because, .. } => {
            draft.is_settled = false;
            draft.wait(Reason::RolloutFailed, format!(
                "new machines of pool {name} do not become ready, and there is no way back: {because}"
            ));
        }
    }
}

/// What is different between two targets.
fn differences(from: &Target, to: &Target) -> Vec<&'static str> {
    let parts = [
        ("version", from.version != to.version),
        ("machine", from.machine_template != to.machine_template),
        ("bootstrap", from.bootstrap != to.bootstrap),
    ];
    parts
        .into_iter()
        .filter_map(|(part, differs)| differs.then_some(part))
        .collect()
}
