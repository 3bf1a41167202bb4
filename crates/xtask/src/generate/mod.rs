//! `cargo xtask gen`: files that follow from the code, written or compared.

mod commands;
mod reference;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::workspace::root;

/// Folders that hold nothing but generated files.
const FOLDERS: [&str; 5] = [
    "crds",
    "rbac",
    "docs/book/src/reference",
    "charts/butler/files/crds",
    "charts/butler/files/rbac",
];

/// Content by path, relative to the root of the workspace.
type Files = BTreeMap<PathBuf, String>;

/// Writes what differs, or with `check` only reports it.
pub(crate) fn run(check: bool) -> Result<()> {
    let wanted = files()?;
    let held = held_files()?;
    let stale: BTreeSet<&PathBuf> = wanted
        .keys()
        .chain(held.keys())
        .filter(|path| wanted.get(*path) != held.get(*path))
        .collect();
    if check && !stale.is_empty() {
        let names: Vec<String> = stale
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        bail!(
            "generated files are out of date, run `cargo xtask gen`:\n  {}",
            names.join("\n  ")
        );
    }
    for path in &stale {
        write(path, wanted.get(*path))?;
    }
    println!("gen: {} files, {} changed", wanted.len(), stale.len());
    Ok(())
}

fn files() -> Result<Files> {
    let mut files = Files::new();
    for crd in butler_api::crd::all() {
        let name = crd
            .metadata
            .name
            .clone()
            .context("a definition has no name")?;
        files.insert(format!("crds/{name}.yaml").into(), yaml(&[&crd])?);
    }
    let permissions = [
        butler_controller::rbac::files(),
        butler_machine::provider::rbac::files(),
        butler_steward::rbac::files(),
    ];
    for (name, roles) in permissions.into_iter().flatten() {
        let roles: Vec<_> = roles.iter().collect();
        files.insert(format!("rbac/{name}.yaml").into(), yaml(&roles)?);
    }
    // A chart is packed with its own files only.
    let packed: Vec<_> = files
        .iter()
        .map(|(path, text)| (Path::new("charts/butler/files").join(path), text.clone()))
        .collect();
    files.extend(packed);
    for (name, text) in reference::pages(&butler_api::crd::all())? {
        files.insert(Path::new("docs/book/src/reference").join(name), text);
    }
    for program in [
        butler_cli::butleradm::command(),
        butler_cli::butlerctl::command(),
    ] {
        let path = format!("docs/book/src/reference/{}.md", program.get_name());
        files.insert(path.into(), commands::page(program)?);
    }
    Ok(files)
}

/// One YAML stream that says where it comes from.
fn yaml<T: Serialize>(objects: &[&T]) -> Result<String> {
    let mut text = String::from("# Made by `cargo xtask gen`; change the code, not this file.\n");
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object).context("could not write YAML")?);
    }
    Ok(text)
}

fn held_files() -> Result<Files> {
    let mut files = Files::new();
    for folder in FOLDERS {
        let path = root().join(folder);
        if !path.exists() {
            continue;
        }
        for entry in fs::read_dir(&path).with_context(|| format!("could not list {folder}"))? {
            let path = entry?.path();
            let text = fs::read_to_string(&path)
                .with_context(|| format!("could not read {}", path.display()))?;
            let relative = path.strip_prefix(root()).unwrap_or(&path);
            files.insert(relative.to_path_buf(), text);
        }
    }
    Ok(files)
}

/// Writes a file, or removes one that is no longer wanted.
fn write(path: &Path, content: Option<&String>) -> Result<()> {
    let target = root().join(path);
    let failed = || format!("could not write {}", path.display());
    match content {
        Some(content) => {
            fs::create_dir_all(target.parent().unwrap_or(&target)).with_context(failed)?;
            fs::write(&target, content).with_context(failed)
        }
        None => fs::remove_file(&target).with_context(failed),
    }
}
