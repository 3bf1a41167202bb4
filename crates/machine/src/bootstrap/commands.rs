//! `bootcmd` and `runcmd`: lists of commands become one script. Pure.

use serde_json::{Map, Value};

use super::{
    Error, Script, Step,
    document::{list, scalar, wrong},
};

/// The script of a key, if it holds any command.
///
/// A command is a line for the shell, or a list of words that the shell must not touch. Like cloud-init, the script
/// goes on after a command that fails.
pub(super) fn read(keys: &mut Map<String, Value>, key: &str) -> Result<Option<Step>, Error> {
    let commands = list(keys, key)?;
    if commands.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    for (index, command) in commands.iter().enumerate() {
        let at = || format!("{key}[{index}]");
        let line = match command {
            Value::Array(words) => {
                let words: Option<Vec<_>> = words.iter().map(scalar).collect();
                let words = words.ok_or_else(|| wrong(at(), "a list of words"))?;
                let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                words.join(" ")
            }
            other => scalar(other).ok_or_else(|| wrong(at(), "a line or a list of words"))?,
        };
        text.push_str(&line);
        text.push('\n');
    }
    let name = key.to_owned();
    Ok(Some(Step::Script(Script { name, text })))
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
