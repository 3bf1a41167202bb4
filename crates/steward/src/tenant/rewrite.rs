//! Writes every object of some resources once more, so that what is in the store was written by the API servers that run
//! now: with their key, or without one.
//!
//! An empty patch does it: an API server that reads something which its first provider did not write, writes it anew, and
//! leaves alone what it would write just so. It is done in steps, because a tenant may have very many objects; a process
//! that ends in between starts over and finds most of the work done.

use std::{collections::BTreeSet, time::Duration};

use butler_runtime::error::{Category, Classify as _};
use futures::{StreamExt as _, stream};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, ObjectList, PartialObjectMeta, Patch, PatchParams},
    core::ApiResource,
    discovery::{ApiGroup, Discovery, verbs},
};
use serde_json::json;

use super::{
    error::{TenantError, within},
    sync::FIELD_MANAGER,
};

/// Objects on one page.
const PAGE: u32 = 200;
/// Pages in one step.
const PAGES: usize = 5;
/// Writes under way at once: the tenant's own clients come first.
const AT_ONCE: usize = 8;
/// How long one call may take.
const CALL: Duration = Duration::from_secs(10);

/// How far the work has come.
#[derive(Debug)]
pub struct Cursor {
    /// What is still to be done, the current resource last.
    left: Vec<ApiResource>,
    /// Where the next page of it begins.
    next: Option<String>,
    /// Objects that were written once more.
    pub objects: u64,
}

/// A step of the work.
#[derive(Debug)]
pub enum Step {
    /// Everything was written once more: so many objects.
    Finished(u64),
    /// There is more to do.
    Unfinished(Cursor),
}

/// One step; `resources` are names and patterns as encryption knows them, such as `secrets`, `*.apps` and `*.*`.
///
/// # Errors
/// When the tenant could not be read, or an object could not be written. The cursor is lost then: beginning again costs
/// reads, and writes only what is left to write.
pub async fn step(
    client: &Client,
    resources: &[String],
    cursor: Option<Cursor>,
) -> Result<Step, TenantError> {
    let mut cursor = match cursor {
        Some(cursor) => cursor,
        None => Cursor {
            left: matching(client, resources).await?,
            next: None,
            objects: 0,
        },
    };
    for _ in 0..PAGES {
        let Some(resource) = cursor.left.last() else {
            return Ok(Step::Finished(cursor.objects));
        };
        let page = match page(client, resource, cursor.next.as_deref()).await {
            // The list took so long that the store forgot where it was.
            Err(error) if cursor.next.is_some() && error.category() == Category::NotFound => {
                cursor.next = None;
                continue;
            }
            page => page?,
        };
        cursor.next = page.metadata.continue_.filter(|next| !next.is_empty());
        cursor.objects += touch(client, resource, page.items).await?;
        if cursor.next.is_none() {
            cursor.left.pop();
        }
    }
    Ok(Step::Unfinished(cursor))
}

/// The resources that are stored and meant by the patterns.
async fn matching(client: &Client, patterns: &[String]) -> Result<Vec<ApiResource>, TenantError> {
    let groups: BTreeSet<&str> = patterns.iter().map(|pattern| group(pattern)).collect();
    let mut discovery = Discovery::new(client.clone());
    if !groups.contains("*") {
        // Asking for no more than needed: an aggregated API that is down would fail the whole answer.
        let groups: Vec<&str> = groups.into_iter().collect();
        discovery = discovery.filter(&groups);
    }
    let found = within(CALL, "discover", "APIs", "all", discovery.run()).await?;
    let mut resources = Vec::new();
    for (resource, abilities) in found.groups().flat_map(ApiGroup::recommended_resources) {
        let stored =
            abilities.supports_operation(verbs::LIST) && abilities.supports_operation(verbs::PATCH);
        let meant = patterns
            .iter()
            .any(|pattern| means(pattern, &resource.plural, &resource.group));
        if stored && meant {
            resources.push(resource);
        }
    }
    Ok(resources)
}

/// The group of a pattern; the core group is empty.
fn group(pattern: &str) -> &str {
    pattern.split_once('.').map_or("", |(_, group)| group)
}

fn means(pattern: &str, plural: &str, group_name: &str) -> bool {
    let (resource, group) = (
        pattern.split('.').next().unwrap_or_default(),
        group(pattern),
    );
    (resource == "*" || resource == plural) && (group == "*" || group == group_name)
}

async fn page(
    client: &Client,
    resource: &ApiResource,
    next: Option<&str>,
) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, TenantError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    params.continue_token = next.map(str::to_owned);
    within(
        CALL,
        "list",
        &resource.kind,
        "all",
        api.list_metadata(&params),
    )
    .await
}

/// Writes objects once more; how many there were.
async fn touch(
    client: &Client,
    resource: &ApiResource,
    objects: Vec<PartialObjectMeta<DynamicObject>>,
) -> Result<u64, TenantError> {
    let calls: Vec<_> = objects
        .into_iter()
        .map(|object| {
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
                None => Api::all_with(client.clone(), resource),
            };
            let kind = resource.kind.clone();
            async move {
                let name = object.name_any();
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                let nothing = Patch::Merge(json!({}));
                let call = api.patch_metadata(&name, &params, &nothing);
                match within(CALL, "rewrite", &kind, &name, call).await {
                    // What is gone needs no key.
                    Err(error) if error.category() == Category::NotFound => Ok(()),
                    answer => answer.map(drop),
                }
            }
        })
        .collect();
    let mut answers = stream::iter(calls).buffer_unordered(AT_ONCE);
    let mut done = 0;
    while let Some(answer) = answers.next().await {
        answer?;
        done += 1;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_the_api_server() {
        let table = [
            ("secrets", "secrets", "", true),
            ("secrets", "secrets", "example.com", false),
            ("widgets.example.com", "widgets", "example.com", true),
            ("widgets.example.com", "gadgets", "example.com", false),
            ("*.apps", "deployments", "apps", true),
            ("*.apps", "jobs", "batch", false),
            ("*.", "secrets", "", true),
            ("*.", "deployments", "apps", false),
            ("*.*", "jobs", "batch", true),
        ];
        for (pattern, plural, group, meant) in table {
            assert_eq!(
                means(pattern, plural, group),
                meant,
                "{pattern} {plural}.{group}"
            );
        }
    }
}
