//! Whether the objects of a release do what they are for, by the rules that `kubectl rollout status` and kstatus use.

use serde::Serialize;
use serde_json::Value;

use crate::manifest::ObjectId;

/// How one object is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// As it should be.
    Ready,
    /// On its way; what is missing.
    Progressing(String),
    /// It will not get there by itself; why.
    Failed(String),
    /// It is not there.
    Missing,
}

/// How all objects of a release are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// How many are ready.
    pub ready: usize,
    /// Of how many.
    pub total: usize,
    /// Those that are not, in the order of the manifest.
    pub waiting: Vec<(ObjectId, State)>,
}

impl Health {
    /// Counts.
    pub fn of(states: impl IntoIterator<Item = (ObjectId, State)>) -> Self {
        let mut health = Self::default();
        for (id, state) in states {
            health.total += 1;
            if state == State::Ready {
                health.ready += 1;
            } else {
                health.waiting.push((id, state));
            }
        }
        health
    }

    /// Whether all is well.
    pub fn is_ready(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether something will not get well by itself.
    pub fn has_failed(&self) -> bool {
        let mut states = self.waiting.iter().map(|(_, state)| state);
        states.any(|state| matches!(state, State::Failed(_)))
    }

    /// `3 of 5 ready; Deployment web: 1 of 2 replicas are available`. What failed comes first.
    pub fn summary(&self) -> String {
        let count = format!("{} of {} ready", self.ready, self.total);
        let failed = |(_, state): &&(ObjectId, State)| matches!(state, State::Failed(_));
        let first = self.waiting.iter().find(failed);
        let Some((id, state)) = first.or_else(|| self.waiting.first()) else {
            return count;
        };
        match state {
            State::Progressing(why) | State::Failed(why) => format!("{count}; {id}: {why}"),
            State::Missing => format!("{count}; {id} is missing"),
            State::Ready => count,
        }
    }
}

/// When objects of one kind are as they should be, where the usual rules do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Group of the kind.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// What it must say.
    pub wants: Wants,
}

/// What an object says when all is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Wants {
    /// A condition that is true.
    Condition(String),
    /// A field, such as `status.phase`, with this text.
    Field {
        /// Where it is.
        path: String,
        /// What it holds.
        equals: String,
    },
}

/// How an object is by these rules, or by the usual ones where none of them is for its kind.
pub fn assess_by(rules: &[Rule], object: &Value) -> State {
    let (group, kind) = kind_of(object);
    let mut own = rules
        .iter()
        .filter(|rule| rule.group == group && rule.kind == kind)
        .peekable();
    if own.peek().is_none() || object.pointer("/metadata/deletionTimestamp").is_some() {
        return assess(object);
    }
    if is_stale(object) {
        let told = own.find_map(|rule| match &rule.wants {
            Wants::Condition(type_) => complaint(object, type_),
            Wants::Field { .. } => None,
        });
        return told.unwrap_or_else(not_seen);
    }
    let states = own.map(|rule| match &rule.wants {
        Wants::Condition(type_) => by_condition(object, type_),
        Wants::Field { path, equals } => by_field(object, path, equals),
    });
    let mut troubled = states.filter(|state| *state != State::Ready);
    troubled.next().unwrap_or(State::Ready)
}

fn by_field(object: &Value, path: &str, equals: &str) -> State {
    let found = path
        .split('.')
        .try_fold(object, |value, key| value.get(key))
        .and_then(Value::as_str);
    match found {
        Some(said) if said == equals => State::Ready,
        Some(said) => progressing(format!("{path} is {said}, not {equals}")),
        None => progressing(format!("{path} is not {equals} yet")),
    }
}

/// Group and kind.
fn kind_of(object: &Value) -> (&str, &str) {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or("");
    let group = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or("");
    let group = group.rsplit_once('/').map_or("", |(group, _)| group);
    (group, kind)
}

/// How an object is, judged by what it says of itself.
pub fn assess(object: &Value) -> State {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return progressing("it is being deleted");
    }
    match kind_of(object) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => by_condition(object, "Established"),
        ("apiregistration.k8s.io", "APIService") => by_condition(object, "Available"),
        _ => generic(object),
    }
}

fn progressing(why: impl Into<String>) -> State {
    State::Progressing(why.into())
}

fn number(object: &Value, path: &str) -> Option<i64> {
    object.pointer(path).and_then(Value::as_i64)
}

fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    object.pointer(path).and_then(Value::as_str)
}

/// Whether the controller of the object has not seen its latest change.
fn is_stale(object: &Value) -> bool {
    let seen = number(object, "/status/observedGeneration");
    let wanted = number(object, "/metadata/generation");
    matches!((seen, wanted), (Some(seen), Some(wanted)) if seen < wanted)
}

fn not_seen() -> State {
    progressing("its controller has not seen its latest change")
}

/// Why the latest change does not hold, by a condition that says which change it is about. Flux notes on the object itself
/// only what went well.
fn complaint(object: &Value, type_: &str) -> Option<State> {
    let held = condition(object, type_).filter(|held| !holds(held))?;
    let about = number(held, "/observedGeneration")?;
    let current = about >= number(object, "/metadata/generation")?;
    current.then(|| progressing(says(held, "it is not ready")))
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    all.iter()
        .find(|held| held.get("type").and_then(Value::as_str) == Some(type_))
}

fn holds(condition: &Value) -> bool {
    condition.get("status").and_then(Value::as_str) == Some("True")
}

fn says(condition: &Value, otherwise: &str) -> String {
    let field = |name: &str| condition.get(name).and_then(Value::as_str);
    let message = field("message").filter(|message| !message.is_empty());
    message
        .or_else(|| field("reason"))
        .unwrap_or(otherwise)
        .to_owned()
}

