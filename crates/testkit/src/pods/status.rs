//! The status of a pod, computed from what is known of its containers. Pure: nothing is read or written here.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
        ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that stays.
    Sidecar,
    /// One of those the pod is there for.
    Main,
}

/// What is known of one container.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) name: String,
    image: String,
    pub(super) kind: Kind,
    pub(super) started: bool,
    pub(super) ready: bool,
    pub(super) restarts: i32,
    pub(super) state: ContainerState,
    last: Option<ContainerState>,
}

impl Seen {
    fn new(container: &Container, kind: Kind) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            kind,
            started: false,
            ready: false,
            restarts: 0,
            state: waiting("PodInitializing", None),
            last: None,
        }
    }

    /// It could not be started, or has to wait before it is.
    pub(super) fn waits(&mut self, reason: &str, message: &str) {
        if self.state.terminated.is_some() {
            self.last = Some(self.state.clone());
        }
        self.state = waiting(reason, Some(message));
    }

    /// Its program runs.
    pub(super) fn runs(&mut self, restarts: i32, now: Timestamp) {
        if self.state.terminated.is_some() {
            self.last = Some(self.state.clone());
        }
        self.restarts = restarts;
        let started_at = Some(Time(now));
        self.state = ContainerState {
            running: Some(ContainerStateRunning { started_at }),
            ..ContainerState::default()
        };
    }

    /// Its program has ended.
    pub(super) fn ended(&mut self, code: i32, message: Option<String>, now: Timestamp) {
        let running = self.state.running.take();
        self.started = false;
        self.ready = self.kind == Kind::Init && code == 0;
        let reason = if code == 0 { "Completed" } else { "Error" };
        let terminated = ContainerStateTerminated {
            exit_code: code,
            finished_at: Some(Time(now)),
            message,
            reason: Some(reason.to_owned()),
            started_at: running.and_then(|running| running.started_at),
            ..ContainerStateTerminated::default()
        };
        self.state = ContainerState {
            terminated: Some(terminated),
            ..ContainerState::default()
        };
    }

    fn status(&self) -> ContainerStatus {
        ContainerStatus {
            name: self.name.clone(),
            image: self.image.clone(),
            image_id: self.image.clone(),
            ready: self.ready,
            started: Some(self.started),
            restart_count: self.restarts,
            state: Some(self.state.clone()),
            last_state: self.last.clone(),
            ..ContainerStatus::default()
        }
    }
}

fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: message.map(ToOwned::to_owned),
    };
    ContainerState {
        waiting: Some(waiting),
        ..ContainerState::default()
    }
}

/// What is known of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) address: Option<Ipv4Addr>,
    pub(super) host_address: Ipv4Addr,
    pub(super) began: Timestamp,
    pub(super) initialized: bool,
    /// How the pod ended, if its containers ended for good.
    pub(super) succeeded: Option<bool>,
    pub(super) containers: Vec<Seen>,
}

impl Facts {
    /// A pod of which nothing runs yet.
    pub(super) fn of(pod: &Pod, host_address: Ipv4Addr, now: Timestamp) -> Self {
        let spec = pod.spec.as_ref();
        let inits = spec.and_then(|spec| spec.init_containers.as_ref());
        let inits = inits.into_iter().flatten();
        let inits = inits.map(|container| Seen::new(container, kind_of_init(container)));
        let mains = spec.map(|spec| spec.containers.as_slice());
        let mains = mains.into_iter().flatten();
        let mains = mains.map(|container| Seen::new(container, Kind::Main));
        Self {
            address: None,
            host_address,
            began: now,
            initialized: false,
            succeeded: None,
            containers: inits.chain(mains).collect(),
        }
    }

    /// The container of this name.
    pub(super) fn container(&mut self, name: &str) -> Option<&mut Seen> {
        self.containers.iter_mut().find(|seen| seen.name == name)
    }

    fn phase(&self) -> &'static str {
        match self.succeeded {
            Some(true) => "Succeeded",
            Some(false) => "Failed",
            None if self.initialized && self.mains().any(has_run) => "Running",
            None => "Pending",
        }
    }

    fn mains(&self) -> impl Iterator<Item = &Seen> {
        let mut containers = self.containers.iter();
        std::iter::from_fn(move || containers.find(|seen| seen.kind == Kind::Main))
    }

    fn is_ready(&self) -> bool {
        let mut lasting = self
            .containers
            .iter()
            .filter(|seen| seen.kind != Kind::Init);
        self.initialized && self.succeeded.is_none() && lasting.all(|seen| seen.ready)
    }

    /// The status to report; conditions that stand keep the time they have in `before`.
    pub(super) fn status(&self, before: &PodStatus, now: Timestamp) -> PodStatus {
        let of = |main: bool| -> Option<Vec<ContainerStatus>> {
            let chosen = self.containers.iter();
            let chosen = chosen.filter(|seen| (seen.kind == Kind::Main) == main);
            let statuses: Vec<_> = chosen.map(Seen::status).collect();
            (!statuses.is_empty()).then_some(statuses)
        };
        let conditions = [
            ("PodReadyToStartContainers", self.address.is_some()),
            ("Initialized", self.initialized),
            ("ContainersReady", self.is_ready()),
            ("Ready", self.is_ready()),
        ];
        let condition = |(name, holds)| condition(name, holds, before, now);
        let address = self.address.map(|address| address.to_string());
        let host = self.host_address.to_string();
        PodStatus {
            phase: Some(self.phase().to_owned()),
            conditions: Some(conditions.map(condition).to_vec()),
            container_statuses: of(true),
            init_container_statuses: of(false),
            host_ip: Some(host.clone()),
            host_ips: Some(vec![HostIP { ip: host }]),
            pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip: address,
            start_time: Some(Time(self.began)),
            ..PodStatus::default()
        }
    }
}

