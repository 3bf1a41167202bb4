//! All machines of a host: starting, finding, breaking and removing them.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    Cgroups, Error, Folder, Held, MachineId, MachineSpec,
    process::{self, Handle},
    protocol::{Outcome, SOCKET},
};
use crate::bootstrap::Plan;

/// Everything of a machine ends within milliseconds of its first process, unless it has to finish writing to a busy disk.
const PATIENCE: Duration = Duration::from_secs(45);
/// The rule of a machine's network that nothing passes. The table of local addresses comes first, so that a machine
/// still reaches itself.
const PARTITION: [&str; 3] = ["pref", "1", "blackhole"];

/// How this program is called to become a launcher or the first process.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The program.
    pub program: PathBuf,
    /// What comes before the word that says what to do, such as `machine`.
    pub arguments: Vec<String>,
}

/// What is there of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its first process, while it runs.
    pub pid: Option<u32>,
    /// How it was broken on purpose.
    pub held: Option<Held>,
    /// How its bootstrap data ended.
    pub outcome: Option<Outcome>,
}

/// All machines of a host, below one folder.
#[derive(Clone, Debug)]
pub struct Machines {
    folder: PathBuf,
    supervisor: Supervisor,
    cgroups: Cgroups,
}

impl Machines {
    /// The machines below a folder.
    pub fn new(folder: impl Into<PathBuf>, supervisor: Supervisor) -> Result<Self, Error> {
        Ok(Self {
            folder: folder.into(),
            supervisor,
            cgroups: Cgroups::detect()?,
        })
    }

    /// The folder of one.
    pub fn folder(&self, id: &MachineId) -> Folder {
        Folder::at(self.folder.join(id.as_str()))
    }

