//! Files that people hand in: YAML documents of Butler's kinds.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;

/// One document, and where it came from.
pub(crate) struct Document {
    pub(crate) file: PathBuf,
    pub(crate) value: Value,
}

impl Document {
    /// Its kind.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.value.get("kind").and_then(Value::as_str);
        kind.unwrap_or_default()
    }

    /// The object that it describes.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(&self.value).map_err(|error| {
            Failure::usage(format!(
                "{} in {} is not right: {error}",
                self.kind(),
                self.file.display()
            ))
        })
    }
}

/// Every document of some files; `-` is standard input.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for file in files {
        documents.extend(parse(file, &text(file)?)?);
    }
    Ok(documents)
}

fn text(file: &Path) -> Result<String, Failure> {
    let read = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| Failure::usage(format!("could not read {}: {error}", file.display())))
}

fn parse(file: &Path, text: &str) -> Result<Vec<Document>, Failure> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| Failure::usage(format!("{} is not YAML: {error}", file.display())))?;
    let named = values.into_iter().filter(|value| !value.is_null());
    Ok(named
        .map(|value| Document {
            file: file.to_owned(),
            value,
        })
        .collect())
}

/// The only cluster among the documents.
pub(crate) fn only_cluster(documents: &[Document]) -> Result<&Document, Failure> {
    let clusters: Vec<&Document> = documents
        .iter()
        .filter(|document| document.kind() == "TenantCluster")
        .collect();
    match clusters.as_slice() {
        [one] => Ok(one),
        [] => {
            let kinds: Vec<&str> = documents.iter().map(Document::kind).collect();
            Err(Failure::usage(format!(
                "no document is a TenantCluster (found: {}); its apiVersion is butler.butlerlabs.dev/v1alpha1",
                kinds.join(", ")
            )))
        }
        [..] => Err(Failure::usage(format!(
            "{} documents are TenantClusters: hand in one at a time",
            clusters.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> Vec<Document> {
        parse(Path::new("x.yaml"), text).unwrap()
    }

    #[test]
    fn one_cluster_is_found_among_other_documents() {
        let all =
            documents("kind: ProviderConfig\n---\nkind: TenantCluster\nmetadata: {name: a}\n---\n");
        assert_eq!(all.len(), 2);
        assert_eq!(only_cluster(&all).unwrap().kind(), "TenantCluster");
    }

    #[test]
    fn none_and_two_clusters_are_refused_with_what_was_found() {
        let none = only_cluster(&documents("kind: Team"))
            .err()
            .unwrap()
            .to_string();
        assert!(none.contains("found: Team"), "{none}");
        let two = documents("kind: TenantCluster\n---\nkind: TenantCluster");
        let two = only_cluster(&two).err().unwrap().to_string();
        assert!(two.contains("2 documents"), "{two}");
    }
}
