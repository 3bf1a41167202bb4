//! The addons of a cluster as files for Flux, laid out for one Git repository:
//!
//! ```text
//! clusters/NAME/infrastructure.yaml, apps.yaml    which folders Flux follows, and in which order
//! infrastructure/NAME/                            what other things stand on
//! apps/NAME/                                      everything else
//! ```
//!
//! Releases keep name and namespace, so Flux takes over those that stand. Secrets are named and never written.

mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    manifest::yaml,
    request::{ChartRef, Drift, ReleaseId},
};
use objects::{HELM_RELEASE, Source, config_map, helm_release, kustomization, listing};

/// The namespace of Flux, and the name of the `GitRepository` that it starts from: what `flux bootstrap` makes.
pub const FLUX: &str = "flux-system";
/// In the first line of every file, by which a later export knows its own.
pub const MARK: &str = "Written by `butlerctl cluster export`.";

/// The layers, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// What other things stand on.
    Infrastructure,
    /// Everything else.
    Apps,
}

impl Tier {
    /// Its folder.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Infrastructure => "infrastructure",
            Self::Apps => "apps",
        }
    }
}

/// A Secret with values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    /// Its name.
    pub secret: String,
    /// The key.
    pub key: String,
    /// The place that its content goes to as text.
    pub target: Option<String>,
}

/// A Secret for a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credentials {
    /// Where it is now.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// An addon with nothing left to look up.
#[derive(Clone, Debug)]
pub struct Addon {
    /// Its own name.
    pub name: String,
    /// Its layer.
    pub tier: Tier,
    /// The release that stands, or will.
    pub release: ReleaseId,
    /// The chart.
    pub chart: ChartRef,
    /// Whether an OCI registry is spoken to without TLS.
    pub plain_http: bool,
    /// Who may read the repository.
    pub credentials: Option<Credentials>,
    /// Values, without those of Secrets.
    pub values: Value,
    /// Secrets whose values are laid over them, in this order.
    pub values_from: Vec<SecretKey>,
    /// Names of addons that have to be ready first.
    pub needs: BTreeSet<String>,
    /// Whether the namespace is made when it is missing.
    pub create_namespace: bool,
    /// How long a step may take.
    pub timeout: Duration,
    /// How many revisions are kept.
    pub history: u32,
    /// What to do about drift.
    pub drift: Drift,
    /// Whether it is left alone.
    pub paused: bool,
    /// The version that runs.
    pub installed: Option<String>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its path in the repository.
    pub path: String,
    /// All of it.
    pub content: String,
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Export {
    /// The files.
    pub files: Vec<File>,
    /// The objects of the addons alone, in the order they are needed.
    pub objects: Vec<Value>,
    /// What people have to see to themselves.
    pub notes: Vec<String>,
}

/// Why a cluster cannot be written down.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// There is nothing.
    #[error("the cluster has no addons")]
    Empty,
    /// An addon waits for one that is not there.
    #[error("addon {addon} waits for {missing}, which this cluster does not have")]
    Missing {
        /// Who waits.
        addon: String,
        /// For whom.
        missing: String,
    },
    /// The folder leads out of the repository.
    #[error("{0:?} is no folder of a repository: give one such as clusters/demo")]
    Folder(String),
}

/// All files for a cluster; `folder` is the one that Flux follows.
pub fn export(cluster: &str, folder: &str, addons: &[Addon]) -> Result<Export, ExportError> {
    let folder = checked(folder)?;
    if addons.is_empty() {
        return Err(ExportError::Empty);
    }
    let tiers = tiers(addons)?;
    let mut sources: BTreeMap<Source, Tier> = BTreeMap::new();
    for (addon, tier) in addons.iter().zip(&tiers) {
        let lowest = sources.entry(Source::of(addon)).or_insert(*tier);
        *lowest = (*lowest).min(*tier);
    }
    let (mut files, mut objects) = (Vec::new(), Vec::new());
    let present: BTreeSet<Tier> = tiers.iter().copied().collect();
    for tier in &present {
        let below = present.iter().find(|other| *other < tier).copied();
        files.push(File {
            path: format!("{folder}/{}.yaml", tier.folder()),
            content: text(&[kustomization(cluster, *tier, below)]),
        });
        let own = addons.iter().zip(&tiers).filter(|(_, at)| *at == tier);
        let mut parts: Vec<(String, Vec<Value>)> = own
            .map(|(addon, _)| (addon.name.clone(), of(addon)))
            .collect();
        parts.sort_by(|one, other| one.0.cmp(&other.0));
        let sources = sources.iter().filter(|(_, at)| *at == tier);
        let sources: Vec<Value> = sources.map(|(source, _)| source.object()).collect();
        let folder = format!("{}/{cluster}", tier.folder());
        files.extend(layer(&folder, &sources, &parts));
        objects.extend(sources);
        objects.extend(parts.into_iter().flat_map(|(_, objects)| objects));
    }
    let notes = notes(addons);
    files.push(File {
        path: format!("{folder}/README.md"),
        content: objects::read_me(cluster, folder, &notes),
    });
    Ok(Export {
        files,
        objects,
        notes,
    })
}