    /// Every machine that has a folder.
    pub fn list(&self) -> Result<Vec<MachineId>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::file("list", &self.folder))?,
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut ids: Vec<MachineId> = names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// Starts a machine unless it runs, and returns when its first process is up. One that never got to the end of its
    /// bootstrap data starts anew with an empty disk: half a join cannot be finished.
    pub fn start(&self, spec: &MachineSpec, plan: &Plan) -> Result<(), Error> {
        let folder = self.folder(&spec.id);
        folder.make()?;
        let _lock = folder.lock()?;
        if self.find(&spec.id).is_some() {
            return Ok(());
        }
        if folder.read_outcome()?.is_none() {
            for path in [folder.root(), folder.changes(), folder.state()] {
                remove(&path)?;
            }
            folder.make()?;
            folder.write_plan(plan)?;
        }
        folder.write_spec(spec)?;
        self.cgroups
            .make(&spec.id, spec.cpu_milli, spec.memory_bytes)?;
        self.launch(spec, &folder)
    }

    fn launch(&self, spec: &MachineSpec, folder: &Folder) -> Result<(), Error> {
        let Supervisor { program, arguments } = &self.supervisor;
        let output = {
            use std::os::unix::process::CommandExt as _;
            Command::new(program)
                .args(arguments)
                .arg("launch")
                .arg(folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                // What ends this process by its group must not end the machine.
                .process_group(0)
                .output()
                .map_err(Error::file("run", program))?
        };
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::NotStarted {
            id: spec.id.clone(),
            console: format!("{} {}", folder.last_words(), said.trim())
                .trim()
                .to_owned(),
        })
    }

    fn find(&self, id: &MachineId) -> Option<Handle> {
        process::first_of_namespace(&self.cgroups.processes(id))
    }

    /// The machine that is called so: by its host name, by what is behind `local://` in its id, or by its own id.
    /// Host names are unique within a namespace only, so there may be several.
    pub fn called(&self, name: &str) -> Result<Vec<MachineId>, Error> {
        let mut found = Vec::new();
        for id in self.list()? {
            let Some(spec) = self.folder(&id).read_spec()? else {
                continue;
            };
            let instance = spec.provider_id.strip_prefix("local://");
            if spec.hostname == name || instance == Some(name) || id.as_str() == name {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// Where whoever looks after the machines hears that one was broken or resumed.
    pub fn news(&self) -> PathBuf {
        self.folder.join("news.sock")
    }

    /// Says that something was done to a machine. Nobody may be listening.
    fn tell(&self, id: &MachineId) {
        let told = UnixDatagram::unbound()
            .and_then(|socket| socket.send_to(id.as_str().as_bytes(), self.news()));
        if let Err(error) = told {
            tracing::debug!(machine = %id, %error, "nobody listens for news of machines");
        }
    }

    /// What is there of a machine.
    pub fn observe(&self, id: &MachineId) -> Result<Observed, Error> {
        let folder = self.folder(id);
        Ok(Observed {
            pid: self.find(id).map(|handle| handle.pid),
            held: folder.read_held()?,
            outcome: folder.read_outcome()?,
        })
    }

    /// How to follow a running machine: the socket of its first process, and what becomes readable when all of it has
    /// ended, which is a moment after the socket is closed.
    pub fn follow(&self, id: &MachineId) -> Option<(PathBuf, OwnedFd)> {
        let handle = self.find(id)?;
        let socket = PathBuf::from(format!("/proc/{}/root{SOCKET}", handle.pid));
        Some((socket, handle.into_descriptor()))
    }

    /// A command that runs inside of a running machine, as its root would.
    pub fn command(&self, id: &MachineId, words: &[&str]) -> Result<Command, Error> {
        let handle = self.running(id)?;
        let spec = self.folder(id).read_spec()?;
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &handle.pid.to_string(), "--all", "--"])
            .arg("/usr/bin/env")
            .arg("-i");
        for (key, value) in spec.iter().flat_map(super::init::environment) {
            command.arg(format!("{key}={value}"));
        }
        command.args(words);
        Ok(command)
    }

    /// Lets every process of a machine stand still.
    pub fn pause(&self, id: &MachineId) -> Result<(), Error> {
        self.running(id)?;
        self.folder(id).hold(Held::Paused)?;
        self.cgroups.freeze(id, true)?;
        self.tell(id);
        Ok(())
    }

    /// Ends a machine as a power cut would. It is not started again before it is resumed.
    pub fn kill(&self, id: &MachineId) -> Result<(), Error> {
        let folder = self.folder(id);
        let _lock = folder.lock()?;
        folder.hold(Held::Killed)?;
        self.end(id)?;
        self.tell(id);
        Ok(())
    }

    /// Ends a machine as if its host went down: it keeps its disk, and goes on when it is started again.
    pub fn stop(&self, id: &MachineId) -> Result<(), Error> {
        let _lock = self.folder(id).lock()?;
        self.end(id)?;
        self.cgroups.remove(id)
    }

    /// Every process of a machine, those of its pods too.
    pub fn processes(&self, id: &MachineId) -> Vec<u32> {
        self.cgroups.all_processes(id)
    }

    /// Cuts a machine off from everything but itself.
    pub fn partition(&self, id: &MachineId) -> Result<(), Error> {
        let handle = self.running(id)?;
        self.folder(id).hold(Held::Partitioned)?;
        for family in ["-4", "-6"] {
            rule(&handle, family, "add")?;
        }
        self.tell(id);
        Ok(())
    }

    /// Takes back what [`pause`](Self::pause) or [`partition`](Self::partition) did, or allows a killed one to start.
    pub fn resume(&self, id: &MachineId) -> Result<(), Error> {
        let folder = self.folder(id);
        match folder.read_held()? {
            None | Some(Held::Killed) => {}
            Some(Held::Paused) => self.cgroups.freeze(id, false)?,
            Some(Held::Partitioned) => {
                let handle = self.running(id)?;
                for family in ["-4", "-6"] {
                    rule(&handle, family, "del")?;
                }
            }
        }
        folder.release()?;
        self.tell(id);
        Ok(())
    }

    /// Ends a machine and removes everything of it: processes, cgroups, disk. Nothing is left to complain about when
    /// it is not there.
    pub fn remove(&self, id: &MachineId) -> Result<(), Error> {
        let folder = self.folder(id);
        if folder.path().exists() {
            let _lock = folder.lock()?;
            self.end(id)?;
            self.cgroups.remove(id)?;
            remove(folder.path())?;
            return Ok(());
        }
        self.end(id)?;
        self.cgroups.remove(id)
    }

    fn end(&self, id: &MachineId) -> Result<(), Error> {
        let stuck = || Error::Stuck {
            id: id.clone(),
            seconds: PATIENCE.as_secs(),
        };
        let Some(handle) = self.find(id) else {
            return Ok(());
        };
        handle
            .kill()
            .map_err(Error::kernel("kill the first process"))?;
        // A process that stands still does not end before it may go on.
        self.cgroups.freeze(id, false)?;
        let ended = handle
            .wait(PATIENCE)
            .map_err(Error::kernel("wait for the end of a machine"))?;
        if ended { Ok(()) } else { Err(stuck()) }
    }

    fn running(&self, id: &MachineId) -> Result<Handle, Error> {
        let missing = || Error::NotRunning { id: id.clone() };
        self.find(id).ok_or_else(missing)
    }
}

/// Adds or removes the rule that cuts a machine off.
fn rule(machine: &Handle, family: &str, action: &str) -> Result<(), Error> {
    let pid = machine.pid.to_string();
    let mut words = vec![
        "--target", &pid, "--net", "--", "ip", family, "rule", action,
    ];
    words.extend(PARTITION);
    let output = Command::new("nsenter")
        .args(&words)
        .output()
        .map_err(Error::file("run", Path::new("nsenter")))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // It may stand, or be gone, from an earlier try.
    let stands = said.contains("File exists") || said.contains("No such file");
    if output.status.success() || stands {
        return Ok(());
    }
    Err(Error::Command {
        command: format!("nsenter {}", words.join(" ")),
        output: said,
    })
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(Error::file("remove", path)),
    }
}
