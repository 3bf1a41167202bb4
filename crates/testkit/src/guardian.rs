//! The process that owns the components of one server and outlives whoever started it just long enough to
//! clean up.
//!
//! It is a shell in a process group of its own, so Ctrl-C in a terminal does not reach it. It reads orders
//! from a pipe whose only writing end is in this process: when this process ends, in whatever way, the
//! shell reads the end of the pipe, kills the components and removes the folder. The components are its
//! children and carry a parent-death signal, so killing the shell ends them too; only the folder stays
//! then, and the next start removes it.
//!
//! It knows files and processes, and nothing of Kubernetes.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::server::Error;

/// How every server folder begins; what begins so and holds no lock is left over from a crash.
const PREFIX: &str = "butler-testkit-";
/// Held open and locked by the guardian for as long as it lives.
const LOCK: &str = "lock";

/// Orders: `start NAME` runs `NAME.sh`; `stop NAME` ends it and waits until it is gone.
const SCRIPT: &str = r#"
cd "$1" || exit 1
while read -r order name; do
  case $order in
    start)
      sh "./$name.sh" </dev/null >>"$name.log" 2>&1 &
      echo $! >"$name.pid.new" && mv "$name.pid.new" "$name.pid"
      ;;
    stop)
      read -r pid <"$name.pid"
      kill -TERM "$pid"
      wait "$pid"
      rm -f "$name.pid"
      ;;
  esac
done
for file in *.pid; do
  read -r pid <"$file" && kill -KILL "$pid"
done
wait
cd /
# Processes of pods may die a little later than we, and write until then.
for try in 1 2 3 4 5; do
  rm -rf -- "$1" && break
  sleep 1
done
"#;

/// Owns a server's folder and processes; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Guardian {
    folder: PathBuf,
    shell: Child,
}

impl Guardian {
    /// Makes a new private folder and the shell that watches over it.
    pub(crate) fn new() -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        remove_left_overs(&parent);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .map_err(Error::file("make a folder in", &parent))?;
        let lock = lock_file(folder.path())?;
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "butler-testkit-guardian"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            // The lock belongs to the open file, so it is the shell that holds it from here on.
            .stdout(lock)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::file("run", Path::new("sh")))?;
        // The shell removes the folder from now on, also if this process never gets to.
        Ok(Self {
            folder: folder.keep(),
            shell,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a command; its output goes to `NAME.log` in the folder.
    pub(crate) fn start(
        &mut self,
        name: &str,
        program: &Path,
        arguments: &[String],
    ) -> Result<(), Error> {
        let mut line = String::from("exec setpriv --pdeathsig KILL -- ");
        line.push_str(&quoted(&program.display().to_string()));
        for argument in arguments {
            line.push(' ');
            line.push_str(&quoted(argument));
        }
        line.push('\n');
        let file = self.folder.join(format!("{name}.sh"));
        fs::write(&file, line).map_err(Error::file("write", &file))?;
        self.order(&format!("start {name}"))
    }

    /// Asks a command to end; it is gone when its pid file is.
    pub(crate) fn stop(&mut self, name: &str) -> Result<(), Error> {
        self.order(&format!("stop {name}"))
    }

    /// Whether a command that was started has ended by itself.
    pub(crate) fn has_ended(&self, name: &str) -> bool {
        let Some(pid) = self.pid(name) else {
            return false;
        };
        // A child the shell has not waited for yet is a zombie: state Z, after the name in parentheses.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('Z'))
    }

    /// The process id of a command, once it has been started and until it was stopped.
    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        let text = fs::read_to_string(self.folder.join(format!("{name}.pid"))).ok()?;
        text.trim().parse().ok()
    }

    fn order(&mut self, order: &str) -> Result<(), Error> {
        let pipe = self
            .shell
            .stdin
            .as_mut()
            .expect("the pipe is open until drop");
        writeln!(pipe, "{order}").map_err(Error::file("order from", &self.folder))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Nothing is left to do for a caller if waiting fails: the shell cleans up without us.
        let _ = self.shell.wait();
    }
}

/// Makes the lock file of a folder, locked from the moment it has its name.
fn lock_file(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let unnamed = folder.join("lock.new");
    let file = File::create(&unnamed).map_err(Error::file("create", &unnamed))?;
    file.lock().map_err(Error::file("lock", &unnamed))?;
    fs::rename(&unnamed, &path).map_err(Error::file("create", &path))?;
    Ok(file)
}

/// Removes the folders of guardians that were killed. Best effort: another start may do the same.
fn remove_left_overs(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether nobody holds the lock. A folder without a lock file is one that is being made just now.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(file) = OpenOptions::new().write(true).open(folder.join(LOCK)) else {
        return false;
    };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

/// A text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_quotes_reaches_the_program_as_one() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_folder_of_a_living_guardian_is_not_a_left_over() {
        let guardian = Guardian::new().unwrap();
        assert!(!is_abandoned(guardian.folder()));
        let folder = guardian.folder().to_owned();
        drop(guardian);
        assert!(!folder.exists());
    }
}