/// The strategic patch that makes a pod's status this one; conditions of others stay.
pub(super) fn patch(pod: &Pod, status: &PodStatus) -> Value {
    let mut status = serde_json::to_value(status).unwrap_or_default();
    let conditions = status["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        // What is left out of a patch stays: the reason of another time.
        if condition["reason"].is_null() {
            condition["reason"] = Value::Null;
        }
    }
    json!({ "metadata": { "uid": pod.uid() }, "status": status })
}

/// Whether an init container is one that stays.
pub(super) fn kind_of_init(container: &Container) -> Kind {
    match container.restart_policy.as_deref() {
        Some("Always") => Kind::Sidecar,
        _ => Kind::Init,
    }
}

fn has_run(seen: &Seen) -> bool {
    seen.state.waiting.is_none() || seen.last.is_some()
}

fn condition(name: &str, holds: bool, before: &PodStatus, now: Timestamp) -> PodCondition {
    let status = if holds { "True" } else { "False" };
    let mut held = before.conditions.iter().flatten();
    let held = held.find(|held| held.type_ == name && held.status == status);
    let since = held.and_then(|held| held.last_transition_time.clone());
    let reason = (!holds && name != "Initialized").then(|| "ContainersNotReady".to_owned());
    PodCondition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason,
        last_transition_time: Some(since.unwrap_or(Time(now))),
        ..PodCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        let spec = json!({
            "initContainers": [{ "name": "once" }, { "name": "beside", "restartPolicy": "Always" }],
            "containers": [{ "name": "main" }],
        });
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
    }

    fn facts() -> Facts {
        Facts::of(&pod(), Ipv4Addr::LOCALHOST, Timestamp::UNIX_EPOCH)
    }

    fn ready(status: &PodStatus) -> &PodCondition {
        let mut conditions = status.conditions.iter().flatten();
        conditions
            .find(|condition| condition.type_ == "Ready")
            .unwrap()
    }

    fn start(facts: &mut Facts, name: &str) {
        let seen = facts.container(name).unwrap();
        seen.runs(0, Timestamp::UNIX_EPOCH);
        (seen.started, seen.ready) = (true, true);
    }

    #[test]
    fn a_pod_is_ready_when_its_sidecars_and_containers_are() {
        let mut facts = facts();
        let status = facts.status(&PodStatus::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(status.phase.as_deref(), Some("Pending"));
        let once = facts.container("once").unwrap();
        once.runs(0, Timestamp::UNIX_EPOCH);
        once.ended(0, None, Timestamp::UNIX_EPOCH);
        facts.initialized = true;
        start(&mut facts, "main");
        let status = facts.status(&PodStatus::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert_eq!(ready(&status).status, "False");
        start(&mut facts, "beside");
        let status = facts.status(&PodStatus::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(ready(&status).status, "True");
    }

    #[test]
    fn a_condition_that_stands_keeps_its_time_and_the_same_facts_the_same_status() {
        let facts = facts();
        let first = facts.status(&PodStatus::default(), Timestamp::UNIX_EPOCH);
        let later = facts.status(&first, Timestamp::MAX);
        assert_eq!(first, later);
    }

    #[test]
    fn a_container_that_crashed_and_waits_remembers_how_it_ended() {
        let mut facts = facts();
        facts.initialized = true;
        start(&mut facts, "main");
        let main = facts.container("main").unwrap();
        main.ended(2, None, Timestamp::UNIX_EPOCH);
        main.waits("CrashLoopBackOff", "later");
        let status = main.status();
        let last = status.last_state.unwrap().terminated.unwrap();
        assert_eq!((last.exit_code, status.ready), (2, false));
        let status = facts.status(&PodStatus::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(status.phase.as_deref(), Some("Running"));
    }

    #[test]
    fn a_patch_takes_reasons_away_that_no_longer_hold() {
        let mut facts = facts();
        facts.address = Some(Ipv4Addr::LOCALHOST);
        let status = facts.status(&PodStatus::default(), Timestamp::UNIX_EPOCH);
        let patch = patch(&pod(), &status);
        let condition = patch["status"]["conditions"][0].as_object().unwrap();
        assert_eq!(condition["status"], "True");
        assert_eq!(condition.get("reason"), Some(&Value::Null));
    }
}
