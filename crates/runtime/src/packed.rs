//! Watched objects as text, for kinds of which many are held and few are looked at.
//!
//! A typed object has room for every field that it might have: one volume of a pod takes more than a kilobyte, and a
//! Deployment with a dozen of them ten times its text.

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error as _};

use crate::watch::{Feed, Watchable, strip};

/// An object as text, and what it is known by.
pub struct Packed<K> {
    /// Name, namespace, UID, version and labels.
    metadata: ObjectMeta,
    text: Box<str>,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> Packed<K> {
    /// The whole object.
    pub fn unpack(&self) -> K {
        serde_json::from_str(&self.text).expect("the text was written from such an object")
    }
}

impl<K: Resource + Serialize> Packed<K> {
    /// The object as text.
    pub fn pack(mut object: K) -> Result<Self, serde_json::Error> {
        strip(object.meta_mut());
        let text = serde_json::to_string(&object)?;
        let held = object.meta_mut();
        let metadata = ObjectMeta {
            name: held.name.take(),
            namespace: held.namespace.take(),
            uid: held.uid.take(),
            resource_version: held.resource_version.take(),
            labels: held.labels.take(),
            ..ObjectMeta::default()
        };
        Ok(Self {
            metadata,
            text: text.into_boxed_str(),
            kind: PhantomData,
        })
    }
}

impl<'de, K: Resource + DeserializeOwned + Serialize> Deserialize<'de> for Packed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::pack(K::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for Packed<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &K::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &K::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &K::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &K::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K> Clone for Packed<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            text: self.text.clone(),
            kind: PhantomData,
        }
    }
}

/// Without the text: it may be a Secret's.
impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.metadata;
        out.debug_struct("Packed")
            .field("name", &metadata.name)
            .field("namespace", &metadata.namespace)
            .field("resource_version", &metadata.resource_version)
            .finish_non_exhaustive()
    }
}

impl<K> Feed<Packed<K>>
where
    K: Watchable + Serialize,
{
    /// One object, unpacked, if it is there.
    pub fn open(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        self.get(namespace, name)
            .map(|packed| Arc::new(packed.unpack()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_packed_is_all_there_but_for_who_owns_which_field() {
        let whole = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "labels": {"l": "1"}, "annotations": {"x": "2"}, "managedFields": [{"manager": "m"}],
            },
            "data": {"key": "c2VjcmV0"},
        });
        let packed: Packed<Secret> = serde_json::from_value(whole.clone()).unwrap();
        assert_eq!(packed.name_any(), "a");
        assert_eq!(packed.labels().get("l").map(String::as_str), Some("1"));
        assert!(!format!("{packed:?}").contains("c2VjcmV0"));
        let mut expected: Secret = serde_json::from_value(whole).unwrap();
        expected.metadata.managed_fields = None;
        assert_eq!(packed.unpack(), expected);
    }

    #[test]
    fn what_is_no_such_object_is_refused_when_it_comes() {
        let wrong = json!({"metadata": {"name": "a"}, "data": "not a map"});
        assert!(serde_json::from_value::<Packed<Secret>>(wrong).is_err());
    }
}
