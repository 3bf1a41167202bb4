//! The custom resource definitions a test server starts with: ours and Cluster API's.

use std::{collections::BTreeSet, fmt::Write as _, fs};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Discovery,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{binaries::Binaries, server::Error};

/// `group/version/plural` of every resource that must be served before a server is handed out.
pub(crate) type Served = BTreeSet<String>;

/// A name for exactly these definitions on exactly these components.
pub(crate) fn key(binaries: &Binaries) -> Result<String, Error> {
    let mut hash = Sha256::new();
    hash.update(binaries.versions());
    for file in binaries.cluster_api_definitions()? {
        hash.update(fs::read(&file).map_err(Error::file("read", &file))?);
    }
    for definition in ours() {
        hash.update(definition.to_string());
    }
    let mut key = String::new();
    for byte in hash.finalize().iter().take(12) {
        let _ = write!(key, "{byte:02x}");
    }
    Ok(key)
}

/// Every definition, as it is applied.
pub(crate) fn all(binaries: &Binaries) -> Result<Vec<Value>, Error> {
    let mut definitions = ours();
    for file in binaries.cluster_api_definitions()? {
        let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        let mut definition: Value =
            serde_saphyr::from_str(&text).map_err(|source| Error::Manifest {
                file: file.clone(),
                source: Box::new(source),
            })?;
        keep_stored_version(&mut definition);
        definitions.push(definition);
    }
    Ok(definitions)
}

fn ours() -> Vec<Value> {
    let values = butler_api::crd::all().into_iter().map(serde_json::to_value);
    values
        .collect::<Result<_, _>>()
        .expect("a definition of ours is plain data")
}

/// Leaves only the stored version of a Cluster API kind.
///
/// No manager runs that could convert: an older version would be answered with the fields of the newer.
fn keep_stored_version(definition: &mut Value) {
    definition["spec"]["conversion"] = json!({ "strategy": "None" });
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.retain(|version| version["storage"] == true);
    }
}

/// What the given definitions make the server serve.
pub(crate) fn served(definitions: &[Value]) -> Served {
    let mut served = Served::new();
    for definition in definitions {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let versions = spec["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["served"] == true) {
            let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
            served.insert(format!("{group}/{}/{plural}", text(&version["name"])));
        }
    }
    served
}

/// Applies every definition, all at once: the server works on them side by side.
pub(crate) async fn install(client: &Client, definitions: &[Value]) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("butler-testkit").force();
    let applies = definitions.iter().map(|definition| {
        let (api, params) = (&api, &params);
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        async move {
            let applied = api.patch(name, params, &Patch::Apply(definition)).await;
            applied.map(drop).map_err(|source| Error::Install {
                name: name.to_owned(),
                source: Box::new(source),
            })
        }
    });
    futures::future::try_join_all(applies).await.map(drop)
}

/// Which of the resources are not served yet.
pub(crate) async fn missing(client: &Client, served: &Served) -> Result<Served, kube::Error> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let mut found = Served::new();
    for group in discovery.groups() {
        for version in group.versions() {
            for (resource, _) in group.versioned_resources(version) {
                found.insert(format!("{}/{version}/{}", group.name(), resource.plural));
            }
        }
    }
    Ok(served - &found)
}
