//! `systemctl` as a machine has it: enough for kubeadm and for commands of bootstrap data, over the socket of the
//! first process.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
};

use super::protocol::{Answer, Request, SOCKET, Verb};

/// What a command line means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    /// Nothing has to be done for it to hold.
    Nothing,
    /// Each of these, and how the answer is told.
    Each {
        verb: Verb,
        units: Vec<String>,
        told: Told,
    },
    /// It is not understood.
    Unknown(String),
}

/// How an answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Only trouble is.
    Silently,
    /// One word, and the exit code of `is-active`.
    Word,
    /// A few lines, and the exit code of `status`.
    Lines,
    /// One word: everything here starts with the machine.
    Enabled,
}

/// Does what the arguments say and returns the exit code.
pub fn run(arguments: &[String]) -> u8 {
    match parse(arguments) {
        Order::Nothing => 0,
        Order::Unknown(word) => {
            eprintln!("systemctl: this machine does not know how to {word}");
            1
        }
        Order::Each { verb, units, told } => {
            let codes = units.iter().map(|unit| match ask(verb, unit) {
                Ok(answer) => tell(unit, answer, told),
                Err(error) => {
                    eprintln!(
                        "systemctl: could not reach the first process of this machine: {error}"
                    );
                    1
                }
            });
            codes.max().unwrap_or(0)
        }
    }
}

/// Words that begin with a dash change nothing here, but for `--now`.
fn parse(arguments: &[String]) -> Order {
    let (flags, mut words): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    if words.is_empty() {
        return Order::Unknown("do nothing".to_owned());
    }
    let word = words.remove(0);
    let units = words
        .iter()
        .map(|unit| unit.strip_suffix(".service").unwrap_or(unit).to_owned());
    let units: Vec<_> = units.collect();
    let now = flags.iter().any(|flag| *flag == "--now");
    let each = |verb, told| Order::Each {
        verb,
        units: units.clone(),
        told,
    };
    match word.as_str() {
        "start" => each(Verb::Start, Told::Silently),
        "stop" => each(Verb::Stop, Told::Silently),
        "enable" | "unmask" if now => each(Verb::Start, Told::Silently),
        "disable" | "mask" if now => each(Verb::Stop, Told::Silently),
        "enable" | "disable" | "mask" | "unmask" | "daemon-reload" | "daemon-reexec"
        | "reset-failed" | "preset" => Order::Nothing,
        "restart" | "reload-or-restart" | "try-restart" => each(Verb::Restart, Told::Silently),
        "is-active" => each(Verb::Query, Told::Word),
        "is-enabled" => each(Verb::Query, Told::Enabled),
        "status" => each(Verb::Query, Told::Lines),
        other => Order::Unknown(other.to_owned()),
    }
}

/// The exit codes are those that scripts know from the real program.
fn tell(unit: &str, answer: Answer, told: Told) -> u8 {
    match (told, answer) {
        (Told::Silently, Answer::Unknown) => {
            eprintln!("Unit {unit}.service not found.");
            5
        }
        (Told::Silently, Answer::Active | Answer::Inactive) => 0,
        (Told::Word, Answer::Active) => say("active", 0),
        (Told::Word, Answer::Inactive | Answer::Unknown) => say("inactive", 3),
        (Told::Enabled, Answer::Active | Answer::Inactive) => say("enabled", 0),
        (Told::Enabled, Answer::Unknown) => say("not-found", 4),
        (Told::Lines, Answer::Active) => say(
            &format!("{unit}.service\n   Loaded: loaded\n   Active: active (running)"),
            0,
        ),
        (Told::Lines, Answer::Inactive) => say(
            &format!("{unit}.service\n   Loaded: loaded\n   Active: inactive (dead)"),
            3,
        ),
        (Told::Lines, Answer::Unknown) => say(&format!("{unit}.service\n   Loaded: not-found"), 4),
    }
}

fn say(text: &str, code: u8) -> u8 {
    println!("{text}");
    code
}

fn ask(verb: Verb, unit: &str) -> io::Result<Answer> {
    let request = Request::Service {
        verb,
        unit: unit.to_owned(),
    };
    let mut stream = UnixStream::connect(SOCKET)?;
    let mut line = serde_json::to_string(&request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Order {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        parse(&words)
    }

    fn each(verb: Verb, told: Told) -> Order {
        let units = vec!["kubelet".to_owned()];
        Order::Each { verb, units, told }
    }

    #[test]
    fn what_kubeadm_asks_for_is_understood() {
        assert_eq!(parsed("daemon-reload"), Order::Nothing);
        assert_eq!(parsed("start kubelet"), each(Verb::Start, Told::Silently));
        assert_eq!(
            parsed("restart kubelet.service"),
            each(Verb::Restart, Told::Silently)
        );
        assert_eq!(parsed("is-active kubelet"), each(Verb::Query, Told::Word));
        assert_eq!(parsed("status kubelet"), each(Verb::Query, Told::Lines));
        assert_eq!(
            parsed("--quiet enable --now kubelet"),
            each(Verb::Start, Told::Silently)
        );
        assert_eq!(parsed("enable kubelet"), Order::Nothing);
        assert_eq!(parsed("hibernate"), Order::Unknown("hibernate".to_owned()));
    }

    #[test]
    fn a_service_that_is_not_there_is_told_with_the_usual_codes() {
        assert_eq!(tell("ntp", Answer::Unknown, Told::Silently), 5);
        assert_eq!(tell("ntp", Answer::Unknown, Told::Word), 3);
        assert_eq!(tell("ntp", Answer::Unknown, Told::Lines), 4);
        assert_eq!(tell("kubelet", Answer::Inactive, Told::Word), 3);
        assert_eq!(tell("kubelet", Answer::Active, Told::Word), 0);
    }
}
