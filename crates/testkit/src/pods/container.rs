//! One container from its first start to its last end: probes, hooks, restarts.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    Host,
    environment::{self, Environment},
    image::{Image, Start},
    network::Network,
    sandbox::Sandbox,
    sources::{Refusal, Sources},
    status::{Facts, Kind, Seen},
    volumes::Volumes,
};

/// How often a container that could not be started is tried again.
const RETRY: Duration = Duration::from_secs(2);
/// Back-off ends here, and starts anew after a program ran so long, as with a kubelet.
const LONGEST_BACK_OFF: Duration = Duration::from_mins(5);
const HEALTHY: Duration = Duration::from_mins(10);

/// How much of a log goes into a status, as with a kubelet.
const LONGEST_MESSAGE: usize = 2048;

/// A running pod, as its containers see it.
pub(super) struct Body {
    pub(super) host: Arc<Host>,
    pub(super) pod: Pod,
    pub(super) folder: PathBuf,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) network: Arc<Network>,
    pub(super) volumes: Volumes,
    pub(super) facts: watch::Sender<Facts>,
}

impl Body {
    fn sources(&self) -> Sources<'_> {
        Sources {
            client: self.host.client.clone(),
            pod: &self.pod,
            address: self.network.address,
            host_address: self.host.addresses.node,
        }
    }

    /// How long its processes may take to end.
    pub(super) fn grace(&self) -> Duration {
        let spec = self.pod.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(seconds.and_then(|it| u64::try_from(it).ok()).unwrap_or(30))
    }
}

/// Whether a program that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

/// One container of a running pod.
pub(super) struct Unit {
    pub(super) body: Arc<Body>,
    pub(super) spec: Container,
    pub(super) restart: Restart,
    /// When it must be gone, once somebody wants that.
    pub(super) stop: watch::Receiver<Option<Instant>>,
}

impl Unit {
    /// Runs the program, again and again if that is its policy; returns the last exit code.
    pub(super) async fn keep(self) -> i32 {
        let mut restarts = 0;
        let mut crashes = 0;
        loop {
            let began = Instant::now();
            let code = match self.once(restarts).await {
                Ok(code) => code,
                Err(refusal) => {
                    self.seen(|seen| seen.waits(refusal.reason, &refusal.message));
                    if self.stopped_within(RETRY).await {
                        return 0;
                    }
                    continue;
                }
            };
            let again = match self.restart {
                Restart::Always => true,
                Restart::OnFailure => code != 0,
                Restart::Never => false,
            };
            if self.stop.borrow().is_some() || !again {
                return code;
            }
            if began.elapsed() > HEALTHY {
                crashes = 0;
            }
            // The first crash is answered at once.
            let delay = match crashes {
                0 => Duration::ZERO,
                more => {
                    (self.body.host.options.back_off * 2_u32.pow(more - 1)).min(LONGEST_BACK_OFF)
                }
            };
            crashes = (crashes + 1).min(10);
            if !delay.is_zero() {
                let message = format!("back-off {delay:?} restarting failed container");
                self.seen(|seen| seen.waits("CrashLoopBackOff", &message));
            }
            if self.stopped_within(delay).await {
                return code;
            }
            restarts += 1;
        }
    }