/// `1 of 2 replicas are available`, unless all are.
fn count(have: Option<i64>, want: i64, what: &str) -> Option<State> {
    let have = have.unwrap_or(0);
    (have < want).then(|| progressing(format!("{have} of {want} {what}")))
}

/// A workload whose status was never written was not seen by its controller.
fn unseen(object: &Value) -> Option<State> {
    let unseen = is_stale(object) || number(object, "/status/observedGeneration").is_none();
    unseen.then(|| progressing("its controller has not seen it yet"))
}

fn deployment(object: &Value) -> State {
    if let Some(held) = condition(object, "Progressing")
        && held.get("reason").and_then(Value::as_str) == Some("ProgressDeadlineExceeded")
        && !is_stale(object)
    {
        return State::Failed(says(held, "it makes no progress"));
    }
    let want = number(object, "/spec/replicas").unwrap_or(1);
    let surplus = number(object, "/status/replicas").unwrap_or(0) > want;
    unseen(object)
        .or_else(|| {
            count(
                number(object, "/status/updatedReplicas"),
                want,
                "replicas are updated",
            )
        })
        .or_else(|| surplus.then(|| progressing("old replicas are still there")))
        .or_else(|| {
            count(
                number(object, "/status/availableReplicas"),
                want,
                "replicas are available",
            )
        })
        .unwrap_or(State::Ready)
}

fn stateful_set(object: &Value) -> State {
    let want = number(object, "/spec/replicas").unwrap_or(1);
    let on_delete = text(object, "/spec/updateStrategy/type") == Some("OnDelete");
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
    let updated = (want - partition).max(0);
    unseen(object)
        .or_else(|| {
            count(
                number(object, "/status/readyReplicas"),
                want,
                "replicas are ready",
            )
        })
        .or_else(|| {
            let have = number(object, "/status/updatedReplicas");
            (!on_delete)
                .then(|| count(have, updated, "replicas are updated"))
                .flatten()
        })
        .unwrap_or(State::Ready)
}

fn daemon_set(object: &Value) -> State {
    let want = number(object, "/status/desiredNumberScheduled").unwrap_or(0);
    let on_delete = text(object, "/spec/updateStrategy/type") == Some("OnDelete");
    unseen(object)
        .or_else(|| {
            let have = number(object, "/status/updatedNumberScheduled");
            (!on_delete)
                .then(|| count(have, want, "nodes run the latest"))
                .flatten()
        })
        .or_else(|| {
            count(
                number(object, "/status/numberAvailable"),
                want,
                "nodes have it available",
            )
        })
        .unwrap_or(State::Ready)
}

fn job(object: &Value) -> State {
    if let Some(failed) = condition(object, "Failed").filter(|held| holds(held)) {
        return State::Failed(says(failed, "it failed"));
    }
    if condition(object, "Complete").is_some_and(holds) {
        return State::Ready;
    }
    let suspended = object.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
    if suspended {
        progressing("it is suspended")
    } else {
        progressing("it is not complete")
    }
}

fn pod(object: &Value) -> State {
    match text(object, "/status/phase") {
        Some("Succeeded") => State::Ready,
        Some("Failed") => State::Failed(
            text(object, "/status/reason")
                .unwrap_or("it failed")
                .to_owned(),
        ),
        _ if condition(object, "Ready").is_some_and(holds) => State::Ready,
        _ => pod_trouble(object).map_or_else(|| progressing("it is not ready"), progressing),
    }
}

/// Why the containers of a pod do not run, such as an image that cannot be had.
pub fn pod_trouble(pod: &Value) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = lists
        .iter()
        .filter_map(|list| pod.pointer(list)?.as_array())
        .flatten();
    let mut waiting = containers.filter_map(|container| {
        let reason = text(container, "/state/waiting/reason")?;
        if matches!(reason, "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let image = text(container, "/image").unwrap_or_default();
        Some(format!("{reason} (image {image})"))
    });
    waiting.next().or_else(|| {
        let scheduled = condition(pod, "PodScheduled").filter(|held| !holds(held))?;
        Some(says(scheduled, "it finds no node"))
    })
}

/// A claim of a class that binds on first use waits for a pod, which is no trouble of its own.
fn claim(object: &Value) -> State {
    match text(object, "/status/phase") {
        Some("Bound") => State::Ready,
        Some("Lost") => State::Failed("its volume is gone".to_owned()),
        _ => progressing("it is not bound"),
    }
}

fn service(object: &Value) -> State {
    if text(object, "/spec/type") != Some("LoadBalancer") {
        return State::Ready;
    }
    let ingress = object
        .pointer("/status/loadBalancer/ingress")
        .and_then(Value::as_array);
    if ingress.is_some_and(|ingress| !ingress.is_empty()) {
        State::Ready
    } else {
        progressing("it has no address of a load balancer yet")
    }
}

fn by_condition(object: &Value, type_: &str) -> State {
    match condition(object, type_) {
        Some(held) if holds(held) => State::Ready,
        Some(held) => progressing(says(held, "it is not ready")),
        None => progressing(format!("it is not {type_} yet")),
    }
}

/// Anything that says something of itself by the usual conditions; what says nothing is ready once it is there.
fn generic(object: &Value) -> State {
    if is_stale(object) {
        return complaint(object, "Ready").unwrap_or_else(not_seen);
    }
    if let Some(stalled) = condition(object, "Stalled").filter(|held| holds(held)) {
        return State::Failed(says(stalled, "it is stalled"));
    }
    match condition(object, "Ready") {
        Some(held) if !holds(held) => progressing(says(held, "it is not ready")),
        _ => State::Ready,
    }
}

#[cfg(test)]
mod tests;
