//! The command reference of the book: one page a program, from the same declarations that read the command line.

use std::fmt::Write;

use anyhow::Result;
use clap::{Arg, ArgAction, Command};

/// The page of a program.
pub(super) fn page(mut command: Command) -> Result<String> {
    command.build();
    let mut text = format!("# {}\n\n{}.\n", command.get_name(), about(&command));
    let everywhere: Vec<&Arg> = command
        .get_arguments()
        .filter(|it| it.is_global_set())
        .collect();
    if !everywhere.is_empty() {
        text.push_str("\nEverywhere:\n\n");
        rows(&mut text, &everywhere)?;
    }
    below(&mut text, &command)?;
    if let Some(more) = command.get_after_help() {
        text.push('\n');
        for line in more.to_string().lines() {
            writeln!(text, "    {line}")?;
        }
    }
    Ok(text)
}

/// Every command that does something, with its own flags.
fn below(text: &mut String, parent: &Command) -> Result<()> {
    let named = parent
        .get_subcommands()
        .filter(|it| it.get_name() != "help" && !it.is_hide_set());
    for command in named {
        let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
        if command.has_subcommands() {
            let shared = |arg: &&Arg| {
                let mut above = parent.get_arguments();
                arg.is_global_set() && !above.any(|known| known.get_id() == arg.get_id())
            };
            let shared: Vec<&Arg> = command.get_arguments().filter(shared).collect();
            if !shared.is_empty() {
                write!(text, "\n## {name}\n\n{}. Everywhere:\n\n", about(command))?;
                rows(text, &shared)?;
            }
            below(text, command)?;
            continue;
        }
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").trim();
        write!(text, "\n## {name}\n\n{}.\n\n    {usage}\n", about(command))?;
        let own: Vec<&Arg> = command.get_arguments().filter(|it| is_own(it)).collect();
        if !own.is_empty() {
            text.push('\n');
            rows(text, &own)?;
        }
    }
    Ok(())
}

fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string);
    about.unwrap_or_default()
}

fn is_own(arg: &Arg) -> bool {
    let is_help = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    !is_help && !arg.is_global_set() && !arg.is_hide_set()
}

fn rows(text: &mut String, args: &[&Arg]) -> Result<()> {
    text.push_str("| argument | meaning |\n|---|---|\n");
    for arg in args {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let values = arg.get_possible_values();
        if arg.get_action().takes_values() && !values.is_empty() {
            let values: Vec<&str> = values
                .iter()
                .map(clap::builder::PossibleValue::get_name)
                .collect();
            write!(meaning, "; one of {}", values.join(", "))?;
        }
        let default: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|it| it.to_string_lossy())
            .collect();
        if arg.get_action().takes_values() && !default.is_empty() {
            write!(meaning, " [default: {}]", default.join(", "))?;
        }
        if let Some(name) = arg.get_env() {
            write!(meaning, " [environment: {}]", name.to_string_lossy())?;
        }
        writeln!(
            text,
            "| `{}` | {} |",
            spelled(arg),
            meaning.replace('|', "\\|")
        )?;
    }
    Ok(())
}

/// All ways to write an argument, with its value.
fn spelled(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default();
    let value = value
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    if arg.is_positional() {
        return value;
    }
    let mut names: Vec<String> = arg
        .get_short()
        .map(|it| format!("-{it}"))
        .into_iter()
        .collect();
    names.extend(arg.get_long().map(|it| format!("--{it}")));
    let others = arg.get_visible_aliases().unwrap_or_default();
    names.extend(others.iter().map(|it| format!("--{it}")));
    let mut text = names.join(", ");
    if arg.get_action().takes_values() && !value.is_empty() {
        text.push(' ');
        text.push_str(&value);
    }
    text
}
