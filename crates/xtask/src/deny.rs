//! `cargo xtask deny`: licences and banned packages, by the rules of `deny.toml`.
//!
//! It reads the part of cargo-deny's file that needs no advisory database, so the check runs on a machine
//! that has nothing but a Rust toolchain; `cargo deny check` reads the same file.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::{Branch, root, tree};

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// Checks every package of the lock file and reports all violations at once.
pub(crate) fn check() -> Result<()> {
    let file = root().join("deny.toml");
    let text = fs::read_to_string(&file).context("could not read deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("could not understand deny.toml")?;
    let mut packages = tree(&["--workspace", "--edges", "normal,build,dev"])?;
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages.dedup_by(|a, b| (&a.name, &a.version) == (&b.name, &b.version));
    let faults: Vec<String> = packages
        .iter()
        .flat_map(|package| faults(&rules, package))
        .collect();
    if !faults.is_empty() {
        bail!(
            "dependencies that the rules of deny.toml refuse:\n  {}",
            faults.join("\n  ")
        );
    }
    println!("deny: {} packages keep the rules", packages.len());
    Ok(())
}

fn faults(rules: &Rules, package: &Branch) -> Vec<String> {
    let name = format!("{} {}", package.name, package.version);
    let banned = rules
        .bans
        .deny
        .iter()
        .filter(|banned| banned.name == package.name);
    let mut faults: Vec<String> = banned
        .map(|banned| format!("{name} is banned: {}", banned.reason))
        .collect();
    let licence = &package.license;
    if !is_allowed(licence, &rules.licenses.allow) {
        faults.push(format!(
            "{name} has the licence {licence:?}, which is not on the list"
        ));
    }
    faults
}

/// Whether a licence expression can be met with allowed licences: every part of an `AND`, one of an `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    let all_of = split_outside(&expression, " AND ");
    if all_of.len() > 1 {
        return all_of.iter().all(|part| is_allowed(part, allowed));
    }
    let one_of = split_outside(&expression, " OR ");
    if one_of.len() > 1 {
        return one_of.iter().any(|part| is_allowed(part, allowed));
    }
    let part = expression.trim();
    match part
        .strip_prefix('(')
        .and_then(|part| part.strip_suffix(')'))
    {
        Some(inner) => is_allowed(inner, allowed),
        None => allowed.contains(part),
    }
}

/// Splits at a word that does not stand inside brackets.
fn split_outside<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(word) {
        let before = text.get(..at).unwrap_or_default();
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + word.len();
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(expression: &str) -> bool {
        is_allowed(
            expression,
            &["MIT", "ISC", "Apache-2.0"].map(str::to_owned).into(),
        )
    }

    #[test]
    fn one_side_of_an_or_is_enough_and_both_sides_of_an_and_are_needed() {
        assert!(allowed("MIT OR GPL-3.0"));
        assert!(allowed("GPL-3.0/MIT"));
        assert!(allowed("ISC AND (Apache-2.0 OR OpenSSL)"));
        assert!(!allowed("MIT AND GPL-3.0"));
        assert!(!allowed("none"));
    }
}
