//! The services of a machine: the container runtime and the kubelet, kept running.

use std::{
    fs::OpenOptions,
    io,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    super::{
        Error, MachineSpec,
        configuration::KUBELET_DROP_INS,
        protocol::{Answer, Verb},
    },
    environment,
    reaper::Reaper,
};

/// A service that ended is started again after this long.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a service may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// Where the container runtime says that it is ready.
const NOTIFY: &str = "/run/butler/notify.sock";

#[derive(Default)]
struct State {
    wanted: bool,
    running: Option<Pid>,
    /// Counts changes of what is wanted, so that a pause ends with one.
    orders: u64,
}

/// One service.
pub(super) struct Service {
    name: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

impl Service {
    /// Keeps what `command` makes running for as long as it is wanted.
    fn start(
        name: &'static str,
        wanted: bool,
        reaper: &Arc<Reaper>,
        command: impl Fn() -> Command + Send + 'static,
    ) -> Arc<Self> {
        let state = State {
            wanted,
            ..State::default()
        };
        let service = Arc::new(Self {
            name,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let (own, reaper) = (Arc::clone(&service), Arc::clone(reaper));
        thread::spawn(move || own.keep(&reaper, &command));
        service
    }

    fn keep(&self, reaper: &Reaper, command: &dyn Fn() -> Command) {
        loop {
            let state = self.wait(self.lock(), |state| !state.wanted);
            let orders = state.orders;
            drop(state);
            match self.once(reaper, &mut command()) {
                Ok(code) => eprintln!("{} ended with {code}", self.name),
                Err(error) => eprintln!("{} could not be started: {error}", self.name),
            }
            let mut state = self.lock();
            state.running = None;
            self.changed.notify_all();
            let same = |state: &mut State| state.orders == orders;
            let waited = self.changed.wait_timeout_while(state, PAUSE, same);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn once(&self, reaper: &Reaper, command: &mut Command) -> io::Result<i32> {
        let log = format!("/var/log/{}.log", self.name);
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut state = self.lock();
        if !state.wanted {
            return Ok(0);
        }
        let started = reaper.spawn(command)?;
        state.running = Some(started.pid);
        self.changed.notify_all();
        drop(state);
        started.ended.recv().map_err(io::Error::other)
    }

    fn order(&self, verb: Verb) -> Answer {
        match verb {
            Verb::Start => self.want(true),
            Verb::Stop => self.stop(),
            Verb::Restart => {
                self.stop();
                self.want(true);
            }
            Verb::Query => {}
        }
        if self.lock().wanted {
            Answer::Active
        } else {
            Answer::Inactive
        }
    }

    fn want(&self, wanted: bool) {
        let mut state = self.lock();
        if state.wanted != wanted {
            state.wanted = wanted;
            state.orders += 1;
            self.changed.notify_all();
        }
    }

    fn stop(&self) {
        self.want(false);
        for signal in [Signal::TERM, Signal::KILL] {
            let state = self.lock();
            let Some(pid) = state.running else {
                return;
            };
            // It may have ended just now.
            let _ = kill_process(pid, signal);
            let runs = |state: &mut State| state.running == Some(pid);
            let waited = self.changed.wait_timeout_while(state, GRACE, runs);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_while(state, |state| condition(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All services of a machine.
pub(super) struct Services {
    all: Vec<Arc<Service>>,
    ready: Arc<(Mutex<bool>, Condvar)>,
    environment: Vec<(&'static str, String)>,
}

impl Services {
    pub(super) fn start(reaper: &Arc<Reaper>, spec: &MachineSpec) -> Result<Self, Error> {
        let environment = environment(spec);
        let ready = listen()?;
        let runtime = {
            let environment = environment.clone();
            Service::start("containerd", true, reaper, move || {
                let mut command = program("containerd", &environment);
                command.env("NOTIFY_SOCKET", NOTIFY);
                command
            })
        };
        let kubelet = {
            let environment = environment.clone();
            let line = kubelet(spec);
            // A machine that has joined before goes on where it was; until then kubeadm says when to start.
            let joined = [
                "/var/lib/kubelet/config.yaml",
                "/etc/kubernetes/kubelet.conf",
            ];
            let joined = joined.iter().all(|path| Path::new(path).exists());
            Service::start("kubelet", joined, reaper, move || {
                let mut command = program("sh", &environment);
                command.args(["-c", &line]);
                command
            })
        };
        Ok(Self {
            all: vec![runtime, kubelet],
            ready,
            environment,
        })
    }

    /// Does something about a service.
    pub(super) fn order(&self, verb: Verb, unit: &str) -> Answer {
        let service = self.all.iter().find(|service| service.name == unit);
        service.map_or(Answer::Unknown, |service| service.order(verb))
    }

    /// Waits until the container runtime has said that it is ready; false when it has not within the time.
    pub(super) fn wait_for_runtime(&self, time: Duration) -> bool {
        let (ready, changed) = &*self.ready;
        let ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(ready, time, |ready| !*ready);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A program with the environment of this machine.
    pub(super) fn program(&self, name: &str) -> Command {
        program(name, &self.environment)
    }
}

/// Programs are looked up where the machine has them, not where this process had them.
fn program(name: &str, environment: &[(&'static str, String)]) -> Command {
    let path = environment.iter().find(|(key, _)| *key == "PATH");
    let folders = path.map(|(_, value)| value.as_str()).unwrap_or_default();
    let found = folders
        .split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists());
    let mut command = Command::new(found.unwrap_or_else(|| name.into()));
    command
        .env_clear()
        .envs(environment.iter().cloned())
        .current_dir("/");
    command
}

/// The line of kubeadm's own unit, after what this machine knows better; the last word wins.
fn kubelet(spec: &MachineSpec) -> String {
    let address = spec.address;
    format!(
        "for file in /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet; do [ ! -f \"$file\" ] || . \"$file\"; done\n\
         exec kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
         --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \
         --config-dir={KUBELET_DROP_INS} --node-ip={address} $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"
    )
}

/// Listens for the container runtime's word, in the way of systemd's notifications.
fn listen() -> Result<Arc<(Mutex<bool>, Condvar)>, Error> {
    let path = Path::new(NOTIFY);
    let socket = UnixDatagram::bind(path).map_err(Error::file("listen on", path))?;
    let ready = Arc::new((Mutex::new(false), Condvar::new()));
    let told = Arc::clone(&ready);
    thread::spawn(move || {
        let mut message = [0; 4096];
        while let Ok(length) = socket.recv(&mut message) {
            let message = message.get(..length).unwrap_or_default();
            if message
                .split(|byte| *byte == b'\n')
                .any(|line| line == b"READY=1")
            {
                let (ready, changed) = &*told;
                *ready.lock().unwrap_or_else(PoisonError::into_inner) = true;
                changed.notify_all();
            }
        }
    });
    Ok(ready)
}
