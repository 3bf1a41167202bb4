//! The repository that Flux in a cluster follows: an addon of its own, after Flux.

use butler_api::butler::{
    addon_options::ValuesSource,
    tenant_cluster::{Addons, GitopsProvider, GitopsRepository},
};
use serde_json::json;

use super::{Role, Version, Wanted};
use crate::spec::Raw;

const SSH: &str = "ssh://";

/// What tells Flux, where Flux and a repository are asked for.
pub(super) fn wanted(asked: &Addons) -> Option<Wanted> {
    let gitops = asked.gitops.as_ref().filter(|gitops| gitops.enabled)?;
    let repository = gitops.repository.as_ref()?;
    if gitops.provider == Some(GitopsProvider::Argocd) {
        return None;
    }
    let url = address(&repository.url);
    let mut values = json!({"url": url, "branch": repository.branch});
    if let (Some(path), Some(values)) = (&repository.path, values.as_object_mut()) {
        values.insert("path".to_owned(), json!(path));
    }
    Some(Wanted {
        role: Role::Repository,
        addon: "flux-sync",
        version: Version::Catalogue,
        values,
        values_from: credentials(repository, &url),
    })
}

/// The repository that people have to name to the tool themselves: Argo CD is told by objects of its own.
pub(super) fn by_hand(raw: &Raw<'_>) -> Option<String> {
    let gitops = raw.cluster.spec.addons.as_ref()?.gitops.as_ref()?;
    let gitops = Some(gitops).filter(|gitops| gitops.enabled)?;
    let is_argo = gitops.provider == Some(GitopsProvider::Argocd);
    let repository = gitops.repository.as_ref().filter(|_| is_argo)?;
    Some(repository.url.clone())
}

/// Flux knows no short form such as `git@git.example.com:app.git`.
fn address(url: &str) -> String {
    match url.split_once(':') {
        Some((host, path)) if !url.contains("://") => {
            format!("{SSH}{host}/{}", path.trim_start_matches('/'))
        }
        _ => url.to_owned(),
    }
}

/// A deploy key where the address asks for one, a name and a token everywhere else: Flux's own keys of such a Secret.
fn credentials(repository: &GitopsRepository, url: &str) -> Vec<ValuesSource> {
    let Some(secret) = &repository.secret_ref else {
        return Vec::new();
    };
    let keys = if url.starts_with(SSH) {
        ["identity", "known_hosts"]
    } else {
        ["username", "password"]
    };
    let source = |key: &str| ValuesSource {
        secret: secret.name.clone(),
        key: key.to_owned(),
        target_path: Some(format!("credentials.{key}")),
    };
    keys.into_iter().map(source).collect()
}
