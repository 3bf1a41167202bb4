//! What is done to a container that runs: probes, hooks, and its end.

use std::{ops::ControlFlow, time::Duration};

use k8s_openapi::api::core::v1::{LifecycleHandler, Probe};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

use super::{
    container::Unit,
    environment::Environment,
    image::{Identity, exec_script},
    probe,
};

/// What a program gets to end after its hook used up the time, as with a kubelet.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Unit {
    /// Follows the probes; returns when the container must be started again, with the reason.
    pub(super) async fn probes(&self, pid: u32, environment: &Environment) -> String {
        if let Some(probe) = &self.spec.startup_probe {
            let until = |result| match result {
                Ok(()) => ControlFlow::Break(None),
                Err(message) => ControlFlow::Break(Some(message)),
            };
            if let Some(message) = self.follow(pid, environment, probe, until).await {
                return format!("startup probe failed: {message}");
            }
        }
        let unwatched = self.spec.readiness_probe.is_none();
        self.seen(|seen| {
            seen.started = true;
            seen.ready = unwatched;
        });
        let readiness = async {
            let Some(probe) = &self.spec.readiness_probe else {
                return std::future::pending().await;
            };
            let report = |result: Result<(), String>| {
                self.seen(|seen| seen.ready = result.is_ok());
                ControlFlow::<String>::Continue(())
            };
            self.follow(pid, environment, probe, report).await
        };
        let liveness = async {
            let Some(probe) = &self.spec.liveness_probe else {
                return std::future::pending().await;
            };
            let until = |result| match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(message) => ControlFlow::Break(format!("liveness probe failed: {message}")),
            };
            self.follow(pid, environment, probe, until).await
        };
        tokio::select! { message = readiness => message, message = liveness => message }
    }

    /// Looks at the container again and again, and hands on every verdict that enough looks agree on.
    async fn follow<T>(
        &self,
        pid: u32,
        environment: &Environment,
        probe: &Probe,
        verdict: impl Fn(Result<(), String>) -> ControlFlow<T>,
    ) -> T {
        let seconds = |value: Option<i32>, default: u64| {
            Duration::from_secs(
                value
                    .and_then(|it| u64::try_from(it).ok())
                    .unwrap_or(default),
            )
        };
        sleep(seconds(probe.initial_delay_seconds, 0)).await;
        let (mut good, mut bad) = (0, 0);
        loop {
            let next = Instant::now() + seconds(probe.period_seconds, 10);
            let looked = timeout(
                seconds(probe.timeout_seconds, 1),
                self.look(pid, environment, probe),
            );
            let result = looked.await.unwrap_or_else(|_| Err("timed out".to_owned()));
            (good, bad) = match result {
                Ok(()) => (good + 1, 0),
                Err(_) => (0, bad + 1),
            };
            let agreed = good >= probe.success_threshold.unwrap_or(1)
                || bad >= probe.failure_threshold.unwrap_or(3);
            if agreed && let ControlFlow::Break(end) = verdict(result) {
                return end;
            }
            sleep_until(next).await;
        }
    }

    async fn look(&self, pid: u32, environment: &Environment, probe: &Probe) -> Result<(), String> {
        let network = &self.body.network;
        if let Some(action) = &probe.http_get {
            probe::http(network, &self.spec, action).await
        } else if let Some(action) = &probe.tcp_socket {
            let port = probe::port(&self.spec, &action.port);
            let connected = probe::connect(network, action.host.as_deref(), port).await;
            connected.map(drop)
        } else if let Some(action) = &probe.exec {
            let command = action.command.clone().unwrap_or_default();
            match self.exec(pid, environment, &command).await {
                Some(0) => Ok(()),
                code => Err(format!("{command:?} ended with {code:?}")),
            }
        } else {
            Err("the probe has no action".to_owned())
        }
    }

    /// Runs a command in the container; dropped before it ends, the command ends by itself or with the pod.
    async fn exec(&self, pid: u32, environment: &Environment, command: &[String]) -> Option<i32> {
        let identity = Identity::of(&self.body.pod, &self.spec).ok()?;
        let name = format!("{}.exec-{}", self.spec.name, self.body.host.next_number());
        let log = self.log();
        let script = exec_script(&name, pid, &identity, environment, command, &log);
        let process = self.body.sandbox.run(&name, &script).ok()?;
        process.exited.await.ok()
    }

    /// Runs the hook, asks the program to end, and ends it when time is up.
    pub(super) async fn terminate(
        &self,
        pid: u32,
        environment: &Environment,
        deadline: Instant,
        exited: &mut oneshot::Receiver<i32>,
    ) -> i32 {
        let hook = self
            .spec
            .lifecycle
            .as_ref()
            .and_then(|it| it.pre_stop.as_ref());
        if let Some(hook) = hook {
            let _ = timeout_at(deadline, self.hook(pid, environment, hook)).await;
        }
        let lifecycle = self.spec.lifecycle.as_ref();
        let signal = lifecycle.and_then(|it| it.stop_signal.as_deref());
        let signal = signal.unwrap_or("SIGTERM").trim_start_matches("SIG");
        let _ = self.body.sandbox.signal(pid, signal);
        let deadline = deadline.max(Instant::now() + LAST_WORDS);
        if let Ok(code) = timeout_at(deadline, &mut *exited).await {
            return code.unwrap_or(137);
        }
        let _ = self.body.sandbox.signal(pid, "KILL");
        exited.await.unwrap_or(137)
    }

    async fn hook(&self, pid: u32, environment: &Environment, hook: &LifecycleHandler) {
        if let Some(pause) = &hook.sleep {
            sleep(Duration::from_secs(
                u64::try_from(pause.seconds).unwrap_or(0),
            ))
            .await;
        } else if let Some(action) = &hook.exec {
            let command = action.command.clone().unwrap_or_default();
            self.exec(pid, environment, &command).await;
        } else if let Some(action) = &hook.http_get {
            let _ = probe::http(&self.body.network, &self.spec, action).await;
        }
    }
}
