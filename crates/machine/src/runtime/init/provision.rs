//! Carries out the bootstrap data, once in the life of a machine.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown},
    path::Path,
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    super::{
        Error,
        folder::{read, write},
        protocol::{Outcome, Progress},
    },
    accounts,
    control::Board,
    reaper::Reaper,
    services::Services,
};
use crate::bootstrap::{File, Plan, SENTINEL, Script, Step};

/// Where the platform puts the plan and finds the outcome.
const STATE: &str = "/var/lib/butler";
/// What the commands say.
const LOG: &str = "/var/log/cloud-init-output.log";
/// Longer than the slowest start of a container runtime on a busy host.
const PATIENCE: Duration = Duration::from_mins(1);
/// Lines of output that are told to the platform.
const TOLD: usize = 4;

/// Starts to carry out the plan, unless it has been before.
pub(super) fn start(reaper: &Arc<Reaper>, services: &Arc<Services>) -> Result<Arc<Board>, Error> {
    let (plan_file, outcome_file) = (
        Path::new(STATE).join("bootstrap.json"),
        Path::new(STATE).join("outcome.json"),
    );
    if let Some(outcome) = read(&outcome_file)? {
        return Ok(Board::new(Progress::Ended(outcome)));
    }
    let board = Board::new(Progress::Working);
    let (reaper, services, told) = (Arc::clone(reaper), Arc::clone(services), Arc::clone(&board));
    thread::spawn(move || {
        let outcome = match read::<Plan>(&plan_file) {
            Ok(plan) => carry_out(&plan.unwrap_or_default(), &reaper, &services),
            Err(error) => Outcome::Failed {
                reason: butler_runtime::error::chain(&error),
            },
        };
        if let Err(error) = write(&outcome_file, &outcome) {
            eprintln!("{}", butler_runtime::error::chain(&error));
        }
        // There are tokens in it, and nobody reads it again.
        let _ = fs::remove_file(&plan_file);
        told.set(Progress::Ended(outcome));
    });
    Ok(board)
}

fn carry_out(plan: &Plan, reaper: &Reaper, services: &Services) -> Outcome {
    let failed = |reason: String| Outcome::Failed { reason };
    for note in &plan.ignored {
        log(&format!("ignored: {note}"));
    }
    if !services.wait_for_runtime(PATIENCE) {
        return failed(format!(
            "containerd was not ready after {} s; it says why in /var/log/containerd.log",
            PATIENCE.as_secs()
        ));
    }
    let mut trouble = None;
    for step in &plan.steps {
        let done = match step {
            Step::File(file) => {
                write_file(file).map_err(|error| format!("could not write {}: {error}", file.path))
            }
            Step::User(user) => accounts::make(user, reaper, services)
                .map_err(|error| format!("could not make the user {}: {error}", user.name)),
            Step::Script(script) => run(script, reaper, services),
        };
        if let Err(reason) = done {
            log(&reason);
            trouble.get_or_insert(reason);
        }
    }
    let succeeded = if plan.writes_sentinel {
        Path::new(SENTINEL).exists()
    } else {
        trouble.is_none()
    };
    if succeeded {
        return Outcome::Succeeded;
    }
    let output = fs::read_to_string(LOG).unwrap_or_default();
    let mut reason =
        trouble.unwrap_or_else(|| format!("the commands ended without writing {SENTINEL}"));
    for line in complaints(&output) {
        reason.push_str("; ");
        reason.push_str(&line);
    }
    failed(reason)
}

fn write_file(file: &File) -> io::Result<()> {
    let path = Path::new(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if file.append {
        options.append(true);
    } else {
        options.write(true).truncate(true);
    }
    options.open(path)?.write_all(&file.content)?;
    let owner = accounts::number("/etc/passwd", &file.owner)?;
    let group = accounts::number("/etc/group", &file.group)?;
    chown(path, Some(owner), Some(group))?;
    fs::set_permissions(path, fs::Permissions::from_mode(file.mode))
}

/// The text goes by a file: command lines are seen by everybody.
fn run(script: &Script, reaper: &Reaper, services: &Services) -> Result<(), String> {
    let name = &script.name;
    let path = format!("/run/butler/{name}.sh");
    let ran = run_file(&path, script, reaper, services);
    let _ = fs::remove_file(&path);
    match ran {
        Ok(0) => Ok(()),
        Ok(code) => Err(format!("{name} ended with {code}")),
        Err(error) => Err(format!("{name} could not be run: {error}")),
    }
}

fn run_file(path: &str, script: &Script, reaper: &Reaper, services: &Services) -> io::Result<i32> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o700);
    options.open(path)?.write_all(script.text.as_bytes())?;
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(LOG)?;
    let mut command = services.program("sh");
    command
        .arg(path)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    reaper.run(&mut command)
}

fn log(line: &str) {
    eprintln!("{line}");
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(LOG);
    // The console has it too.
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}

/// Lines in which kubeadm says what is wrong, without anything that looks like a token. The rest of the output stays in
/// the machine: commands of users may print whatever they like.
fn complaints(output: &str) -> Vec<String> {
    let complains = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("error")
            || line.starts_with("[ERROR")
            || line.starts_with('W') && line.contains("join")
    };
    let lines: Vec<_> = output.lines().filter(complains).collect();
    let last = lines.len().saturating_sub(TOLD);
    lines
        .iter()
        .skip(last)
        .map(|line| masked(line.trim()))
        .collect()
}

/// Replaces bootstrap tokens: six characters, a dot, sixteen characters.
fn masked(line: &str) -> String {
    let part = |text: &str, length| {
        text.len() == length
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_token = |word: &str| {
        let word = word.trim_matches(|char: char| !char.is_ascii_alphanumeric());
        word.split_once('.')
            .is_some_and(|(id, secret)| part(id, 6) && part(secret, 16))
    };
    let words = line.split(' ');
    let words = words.map(|word| if is_token(word) { "(token)" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubeadm_complains_about_is_told_and_nothing_else() {
        let output = "[preflight] Running\nmy password is x\n\t[ERROR Port-10250]: Port 10250 is in use\n\
                      error execution phase preflight: [preflight] Some fatal errors occurred\n";
        assert_eq!(
            complaints(output),
            [
                "[ERROR Port-10250]: Port 10250 is in use",
                "error execution phase preflight: [preflight] Some fatal errors occurred",
            ]
        );
    }

    #[test]
    fn tokens_are_masked_wherever_they_stand() {
        let line = "error: token \"abcdef.0123456789abcdef\" is gone, version 1.35.4 stays";
        assert_eq!(
            masked(line),
            "error: token (token) is gone, version 1.35.4 stays"
        );
    }
}
