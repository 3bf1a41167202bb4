//! What would become of objects, for people to read: nothing of a Secret is shown but that it changes.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::{
    manifest::{ObjectId, yaml},
    output,
};

/// Lines around a change.
const CONTEXT: usize = 3;
/// Texts whose comparison would cost more than this many steps are shown as replaced.
const MOST_STEPS: usize = 4_000_000;

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed.
    Change,
    /// It is removed.
    Delete,
    /// The API server does not accept it.
    Refuse,
    /// It is made anew each time, and gone or forgotten after that.
    Run,
}

impl Action {
    /// As in a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Refuse => "refuse",
            Self::Run => "run",
        }
    }
}

/// What an object is to its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of its objects.
    Object,
    /// A kind out of the chart's folder `crds`: made with the first revision, never changed or removed.
    Definition,
    /// A hook that runs on these occasions.
    Hook(Vec<String>),
}

impl Part {
    /// In words, where it is not what everybody expects.
    fn note(&self) -> Option<String> {
        match self {
            Self::Object => None,
            Self::Definition => Some("crds/".to_owned()),
            Self::Hook(events) => Some(format!("hook: {}", events.join(", "))),
        }
    }
}

/// An object before and after. It may be a Secret, so only [`difference`] makes text of it.
#[derive(Clone)]
pub struct Change {
    /// Which one.
    pub id: ObjectId,
    /// What it is to its release.
    pub part: Part,
    /// As it is, if it is there.
    pub before: Option<Value>,
    /// As it would be, if it stays.
    pub after: Option<Value>,
    /// Why the API server would not have it.
    pub refused: Option<String>,
}

/// What is shown of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Which object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// What becomes of it.
    pub action: Action,
    /// Where it comes from, if it is not one of the release's own objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Line by line.
    pub diff: String,
}

/// What is shown of a change; nothing when there is none. `secrets` are texts that must not be seen anywhere.
pub fn difference(change: &Change, secrets: &[String]) -> Option<Difference> {
    let Change {
        id,
        part,
        before,
        after,
        refused,
    } = change;
    let action = match (before, after) {
        _ if refused.is_some() => Action::Refuse,
        (None, None) => return None,
        _ if matches!(part, Part::Hook(_)) => Action::Run,
        (None, Some(_)) => Action::Create,
        (Some(_), None) => Action::Delete,
        (Some(before), Some(after)) if before == after => return None,
        (Some(_), Some(_)) => Action::Change,
    };
    let (mut before, mut after) = (before.clone(), after.clone());
    if id.kind == "Secret" {
        hide(&mut before, &mut after);
    }
    let text = |side: &Option<Value>| side.as_ref().map(yaml).unwrap_or_default();
    let shown = |text: &str| output::mask(text, secrets);
    Some(Difference {
        id: id.clone(),
        action,
        part: part.note(),
        reason: refused.as_deref().map(shown),
        diff: shown(&unified(&text(&before), &text(&after))),
    })
}