    /// Starts the program and stays until it has ended.
    async fn once(&self, restarts: i32) -> Result<i32, Refusal> {
        let environment = environment::of(&self.body.sources(), &self.spec).await?;
        let name = format!("{}.{restarts}", self.spec.name);
        let script = self.prepare(&name, restarts, &environment)?;
        let process = self.body.sandbox.run(&name, &script);
        let process = process.map_err(Refusal::run("order a process"))?;
        let mut exited = process.exited;
        let Ok(pid) = process.started.await else {
            let _ = exited.await;
            return Err(Refusal {
                reason: "RunContainerError",
                message: self.last_lines(),
            });
        };
        self.seen(|seen| seen.runs(restarts, Timestamp::now()));
        self.body.host.started(&self.body.pod, &self.spec.name, pid);
        let mut stop = self.stop.clone();
        let mut why = None;
        let code = tokio::select! {
            code = &mut exited => code.unwrap_or(137),
            message = self.probes(pid, &environment) => {
                why = Some(message);
                let deadline = Instant::now() + self.body.grace();
                self.terminate(pid, &environment, deadline, &mut exited).await
            }
            deadline = stopped(&mut stop) => {
                self.terminate(pid, &environment, deadline, &mut exited).await
            }
        };
        if code != 0 && why.is_none() {
            why = Some(self.last_lines());
        }
        self.seen(|seen| seen.ended(code, why, Timestamp::now()));
        Ok(code)
    }

    fn prepare(
        &self,
        name: &str,
        restarts: i32,
        environment: &Environment,
    ) -> Result<String, Refusal> {
        let body = &*self.body;
        if let Some(lacking) = unsupported(&self.spec) {
            let message = format!("{lacking} are not known to this runner");
            return Err(Refusal::config(message));
        }
        let image = self.spec.image.as_deref().unwrap_or_default();
        let image = Image::find(&body.host.toolchain, image)?;
        let command = environment::command_line(&self.spec, &image.entrypoint(), environment);
        // A container that is started again finds nothing of its predecessor.
        let before = format!("{}.{}", self.spec.name, restarts - 1);
        let _ = fs::remove_dir_all(body.folder.join("roots").join(before));
        let start = Start {
            name,
            pod: &body.pod,
            container: &self.spec,
            image: &image,
            volumes: &body.volumes,
            environment,
            command: &command,
            root: &body.folder.join("roots").join(name),
            log: &self.log(),
        };
        start.prepare()
    }

    pub(super) fn seen(&self, change: impl FnOnce(&mut Seen)) {
        self.body.facts.send_if_modified(|facts| {
            let Some(seen) = facts.container(&self.spec.name) else {
                return false;
            };
            let before = seen.clone();
            change(seen);
            *seen != before
        });
    }

    pub(super) fn log(&self) -> PathBuf {
        self.body.host.log(&self.body.pod, &self.spec.name)
    }

    fn last_lines(&self) -> String {
        let tail = crate::host::tail(&self.log());
        let skipped = tail.chars().count().saturating_sub(LONGEST_MESSAGE);
        tail.chars().skip(skipped).collect()
    }

    async fn stopped_within(&self, time: Duration) -> bool {
        timeout(time, stopped(&mut self.stop.clone())).await.is_ok()
    }
}

/// Resolves with the deadline once somebody wants the container gone.
async fn stopped(stop: &mut watch::Receiver<Option<Instant>>) -> Instant {
    match stop.wait_for(Option::is_some).await {
        Ok(deadline) => deadline.unwrap_or_else(Instant::now),
        Err(_) => Instant::now(),
    }
}

/// What would be needed to run the container as it is meant, and is not here.
fn unsupported(container: &Container) -> Option<&'static str> {
    let probes = [
        &container.startup_probe,
        &container.readiness_probe,
        &container.liveness_probe,
    ];
    if probes
        .into_iter()
        .flatten()
        .any(|probe| probe.grpc.is_some())
    {
        return Some("gRPC probes");
    }
    let lifecycle = container.lifecycle.as_ref();
    lifecycle
        .and_then(|it| it.post_start.as_ref())
        .map(|_| "postStart hooks")
}

/// How a container of this kind is treated when it ends.
pub(super) fn restart_policy(pod: &Pod, kind: Kind) -> Restart {
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref());
    match (kind, policy) {
        (Kind::Sidecar, _) | (Kind::Main, None | Some("Always")) => Restart::Always,
        (_, Some("Never")) => Restart::Never,
        (Kind::Init | Kind::Main, _) => Restart::OnFailure,
    }
}