/// A folder inside of the repository, without anything that leads out of it.
fn checked(folder: &str) -> Result<&str, ExportError> {
    let whole = folder.trim_end_matches('/');
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if whole.split('/').any(odd) || !whole.chars().all(plain) {
        return Err(ExportError::Folder(folder.to_owned()));
    }
    Ok(whole)
}

/// The layer of each. What a lower one waits for comes down to it: Flux starts the upper layer once the lower is ready.
fn tiers(addons: &[Addon]) -> Result<Vec<Tier>, ExportError> {
    let by_name: BTreeMap<&str, usize> = addons
        .iter()
        .enumerate()
        .map(|(at, addon)| (addon.name.as_str(), at))
        .collect();
    let mut tiers: Vec<Tier> = addons.iter().map(|addon| addon.tier).collect();
    let mut open: Vec<usize> = (0..addons.len()).collect();
    while let Some(at) = open.pop() {
        let (Some(addon), Some(tier)) = (addons.get(at), tiers.get(at).copied()) else {
            continue;
        };
        for need in &addon.needs {
            let Some(&needed) = by_name.get(need.as_str()) else {
                return Err(ExportError::Missing {
                    addon: addon.name.clone(),
                    missing: need.clone(),
                });
            };
            if let Some(held) = tiers.get_mut(needed).filter(|held| **held > tier) {
                *held = tier;
                open.push(needed);
            }
        }
    }
    Ok(tiers)
}

/// The files of one layer.
fn layer(folder: &str, sources: &[Value], parts: &[(String, Vec<Value>)]) -> Vec<File> {
    let mut files = Vec::new();
    if !sources.is_empty() {
        files.push(("sources".to_owned(), sources.to_vec()));
    }
    let parts = parts.iter().cloned();
    // An addon may be called `sources` or `kustomization`.
    files.extend(parts.map(|(name, objects)| (format!("release-{name}"), objects)));
    let names: Vec<String> = files
        .iter()
        .map(|(name, _)| format!("{name}.yaml"))
        .collect();
    let mut files: Vec<File> = files
        .iter()
        .map(|(name, objects)| File {
            path: format!("{folder}/{name}.yaml"),
            content: text(objects),
        })
        .collect();
    files.insert(
        0,
        File {
            path: format!("{folder}/kustomization.yaml"),
            content: text(&[listing(&names)]),
        },
    );
    files
}

/// The objects of one addon.
fn of(addon: &Addon) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut release = helm_release(addon);
    let inline = addon.values_from.is_empty();
    let has_values = addon.values.as_object().is_some_and(|all| !all.is_empty());
    if has_values && inline {
        crate::values::lay_over(&mut release, &json!({"spec": {"values": addon.values}}));
    } else if has_values {
        objects.push(config_map(addon));
    }
    objects.push(release);
    objects
}

/// Documents of one file.
fn text(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(yaml).collect();
    format!("# {MARK}\n{}", documents.join("---\n"))
}

fn notes(addons: &[Addon]) -> Vec<String> {
    let mut notes = BTreeSet::new();
    for addon in addons {
        let name = &addon.name;
        for SecretKey {
            secret,
            key,
            target,
        } in &addon.values_from
        {
            notes.insert(format!(
                "{HELM_RELEASE} {name} reads values from Secret {secret}, key {key}: make it in namespace {FLUX} of the cluster"
            ));
            if let Some(target) = target {
                notes.insert(format!(
                    "{HELM_RELEASE} {name} reads key {key} of Secret {secret} for {target} as `helm --set` would: put \
                     the content into quotes, and a backslash before each comma, or set `literal: true` where Flux has it"
                ));
            }
        }
        if let Some(Credentials {
            namespace,
            name: secret,
        }) = &addon.credentials
        {
            notes.insert(format!(
                "{} asks for a password: make Secret {secret} in namespace {FLUX} of the cluster like that in \
                 namespace {namespace} of the management cluster; where it has ca.crt, name it as certSecretRef too",
                addon.chart.repository
            ));
        }
        if addon.paused {
            notes.insert(format!(
                "{HELM_RELEASE} {name} is paused and so suspended: what waits for its layer waits until it is resumed"
            ));
        }
        if let Some(digest) = &addon.chart.digest {
            notes.insert(format!(
                "the chart of {HELM_RELEASE} {name} was checked against {digest}; Flux does not check it"
            ));
        }
        let (wanted, runs) = (&addon.chart.version, addon.installed.as_ref());
        if let Some(runs) = runs.filter(|runs| *runs != wanted) {
            notes.insert(format!(
                "{HELM_RELEASE} {name} asks for version {wanted} and {runs} runs: Flux will change it"
            ));
        }
    }
    notes.into_iter().collect()
}

#[cfg(test)]
mod tests;
