//! Starting processes, and taking note of the end of every process whose parent is gone: the duty of a first process.

use std::{
    collections::HashMap,
    io,
    process::Command,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, WaitOptions, wait, waitid},
};

/// How a process ended, in the way of a shell: 128 and more for a signal.
pub(super) type Code = i32;

/// A process that was started here.
pub(super) struct Started {
    pub(super) pid: Pid,
    /// Gives the code once.
    pub(super) ended: Receiver<Code>,
}

#[derive(Default)]
struct Children {
    awaited: HashMap<Pid, Sender<Code>>,
    started: u64,
}

/// Knows every process that was started here.
#[derive(Default)]
pub(super) struct Reaper {
    children: Mutex<Children>,
    more: Condvar,
}

impl Reaper {
    pub(super) fn start() -> Arc<Self> {
        let reaper = Arc::new(Self::default());
        let own = Arc::clone(&reaper);
        thread::spawn(move || own.reap());
        reaper
    }

    /// Starts a process. Nobody else may: an end that nobody waits for here is thrown away.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Started> {
        // The reaper cannot take the end of a process that is not in the list yet.
        let mut children = self.lock();
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
        let (sender, ended) = channel();
        children.awaited.insert(pid, sender);
        children.started += 1;
        self.more.notify_all();
        Ok(Started { pid, ended })
    }

    /// Starts a process and waits for its end.
    pub(super) fn run(&self, command: &mut Command) -> io::Result<Code> {
        let started = self.spawn(command)?;
        started.ended.recv().map_err(io::Error::other)
    }

    fn reap(&self) {
        loop {
            let before = self.lock().started;
            // Only looked at, and taken below: while a start is under way its end must stay to be found by it.
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(_) => {
                    let mut children = self.lock();
                    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                        let killed = status.terminating_signal().map_or(0, |signal| 128 + signal);
                        let code = status.exit_status().unwrap_or(killed);
                        if let Some(awaited) = children.awaited.remove(&pid) {
                            // Whoever started it may not care.
                            let _ = awaited.send(code);
                        }
                    }
                }
                Err(Errno::CHILD) => {
                    let nothing_new = |children: &mut Children| children.started == before;
                    let waited = self.more.wait_while(self.lock(), nothing_new);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
                Err(_) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set where the test runs alone in a process.
    const ALONE: &str = "BUTLER_TEST_ALONE";

    #[test]
    fn the_end_of_every_process_reaches_whoever_started_it() {
        if std::env::var_os(ALONE).is_none() {
            // Every child of the process is taken, also those of other tests.
            let name = "the_end_of_every_process_reaches_whoever_started_it";
            let mut alone = Command::new(std::env::current_exe().unwrap());
            let status = alone.arg(name).env(ALONE, "1").status().unwrap();
            assert!(status.success());
            return;
        }
        let reaper = Reaper::start();
        let run = |script: &str| reaper.run(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(run("exit 0"), 0);
        assert_eq!(run("exit 7"), 7);
        assert_eq!(run("kill -9 $$"), 137);
        assert!(reaper.spawn(&mut Command::new("/does/not/exist")).is_err());
        let slow = reaper.spawn(Command::new("sleep").arg("0.2")).unwrap();
        assert_eq!(run("exit 3"), 3);
        assert_eq!(slow.ended.recv().unwrap(), 0);
    }
}
