//! The command line of a component: Steward's flags, then the user's.

use crate::spec::Flags;

/// Flags whose repetition adds a value: Steward's stays beside the user's, after it. The first issuer signs
/// tokens, the others stay accepted, so a new issuer or key does not sign everybody out.
const ADDITIVE: [&str; 2] = ["service-account-issuer", "service-account-key-file"];

/// Flags of users that take the place of one of Steward's.
const DISPLACED: [(&str, &str); 1] = [("authorization-mode", "authorization-config")];

/// Steward's flags of a component, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Args(Vec<(&'static str, String)>);

impl Args {
    pub(super) fn set(&mut self, name: &'static str, value: impl std::fmt::Display) -> &mut Self {
        self.0.push((name, value.to_string()));
        self
    }

    pub(super) fn set_all<const N: usize>(
        &mut self,
        flags: [(&'static str, String); N],
    ) -> &mut Self {
        self.0.extend(flags);
        self
    }

    /// The command with all flags.
    pub(super) fn command(self, program: &str, user: &Flags) -> Vec<String> {
        let displaced = |name: &str| {
            let mut by = DISPLACED.iter().filter(|(ours, _)| *ours == name);
            by.any(|(_, theirs)| user.has(theirs)) || user.has(name)
        };
        let (additive, ours): (Vec<_>, Vec<_>) = self
            .0
            .into_iter()
            .filter(|(name, _)| ADDITIVE.contains(name) || !displaced(name))
            .partition(|(name, _)| ADDITIVE.contains(name) && user.has(name));
        let text = |(name, value): (&str, String)| format!("--{name}={value}");
        let mut command = vec![program.to_owned()];
        command.extend(ours.into_iter().map(text));
        command.extend(user.iter().map(|flag| flag.text().to_owned()));
        command.extend(additive.into_iter().map(text));
        command
    }
}