/// Puts words in place of what a Secret holds: whether two are equal may be seen.
fn hide(before: &mut Option<Value>, after: &mut Option<Value>) {
    for field in ["data", "stringData"] {
        let held = before
            .as_ref()
            .and_then(|object| object.get(field))
            .cloned();
        let then = after.as_ref().and_then(|object| object.get(field)).cloned();
        cover(before, field, then.as_ref(), "*** (before)");
        cover(after, field, held.as_ref(), "*** (after)");
    }
    for side in [before, after].into_iter().flatten() {
        // What `kubectl apply` notes is the whole object once more.
        let noted = side.pointer_mut("/metadata/annotations");
        if let Some(noted) = noted.and_then(Value::as_object_mut) {
            noted.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
}

fn cover(side: &mut Option<Value>, field: &str, other: Option<&Value>, differs: &str) {
    let held = side.as_mut().and_then(|object| object.get_mut(field));
    let Some(held) = held.and_then(Value::as_object_mut) else {
        return;
    };
    for (key, value) in held {
        let is_same = other.and_then(|other| other.get(key)) == Some(&*value);
        *value = Value::from(if is_same { "***" } else { differs });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// The differing lines of two texts with some around them, as `diff -u` writes them.
fn unified(before: &str, after: &str) -> String {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let lines = compare(&before, &after);
    let near = |at: usize| {
        let (from, to) = (at.saturating_sub(CONTEXT), at + CONTEXT + 1);
        let around = lines.get(from..to.min(lines.len())).unwrap_or_default();
        around.iter().any(|line| !matches!(line, Line::Same(_)))
    };
    let mut text = String::new();
    let (mut old, mut new) = (1, 1);
    let mut at = 0;
    while at < lines.len() {
        let end = (at..lines.len())
            .find(|it| !near(*it))
            .unwrap_or(lines.len());
        let hunk = lines.get(at..end).unwrap_or_default();
        let olds = hunk.iter().filter(|it| !matches!(it, Line::New(_))).count();
        let news = hunk
            .iter()
            .filter(|it| !matches!(it, Line::Gone(_)))
            .count();
        if !hunk.is_empty() {
            let start = |line: usize, count: usize| line - usize::from(count == 0);
            let (from, to) = (start(old, olds), start(new, news));
            // Writing to a String does not fail.
            let _ = writeln!(text, "@@ -{from},{olds} +{to},{news} @@");
        }
        for line in hunk {
            let (sign, line) = match line {
                Line::Same(line) => (' ', line),
                Line::Gone(line) => ('-', line),
                Line::New(line) => ('+', line),
            };
            let _ = writeln!(text, "{sign}{line}");
        }
        (old, new) = (old + olds, new + news);
        let far = (end..lines.len()).take_while(|it| !near(*it)).count();
        (old, new, at) = (old + far, new + far, end + far);
    }
    text
}

/// The longest common lines stay, everything else goes and comes.
fn compare<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let both = before.iter().zip(after);
    let head = both.take_while(|(one, other)| one == other).count();
    let (rest_before, rest_after) = (before.get(head..), after.get(head..));
    let (before_head, rest_before) = (before.get(..head), rest_before.unwrap_or_default());
    let rest_after = rest_after.unwrap_or_default();
    let both = rest_before.iter().rev().zip(rest_after.iter().rev());
    let tail = both.take_while(|(one, other)| one == other).count();
    let (middle_before, end) = rest_before.split_at(rest_before.len() - tail);
    let (middle_after, _) = rest_after.split_at(rest_after.len() - tail);
    let same = |lines: &[&'a str]| {
        lines
            .iter()
            .map(|line| Line::Same(line))
            .collect::<Vec<_>>()
    };
    let mut lines = same(before_head.unwrap_or_default());
    lines.extend(middle(middle_before, middle_after));
    lines.extend(same(end));
    lines
}

fn middle<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let width = after.len() + 1;
    if before.len().saturating_mul(width) > MOST_STEPS {
        let gone = before.iter().map(|line| Line::Gone(line));
        let new = after.iter().map(|line| Line::New(line));
        return gone.chain(new).collect();
    }
    // How many lines the ends of both texts have in common, from each pair of places on.
    let mut common = vec![0_u32; (before.len() + 1) * width];
    let at = |common: &[u32], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or(0);
    for (i, one) in before.iter().enumerate().rev() {
        for (j, other) in after.iter().enumerate().rev() {
            let best = if one == other {
                at(&common, i + 1, j + 1) + 1
            } else {
                at(&common, i + 1, j).max(at(&common, i, j + 1))
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    loop {
        match (before.get(i), after.get(j)) {
            (Some(one), Some(other)) if one == other => {
                lines.push(Line::Same(one));
                (i, j) = (i + 1, j + 1);
            }
            (Some(one), other)
                if other.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) =>
            {
                lines.push(Line::Gone(one));
                i += 1;
            }
            (_, Some(other)) => {
                lines.push(Line::New(other));
                j += 1;
            }
            (_, None) => return lines,
        }
    }
}

#[cfg(test)]
mod tests;
