//! `cargo xtask layers`: arrows point one way, and pure crates reach no client, clock, randomness or async.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::workspace::{Metadata, Package, root, tree};

/// The layers, lowest first; a crate depends on its own layer and those below it.
const LAYERS: [&str; 3] = ["pure", "io", "edge"];

/// Packages that bring a client, an async runtime, the network or chance.
const IMPURE: [&str; 14] = [
    "kube",
    "kube-client",
    "kube-runtime",
    "tokio",
    "hyper",
    "reqwest",
    "axum",
    "tower",
    "mio",
    "futures-util",
    "rand",
    "getrandom",
    "fastrand",
    "uuid",
];

/// Words that mean a clock, a file, a socket, a process, a thread or async in the source of a pure crate.
const IMPURE_WORDS: [&str; 11] = [
    "async fn",
    "async move",
    ".await",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "std::fs",
    "std::process",
    "std::env",
    "std::thread",
    "TcpStream",
];

/// Checks every crate and reports all violations at once.
pub(crate) fn check() -> Result<()> {
    let metadata = Metadata::load()?;
    let mut faults = Vec::new();
    for package in metadata.members() {
        match package.layer().and_then(rank) {
            None => faults.push(format!(
                "{}: declare [package.metadata.butler] layer = one of {LAYERS:?}",
                package.name
            )),
            Some(rank) => faults.extend(arrows(&metadata, package, rank)),
        }
        if package.layer() == Some("pure") {
            faults.extend(impure_packages(package)?);
            faults.extend(impure_sources(&package.sources())?);
        }
    }
    if !faults.is_empty() {
        bail!("the layer rule is broken:\n  {}", faults.join("\n  "));
    }
    println!(
        "layers: {} crates keep the rule",
        metadata.members().count()
    );
    Ok(())
}

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

/// Dependencies on crates of a higher layer.
fn arrows(metadata: &Metadata, package: &Package, own: usize) -> Vec<String> {
    let packages = metadata.by_id();
    let needs = metadata.needs();
    let needed = needs.get(package.id.as_str()).into_iter().flatten();
    needed
        .filter_map(|id| packages.get(id))
        .filter(|other| other.layer().and_then(rank).is_some_and(|rank| rank > own))
        .map(|other| {
            format!(
                "{} must not depend on {}, which is above it",
                package.name, other.name
            )
        })
        .collect()
}

/// Impure packages that a pure crate reaches, each with one way there.
fn impure_packages(package: &Package) -> Result<Vec<String>> {
    let branches = tree(&[
        "--package",
        &package.name,
        "--edges",
        "normal",
        "--target",
        "x86_64-unknown-linux-gnu",
    ])?;
    let mut way: Vec<String> = Vec::new();
    let mut faults = Vec::new();
    for branch in branches {
        way.truncate(branch.depth);
        way.push(branch.name.clone());
        if IMPURE.contains(&branch.name.as_str()) {
            faults.push(format!(
                "{} is pure and reaches {}",
                package.name,
                way.join(" -> ")
            ));
        }
    }
    Ok(faults)
}

fn impure_sources(folder: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in rust_files(folder)? {
        let text = fs::read_to_string(&file)
            .with_context(|| format!("could not read {}", file.display()))?;
        let shown = file
            .strip_prefix(root())
            .unwrap_or(&file)
            .display()
            .to_string();
        for (number, line) in impure_lines(&text) {
            faults.push(format!("{shown}:{number}: {line}"));
        }
    }
    Ok(faults)
}

/// Lines of code, not of comments or tests, that hold an impure word.
fn impure_lines(text: &str) -> Vec<(usize, &str)> {
    let code = text
        .lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    code.map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.starts_with("//"))
        .filter(|(_, line)| IMPURE_WORDS.iter().any(|word| line.contains(word)))
        .collect()
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_in_code_is_found_and_one_in_a_comment_or_a_test_is_not() {
        let text = "// SystemTime is not read here\nlet t = SystemTime::now();\n\
                    #[cfg(test)]\nmod tests { fn f() { std::fs::read(\"x\"); } }\n";
        assert_eq!(impure_lines(text), [(2, "let t = SystemTime::now();")]);
    }
}
