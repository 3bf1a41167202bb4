//! Namespaces that Butler makes, and how to tell them from others. Pure.

use std::collections::BTreeMap;

use butler_api::names;
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::ObjectMeta};

/// A label selector for everything that Butler manages.
pub fn ours_selector() -> String {
    format!("{}={}", names::MANAGED_BY, names::BUTLER)
}

/// Labels of an object that belongs to the object with this UID.
pub fn owned_labels(owner_uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::MANAGED_BY.to_owned(), names::BUTLER.to_owned()),
        (names::OWNER_UID.to_owned(), owner_uid.to_owned()),
    ])
}

/// Whether an object carries the labels of this owner.
pub fn is_owned_by(labels: &BTreeMap<String, String>, owner_uid: &str) -> bool {
    owned_labels(owner_uid)
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

/// A namespace of our own. No pods run in it, so the strictest standard costs nothing.
pub fn namespace(name: &str, mut labels: BTreeMap<String, String>, description: &str) -> Namespace {
    labels.insert(
        "pod-security.kubernetes.io/enforce".to_owned(),
        "restricted".to_owned(),
    );
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(
                names::DESCRIPTION.to_owned(),
                description.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// What is known of a namespace that an owner wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Nobody has it.
    Missing,
    /// The owner has it.
    Ours(Box<Namespace>),
    /// It is on its way out.
    Ending,
    /// Somebody else has it.
    Foreign,
}

impl Standing {
    /// Judges a namespace as it was seen.
    pub fn of(seen: Option<&Namespace>, owner_uid: &str) -> Self {
        match seen {
            None => Self::Missing,
            Some(namespace) if !is_owned_by(namespace.labels(), owner_uid) => Self::Foreign,
            Some(namespace) if namespace.metadata.deletion_timestamp.is_some() => Self::Ending,
            Some(namespace) => Self::Ours(Box::new(namespace.clone())),
        }
    }
}
