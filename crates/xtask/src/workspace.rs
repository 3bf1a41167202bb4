//! What cargo knows about the workspace: its packages, their layers, and who depends on whom.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The part of `cargo metadata` that the checks read.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    metadata: Option<PackageMetadata>,
}

#[derive(Deserialize)]
struct PackageMetadata {
    butler: Option<ButlerMetadata>,
}

#[derive(Deserialize)]
struct ButlerMetadata {
    layer: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Metadata {
    /// Asks cargo what it resolved.
    pub(crate) fn load() -> Result<Self> {
        let text = cargo_says(&["metadata", "--format-version", "1", "--locked"])?;
        serde_json::from_str(&text).context("could not read the answer of cargo metadata")
    }

    /// The packages of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// What each package needs to run: neither build nor test dependencies.
    pub(crate) fn needs(&self) -> BTreeMap<&str, Vec<&str>> {
        let is_normal =
            |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let nodes = self.resolve.nodes.iter();
        nodes
            .map(|node| {
                let needed = node
                    .deps
                    .iter()
                    .filter(is_normal)
                    .map(|dep| dep.pkg.as_str());
                (node.id.as_str(), needed.collect())
            })
            .collect()
    }

    /// The packages by their ids.
    pub(crate) fn by_id(&self) -> BTreeMap<&str, &Package> {
        self.packages
            .iter()
            .map(|package| (package.id.as_str(), package))
            .collect()
    }
}

/// A line of `cargo tree`, which unlike `cargo metadata` leaves out what no feature turns on.
pub(crate) struct Branch {
    /// How far from the root it is.
    pub(crate) depth: usize,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: String,
}

/// Runs `cargo tree` with these arguments; nothing is left out as seen before.
pub(crate) fn tree(arguments: &[&str]) -> Result<Vec<Branch>> {
    let text = cargo_says(
        &[
            &[
                "tree", "--locked", "--prefix", "depth", "--format", " {p}|{l}",
            ],
            arguments,
        ]
        .concat(),
    )?;
    let branches = text.lines().filter(|line| !line.is_empty()).map(|line| {
        let (depth, rest) = line.split_once(' ').context("no depth")?;
        let (package, license) = rest.split_once('|').context("no licence")?;
        let mut words = package.split_whitespace();
        Ok(Branch {
            depth: depth.parse()?,
            name: words.next().unwrap_or_default().to_owned(),
            version: words.next().unwrap_or_default().to_owned(),
            license: license.trim_end_matches(" (*)").to_owned(),
        })
    });
    branches
        .collect::<Result<_>>()
        .context("could not read the answer of cargo tree")
}

fn cargo_says(arguments: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .with_context(|| format!("could not run cargo {}", arguments.join(" ")))?;
    ensure!(
        output.status.success(),
        "cargo {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("cargo did not answer in UTF-8")
}

impl Package {
    /// The layer that the manifest declares.
    pub(crate) fn layer(&self) -> Option<&str> {
        self.metadata
            .as_ref()?
            .butler
            .as_ref()
            .map(|butler| butler.layer.as_str())
    }

    /// The folder of the package's sources.
    pub(crate) fn sources(&self) -> PathBuf {
        self.manifest_path.with_file_name("src")
    }
}
