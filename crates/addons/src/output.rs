//! What a command said, fit to be shown: short, and without anything secret.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Texts shorter than this are left as they are: masking every `a` would leave nothing to read, and hide nothing.
const SHORTEST_SECRET: usize = 4;
/// The most that is shown.
const LONGEST: usize = 600;

/// The last words of a command in one line, with every secret text taken out.
pub fn presentable(said: &str, secrets: &[String]) -> String {
    let masked = mask(said, secrets);
    let lines = masked.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !is_noise(line))
        .collect();
    trim(&lines.join("; "))
}

/// Takes secrets out, longest first, so that one that is part of another leaves nothing of it behind. Each line of a longer
/// text is one too: a key in PEM is printed line by line. So is what it becomes in quotes, and in a Secret.
pub fn mask(said: &str, secrets: &[String]) -> String {
    let lines = secrets.iter().flat_map(|secret| secret.lines());
    let mut parts: Vec<&str> = lines.map(str::trim).collect();
    parts.extend(secrets.iter().map(String::as_str));
    parts.retain(|part| part.len() >= SHORTEST_SECRET);
    let other = |part: &&str| [quoted(part), STANDARD.encode(part)];
    let mut all: Vec<String> = parts.iter().flat_map(other).collect();
    all.extend(parts.iter().map(|part| (*part).to_owned()));
    all.sort_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
    all.dedup();
    let mut text = said.to_owned();
    for part in all {
        text = text.replace(&part, "***");
    }
    text
}

/// A text as it stands between quotes.
fn quoted(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_matches('"').to_owned()
}

fn is_noise(line: &str) -> bool {
    line.starts_with("level=") || line.starts_with("WARNING:") || line.contains("level=WARN")
}

/// The end is where the cause stands.
fn trim(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let skipped = text.chars().count() - LONGEST;
    let tail: String = text.chars().skip(skipped).collect();
    format!("…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_never_show_whole_or_in_part() {
        let secrets = ["hunter2".to_owned(), "hunter2-and-more".to_owned()];
        let shown = presentable("Error: \"hunter2-and-more\" is no port\n", &secrets);
        assert_eq!(shown, "Error: \"***\" is no port");
    }

    #[test]
    fn a_key_of_many_lines_is_hidden_line_by_line() {
        let secrets = ["-----BEGIN KEY-----\nabcdef\n-----END KEY-----\n".to_owned()];
        assert_eq!(presentable("bad: abcdef", &secrets), "bad: ***");
    }

    #[test]
    fn a_secret_in_quotes_or_in_base64_is_hidden_too() {
        let secrets = ["to \"be\" or".to_owned()];
        let said = r#"got "to \"be\" or", which is dG8gImJlIiBvcg=="#;
        assert_eq!(presentable(said, &secrets), r#"got "***", which is ***"#);
    }

    #[test]
    fn long_output_keeps_its_end_and_characters_whole() {
        let shown = presentable(&format!("{}the cause", "ä".repeat(5000)), &[]);
        assert!(shown.ends_with("the cause") && shown.chars().count() == LONGEST + 1);
    }

    #[test]
    fn warnings_are_left_out_and_lines_become_one() {
        let said = "level=WARN msg=x\nError: a\n\n  b\n";
        assert_eq!(presentable(said, &[]), "Error: a; b");
    }
}
