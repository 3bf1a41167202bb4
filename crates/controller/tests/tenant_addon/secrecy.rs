//! Secrets of addons are in Secrets and nowhere else: not in what is logged, not on a command line or in an environment of
//! Helm, not in an object, not in a file that stays. Neither when all goes well nor when somebody quotes them.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use butler_api::butler::ManagementAddon;
use butler_runtime::sync::lock;
use butler_testkit::{Options, PATIENCE, wait_for};
use k8s_openapi::{ByteString, api::batch::v1::Job};
use kube::{
    Api, Client, Discovery,
    api::{DeleteParams, DynamicObject, ListParams},
    discovery::verbs,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::{repository::helm, scene::Scene, stage};

/// What nobody may see. The first is another text wherever it is quoted, the second opens the repository.
const PASSWORDS: [&str; 2] = ["tr0ub4dor \"and\" 3 more", "sesame-open"];
/// A password that the repository does not take.
const WRONG: &str = "open-says-me-instead";

/// Quotes the password wherever the one who installs it asks for that.
const LOUD: &str = r#"
{{- if eq .Values.mode "fail" }}{{ fail (printf "%s, %q or %s is no password" .Values.password .Values.password (b64enc .Values.password)) }}{{ end }}
{{- if eq .Values.mode "label" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: loud, labels: {password: {{ .Values.password | quote }}}}
{{- end }}
{{- if eq .Values.mode "job" }}
apiVersion: batch/v1
kind: Job
metadata: {name: talkative}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "registry.invalid/app:1", env: [{name: PASSWORD, value: {{ .Values.password | quote }}}]}]
{{- end }}
"#;
const SCHEMA: &str = r#"{"properties": {"strict": {"type": "string", "pattern": "^[0-9]*$"}}}"#;

/// Writes that go to a buffer.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Hears what this thread logs, which is all that the test's controllers log.
    fn listen(&self) -> impl Drop {
        let log = self.clone();
        let heard = tracing_subscriber::fmt()
            .with_env_filter("debug,butler_helm=trace,butler_controller=trace,butler_runtime=trace")
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        heard.set_default()
    }

    fn text(&self) -> String {
        String::from_utf8(lock(&self.0).clone()).unwrap()
    }
}

/// Helm behind a script that notes how it is started.
struct Watched {
    folder: TempDir,
}

impl Watched {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/sh\n{{ printf '%s\\n' \"$@\"; env; }} >> {notes}\nexec {helm} \"$@\"\n",
            notes = folder.path().join("notes").display(),
            helm = helm().display(),
        );
        let program = folder.path().join("helm");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("helm")
    }

    fn notes(&self) -> String {
        fs::read_to_string(self.folder.path().join("notes")).unwrap()
    }
}

/// The ways to write what nobody may see, the keys of the tenant among them.
fn secrets(scene: &Scene) -> BTreeSet<String> {
    let kubeconfig = fs::read_to_string(scene.server.kubeconfig()).unwrap();
    let kubeconfig: Value = serde_saphyr::from_str(&kubeconfig).unwrap();
    let user = &kubeconfig["users"][0]["user"];
    let keys = ["client-key-data", "token"].map(|field| user[field].as_str());
    let keys: Vec<String> = keys.into_iter().flatten().map(str::to_owned).collect();
    assert!(!keys.is_empty(), "the tenant's kubeconfig carries a key");
    let mut all: BTreeSet<String> = keys.into_iter().collect();
    for password in PASSWORDS.into_iter().chain([WRONG]) {
        let encoded = json!(ByteString(password.as_bytes().to_vec()));
        let quoted = json!(password).to_string();
        all.insert(password.to_owned());
        all.insert(quoted.trim_matches('"').to_owned());
        all.insert(encoded.as_str().unwrap().to_owned());
    }
    // ada:sesame-open, and the beginning of every token.
    all.extend(["YWRhOnNlc2FtZS1vcGVu".to_owned(), "eyJhbGciOi".to_owned()]);
    all
}

fn assert_silent(what: &str, text: &str, secrets: &BTreeSet<String>) {
    for secret in secrets {
        if let Some(at) = text.find(secret) {
            let from = text.floor_char_boundary(at.saturating_sub(300));
            let around = &text[from..text.floor_char_boundary(at + 100)];
            panic!("{secret:?} in {what}: {around}");
        }
    }
}

/// Every object but Secrets, and but the one whose chart puts a password into it.
async fn objects(client: &Client) -> String {
    let found = Discovery::new(client.clone()).run().await.unwrap();
    let mut text = String::new();
    for group in found.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if resource.kind == "Secret" || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in api.list(&ListParams::default()).await.unwrap() {
                if object.metadata.name.as_deref() != Some("talkative") {
                    text.push_str(&serde_json::to_string(&object).unwrap());
                }
            }
        }
    }
    text
}

fn files(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, text);
        } else {
            text.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap()));
        }
    }
}

async fn give(scene: &Scene, namespace: &str, name: &str, data: Value) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": {"name": name, "namespace": namespace,
            "labels": {"butler.butlerlabs.dev/for-addons": "true"}}});
    scene.server.apply_yaml(&secret.to_string()).await;
}

