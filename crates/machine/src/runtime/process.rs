//! Finding and ending processes of the host, by what the kernel says of them.

use std::{fs, io, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) pid: u32,
    descriptor: OwnedFd,
}

impl Handle {
    /// The process, unless it has ended.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let descriptor = pidfd_open(raw, PidfdFlags::empty()).ok()?;
        Some(Self { pid, descriptor })
    }

    /// What becomes readable when it has ended.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    /// Kills it; one that has ended is none to complain about.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.descriptor, Signal::KILL) {
            Err(error) if error != rustix::io::Errno::SRCH => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until it has ended; false when it has not within the time.
    ///
    /// The first process of a namespace ends after all others of it, so the whole machine has ended then.
    pub(crate) fn wait(&self, time: Duration) -> io::Result<bool> {
        let mut watched = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        loop {
            match poll(&mut watched, Some(&time)) {
                Ok(events) => return Ok(events > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Of these processes, the one that is the first of a process namespace just below ours.
pub(crate) fn first_of_namespace(pids: &[u32]) -> Option<Handle> {
    pids.iter().find_map(|pid| {
        let handle = Handle::open(*pid)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        is_first(&status).then_some(handle)
    })
}

/// Whether a process is number 1 in the namespace just below the reader's, and not a zombie.
fn is_first(status: &str) -> bool {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default()
    };
    let numbers: Vec<_> = field("NSpid:").split_whitespace().collect();
    matches!(numbers.as_slice(), [_, "1"]) && !field("State:").starts_with('Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_of_a_namespace_is_told_from_all_others() {
        let status =
            |state: &str, pids: &str| format!("Name:\tx\nState:\t{state}\nNSpid:\t{pids}\n");
        assert!(is_first(&status("S (sleeping)", "812\t1")));
        assert!(!is_first(&status("S (sleeping)", "812")), "of the host");
        assert!(!is_first(&status("S (sleeping)", "812\t7")), "another");
        assert!(!is_first(&status("S (sleeping)", "812\t9\t1")), "of a pod");
        assert!(!is_first(&status("Z (zombie)", "812\t1")), "has ended");
        assert!(!is_first(""));
    }

    #[test]
    fn a_process_that_has_ended_is_waited_for_without_end_of_patience() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let handle = Handle::open(child.id()).unwrap();
        assert!(!handle.wait(Duration::ZERO).unwrap());
        handle.kill().unwrap();
        assert!(handle.wait(Duration::from_secs(10)).unwrap());
        child.wait().unwrap();
        handle.kill().unwrap();
    }
}
