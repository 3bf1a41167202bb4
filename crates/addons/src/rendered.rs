//! What Helm would do to a release, as it says in a dry run.

use serde::Deserialize;

/// The parts of a dry run. Any of them may hold a Secret, so none is ever printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Whether there is no release yet.
    pub is_first: bool,
    /// The objects of the release, as YAML.
    pub manifest: String,
    /// What runs before or after them, in Helm's order.
    pub hooks: Vec<Hook>,
}

/// An object that Helm makes while it is at work, and does not keep.
#[derive(Clone, PartialEq, Eq)]
pub struct Hook {
    /// When it runs, such as `pre-install`.
    pub events: Vec<String>,
    /// The object, as YAML.
    pub manifest: String,
}

#[derive(Deserialize)]
struct Answer {
    version: u32,
    manifest: String,
    #[serde(default)]
    hooks: Option<Vec<Said>>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    events: Vec<String>,
    manifest: String,
}

/// Reads the answer of a dry run of `helm upgrade --install --output json`; nothing where it is none. Hooks that run on
/// other occasions are left out.
pub fn read(answer: &str) -> Option<Rendered> {
    let answer: Answer = serde_json::from_str(answer).ok()?;
    let is_first = answer.version == 1;
    let occasion = if is_first { "-install" } else { "-upgrade" };
    let hooks = answer.hooks.unwrap_or_default().into_iter();
    let hooks = hooks.filter_map(|said| {
        let mut events = said.events;
        events.retain(|event| event.ends_with(occasion));
        (!events.is_empty()).then_some(Hook {
            events,
            manifest: said.manifest,
        })
    });
    Some(Rendered {
        is_first,
        manifest: answer.manifest,
        hooks: hooks.collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(version: u32) -> String {
        let hook =
            |name: &str, events: &[&str]| json!({"name": name, "manifest": name, "events": events});
        json!({"name": "r", "version": version, "manifest": "m", "hooks": [
            hook("both", &["pre-install", "pre-upgrade"]), hook("first", &["post-install"]),
            hook("test", &["test"]), hook("end", &["post-delete"]),
        ]})
        .to_string()
    }

    #[test]
    fn only_hooks_that_run_now_are_told_and_only_when() {
        let hooks = |version: u32| {
            let rendered = read(&answer(version)).unwrap();
            let told = rendered.hooks.into_iter();
            told.map(|hook| (hook.manifest, hook.events.join(",")))
                .collect::<Vec<_>>()
        };
        let pair = |name: &str, events: &str| (name.to_owned(), events.to_owned());
        assert_eq!(
            hooks(1),
            [pair("both", "pre-install"), pair("first", "post-install")]
        );
        assert_eq!(hooks(4), [pair("both", "pre-upgrade")]);
    }

    #[test]
    fn a_chart_without_hooks_has_none_and_what_is_no_answer_is_nothing() {
        let bare = r#"{"version": 1, "manifest": "", "hooks": null}"#;
        assert!(read(bare).unwrap().hooks.is_empty());
        assert!(read("Release does not exist").is_none());
    }
}