fn loud(mode: &str, target: &str) -> Value {
    json!({"spec": {
        "helm": {"chart": "loud"}, "values": {"mode": mode},
        "valuesFrom": [{"secret": "values", "key": "password", "targetPath": target}],
    }})
}

/// The chart that quotes, and Secrets with everything that it could quote.
async fn prepare(scene: &Scene) {
    let chart = tempfile::tempdir().unwrap();
    fs::create_dir(chart.path().join("templates")).unwrap();
    for (file, content) in [
        ("Chart.yaml", "{apiVersion: v2, name: loud, version: 1.0.0}"),
        ("values.yaml", "{mode: '', password: '', strict: ''}"),
        ("values.schema.json", SCHEMA),
        ("templates/loud.yaml", LOUD),
    ] {
        fs::write(chart.path().join(file), content).unwrap();
    }
    scene.repository.add(chart.path(), "1.0.0");
    let values = json!({"password": PASSWORDS[0]});
    for namespace in [scene.namespace.as_str(), "butler-system"] {
        give(scene, namespace, "values", values.clone()).await;
        let right = json!({"username": "ada", "password": PASSWORDS[1]});
        give(scene, namespace, "repository", right).await;
    }
    let wrong = json!({"username": "ada", "password": WRONG});
    give(scene, &scene.namespace, "wrong", wrong).await;
}

/// An addon of the platform, which fails like one of a tenant.
async fn fail_on_the_platform(scene: &Scene) {
    let mut addon = loud("fail", "password");
    let helm = json!({"repository": scene.repository.url(), "chart": "loud",
        "credentialsRef": {"name": "repository"}});
    butler_addons::values::lay_over(
        &mut addon,
        &json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ManagementAddon",
            "metadata": {"name": "platform"}, "spec": {"version": "1.0.0", "helm": helm}}),
    );
    scene.server.apply_yaml(&addon.to_string()).await;
    let addons: Api<ManagementAddon> = Api::all(scene.server.client());
    let reason = "InvalidValues";
    wait_for(&addons, "platform", reason, PATIENCE, |addon| {
        let conditions = addon.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|held| held.reason == reason)
    })
    .await;
}

/// A Job that cannot be put back: it is another one, and the API server quotes the one that it was.
async fn drift_for_good(scene: &Scene) {
    let jobs: Api<Job> = Api::namespaced(scene.server.client(), "job");
    let gone = jobs.delete("talkative", &DeleteParams::background()).await;
    gone.unwrap();
    let other = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "talkative", "namespace": "job"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "registry.invalid/other:1"}]}}}});
    scene.server.apply_yaml(&other.to_string()).await;
    let look = json!({"metadata": {"labels": {"look": "again"}}});
    scene.change("job", &look).await;
}

#[tokio::test]
async fn a_secret_is_found_nowhere_but_in_secrets_whether_helm_succeeds_or_quotes_it() {
    let scene = Scene::new(stage::server(Options::default()).await).await;
    prepare(&scene).await;
    let (log, watched) = (Log::default(), Watched::new());
    let listening = log.listen();
    let controllers = scene.run_by(watched.program());

    let from = json!([{"secret": "values", "key": "password", "targetPath": "password"}]);
    scene
        .add("fine", &json!({"spec": {"valuesFrom": from}}))
        .await;
    for (name, more, reason) in [
        ("fail", loud("fail", "password"), "InvalidValues"),
        ("label", loud("label", "password"), "ObjectsRefused"),
        ("schema", loud("", "strict"), "InvalidValues"),
        (
            "forbidden",
            json!({"spec": {"helm": {"credentialsRef": {"name": "wrong"}}}}),
            "RepositoryForbidden",
        ),
        ("job", loud("job", "password"), "Installed"),
    ] {
        scene.add(name, &more).await;
        let addon = scene.until(name, "Installed", reason).await;
        let said = addon.status.unwrap().message.unwrap();
        let quotes = ["fail", "label", "schema"].contains(&name);
        assert!(!quotes || said.contains("***"), "{name}: {said}");
    }
    scene.until("fine", "Ready", "Ready").await;
    fail_on_the_platform(&scene).await;
    drift_for_good(&scene).await;
    let addon = scene.until("job", "Installed", "ObjectsRefused").await;
    let said = addon.status.unwrap().message.unwrap();
    assert!(said.contains("field is immutable"), "{said}");
    let seen = objects(&scene.server.client()).await;
    drop(controllers);
    drop(listening);

    let secrets = secrets(&scene);
    let (logged, started) = (log.text(), watched.notes());
    assert!(
        logged.contains("tenant-addon"),
        "the log was heard: {logged}"
    );
    for call in ["upgrade", "pull", "HELM_REPOSITORY_CONFIG="] {
        assert!(started.contains(call), "Helm was watched: {started}");
    }
    assert!(seen.contains("RepositoryForbidden"), "objects were read");
    assert_silent("the log", &logged, &secrets);
    assert_silent("the command lines of Helm", &started, &secrets);
    assert_silent("an object", &seen, &secrets);
    let mut left = String::new();
    files(scene.folder.path(), &mut left);
    assert_silent("a file that stays", &left, &secrets);
}
