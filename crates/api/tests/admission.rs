//! Every table of `tests/cases` against a real API server: what it must accept, refuse, default and keep.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod table;

use std::{fs, path::Path};

use butler_testkit::{Namespace, Server};
use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::Value;
use table::{Refusal, Table, contains, merged};

/// Requests under way at once.
const AT_ONCE: usize = 8;

/// One kind on one server.
struct Door {
    api: Api<DynamicObject>,
    namespace: Option<String>,
}

impl Door {
    /// The definition of the table's kind says what its API is.
    fn of(table: &Table, home: &Namespace) -> Self {
        let kind = table.base["kind"].as_str().expect("a base has a kind");
        let crd = butler_api::crd::all()
            .into_iter()
            .find(|crd| crd.spec.names.kind == kind)
            .unwrap_or_else(|| panic!("no definition of {kind}"));
        let version = &crd.spec.versions[0].name;
        let resource = ApiResource {
            group: crd.spec.group.clone(),
            version: version.clone(),
            api_version: format!("{}/{version}", crd.spec.group),
            kind: kind.to_owned(),
            plural: crd.spec.names.plural.clone(),
        };
        let client = home.server().client();
        if crd.spec.scope == "Namespaced" {
            let api = Api::namespaced_with(client, home.name(), &resource);
            Self {
                api,
                namespace: Some(home.name().to_owned()),
            }
        } else {
            Self {
                api: Api::all_with(client, &resource),
                namespace: None,
            }
        }
    }

    async fn create(&self, object: &Value, dry_run: bool) -> kube::Result<DynamicObject> {
        let mut object: DynamicObject =
            serde_json::from_value(object.clone()).expect("a case is an object");
        object.metadata.namespace.clone_from(&self.namespace);
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        self.api.create(&params, &object).await
    }

    /// Creates the object with its status, tries the change without keeping it, and removes the object again.
    async fn change(&self, object: &Value, change: &Value) -> kube::Result<DynamicObject> {
        let made = self.create(object, false).await?;
        if let Some(status) = object.get("status") {
            let status = serde_json::json!({ "status": status });
            self.api
                .patch_status(
                    &made.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(&status),
                )
                .await
                .expect("a case has a status that the kind knows");
        }
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let answer = self
            .api
            .patch(&made.name_any(), &params, &Patch::Merge(change))
            .await;
        self.api
            .delete(&made.name_any(), &DeleteParams::default())
            .await
            .expect("what was just created can be deleted");
        answer
    }
}

/// What is wrong with an answer, if anything.
fn judge<T>(answer: kube::Result<T>, refusal: Option<&Refusal>) -> Option<String> {
    match (answer, refusal) {
        (Ok(_), None) => None,
        (Ok(_), Some(_)) => Some("was accepted".to_owned()),
        (Err(kube::Error::Api(status)), Some(refusal)) => {
            refusal.misses(status.code, &status.message)
        }
        (Err(error), _) => Some(format!("was refused: {error}")),
    }
}

async fn faults_of(table: &Table, door: &Door) -> Vec<String> {
    let creations = table
        .valid
        .iter()
        .map(|case| (&case.name, merged(&table.base, &case.with), None))
        .chain(table.invalid.iter().map(|case| {
            (
                &case.name,
                merged(&table.base, &case.with),
                Some(&case.refusal),
            )
        }))
        .chain(
            table
                .documents
                .iter()
                .map(|case| (&case.name, case.object.clone(), None)),
        );
    let mut faults: Vec<String> = stream::iter(creations)
        .map(|(name, object, refusal)| async move {
            judge(door.create(&object, true).await, refusal).map(|fault| format!("{name}: {fault}"))
        })
        .buffered(AT_ONCE)
        .filter_map(|fault| async { fault })
        .collect()
        .await;
    // One after the other: they use the same name.
    for case in &table.updates {
        let object = merged(&table.base, &case.with);
        let fault = judge(
            door.change(&object, &case.change).await,
            case.refusal.as_ref(),
        );
        faults.extend(fault.map(|fault| format!("{}: {fault}", case.name)));
    }
    for case in &table.defaults {
        let fault = match door.create(&merged(&table.base, &case.with), true).await {
            Ok(made) => {
                let made = serde_json::to_value(made).expect("an answer is JSON");
                (!contains(&made, &case.expect)).then(|| format!("got {}", made["spec"]))
            }
            Err(error) => Some(format!("was refused: {error}")),
        };
        faults.extend(fault.map(|fault| format!("{}: {fault}", case.name)));
    }
    faults
}

#[tokio::test]
async fn the_api_server_accepts_and_refuses_what_the_tables_say() {
    let home = Server::shared().await.namespace("admission").await;
    let (mut faults, mut valid, mut invalid, mut kinds) = (Vec::new(), 0, 0, Vec::new());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    for entry in fs::read_dir(folder).expect("the folder of tables") {
        let path = entry.expect("a table").path();
        let table = Table::read(&path);
        let door = Door::of(&table, &home);
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let found = faults_of(&table, &door).await;
        faults.extend(found.into_iter().map(|fault| format!("{file}: {fault}")));
        valid += table.accepted();
        invalid += table.refused();
        kinds.push(table.base["kind"].as_str().unwrap_or_default().to_owned());
    }
    println!(
        "{valid} accepted and {invalid} refused objects of {} kinds",
        kinds.len()
    );
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(
        valid >= 60 && invalid >= 150,
        "only {valid} valid and {invalid} invalid objects"
    );
    for crd in butler_api::crd::all() {
        assert!(
            kinds.contains(&crd.spec.names.kind),
            "no table for {}",
            crd.spec.names.kind
        );
    }
}
