//! What an addon would change, by the real Helm on a real API server.

use std::{fs, path::Path, process::Command as Program};

use serde_json::{Value, json};

use crate::{
    program::{Desk, Ran, bare, run},
    repository::{Repository, helm},
};

/// A cluster whose API server is the test's own, and a chart for it.
struct Scene {
    desk: Desk,
    repository: Repository,
}

impl Scene {
    async fn new() -> Self {
        let desk = Desk::with(json!({})).await;
        let space = &desk.namespace;
        let kubeconfig = std::fs::read_to_string(space.server().kubeconfig()).unwrap();
        let label = json!({"butler.butlerlabs.dev/for-addons": "true"});
        for (name, data) in [
            ("tenant", json!({"value": kubeconfig})),
            (
                "repository",
                json!({"username": "ada", "password": "sesame-open"}),
            ),
            ("web", json!({"password": "hunter2-and-more"})),
        ] {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
                "metadata": {"name": name, "labels": label}});
            space.apply_yaml(&secret.to_string()).await;
        }
        let status =
            json!({"tenantNamespace": space.name(), "kubeconfigSecretRef": {"name": "tenant"}});
        desk.report(status).await;
        let repository = Repository::start().await;
        let scene = Self { desk, repository };
        let addon = scene.addon();
        scene.desk.namespace.apply_yaml(&addon.to_string()).await;
        scene
    }

    /// Its release and namespace are the test's own: the API server is shared.
    fn release(&self) -> String {
        format!("web-{}", self.desk.namespace.name())
    }

    fn addon(&self) -> Value {
        let release = self.release();
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
            "metadata": {"name": "web"},
            "spec": {"clusterRef": {"name": "my-cluster"}, "version": "1.0.0",
                "values": {"greeting": "hello"},
                "valuesFrom": [{"secret": "web", "key": "password", "targetPath": "password"}],
                "helm": {"repository": self.repository.url(), "chart": "small", "releaseName": release,
                    "credentialsRef": {"name": "repository"}}},
        })
    }

    async fn plan(&self, arguments: &[&str]) -> Ran {
        let mut command = bare();
        command
            .env("KUBECONFIG", self.desk.namespace.server().kubeconfig())
            .args(["-n", self.desk.namespace.name(), "addon", "plan"])
            .args(arguments)
            .arg("--helm")
            .arg(helm());
        run(command).await
    }

    /// Installs what the controller would.
    fn install(&self, archive: &Path) {
        let release = self.release();
        let ran = Program::new(helm())
            .args(["install", &release])
            .arg(archive)
            .args(["--namespace", &release, "--create-namespace"])
            .args(["--set", "greeting=hello,password=hunter2-and-more"])
            .arg("--kubeconfig")
            .arg(self.desk.namespace.server().kubeconfig())
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
}

#[tokio::test]
async fn a_plan_shows_what_comes_changes_and_goes_and_nothing_of_it_happens() {
    let scene = Scene::new().await;
    let release = scene.release();
    let text = scene.plan(&["web", "--diff"]).await.good();
    assert!(
        text.starts_with(&format!(
            "Release {release}/{release}: small none -> 1.0.0\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("\ncreate   ConfigMap   ") && text.contains("\ncreate   Secret      "),
        "{text}"
    );
    assert!(text.contains("+  greeting: hello\n"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let left = Program::new(helm())
        .args(["list", "--short", "--namespace", &release, "--kubeconfig"])
        .arg(scene.desk.namespace.server().kubeconfig())
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");

    scene.install(&scene.repository.archive());
    let same = scene.plan(&["web", "--exit-code"]).await.good();
    assert!(same.ends_with("1.0.0 -> 1.0.0\nNothing to do.\n"), "{same}");

    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    std::fs::write(&values, "greeting: good day\nworkload: nginx\n").unwrap();
    let more = [
        "web",
        "--version",
        "2.0.0",
        "--values",
        values.to_str().unwrap(),
    ];
    let text = scene.plan(&[&more[..], &["--diff"]].concat()).await.good();
    assert!(text.contains("\nchange   ConfigMap    "), "{text}");
    assert!(text.contains("\ncreate   Deployment   "), "{text}");
    assert!(
        text.contains("-  greeting: hello\n") && text.contains("+  greeting: good day\n"),
        "{text}"
    );
    let said = scene
        .plan(&[&more[..], &["--exit-code", "-o", "json"]].concat())
        .await;
    let found: Value = serde_json::from_str(&said.out).unwrap();
    said.bad(7);
    let kinds: Vec<&Value> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["kind"])
        .collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment"], "{found:#}");
    assert_eq!(found["installed"], "1.0.0");
}

#[tokio::test]
async fn what_an_addon_cannot_have_is_said_with_the_cause_and_without_its_secrets() {
    let scene = Scene::new().await;
    let said = scene.plan(&["nothing"]).await.bad(3);
    assert!(said.contains("there is no TenantAddon"), "{said}");
    let said = scene.plan(&["web", "--version", "9.9.9"]).await.bad(1);
    assert!(said.contains("could not fetch chart small 9.9.9"), "{said}");
    assert!(
        !said.contains("sesame") && !said.contains("hunter2"),
        "{said}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addon.yaml");
    let mut addon = scene.addon();
    addon["spec"]["addon"] = json!("nope");
    addon["spec"].as_object_mut().unwrap().remove("helm");
    std::fs::write(&file, addon.to_string()).unwrap();
    let said = scene.plan(&["-f", file.to_str().unwrap()]).await.bad(6);
    assert!(
        said.contains("the catalogue has no AddonDefinition \"nope\""),
        "{said}"
    );
}

#[tokio::test]
async fn a_plan_asks_the_mirror_of_a_chart_repository() {
    let scene = Scene::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addon.yaml");
    let mut addon = scene.addon();
    addon["spec"]["helm"]["repository"] = json!("http://charts.invalid/stable");
    std::fs::write(&file, addon.to_string()).unwrap();
    let mirror = format!("http://charts.invalid/stable={}", scene.repository.url());
    let file = file.to_str().unwrap();
    let found = scene.plan(&["-f", file, "--chart-mirror", &mirror]).await;
    let found = found.good();
    assert!(found.contains("ConfigMap"), "{found}");
}

/// A chart with a kind of its own, and hooks of which one holds a password.
fn chart(folder: &Path, group: &str) {
    let kind = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("moons.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Moon", "plural": "moons", "singular": "moon", "listKind": "MoonList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}"}, "data": {"greeting": "{{ .Values.greeting }}"}});
    let hook = |name: &str, on: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "{{ .Values.password }}"},
            "metadata": {"name": name, "annotations": {"helm.sh/hook": on}}})
    };
    for (file, content) in [
        (
            "Chart.yaml",
            json!({"apiVersion": "v2", "name": "full", "version": "1.0.0"}),
        ),
        ("crds/moons.yaml", kind),
        ("templates/map.yaml", map),
        (
            "templates/login.yaml",
            hook("login", "pre-install,pre-upgrade"),
        ),
        ("templates/check.yaml", hook("check", "test")),
    ] {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.to_string()).unwrap();
    }
}

#[tokio::test]
async fn kinds_that_come_with_a_chart_and_hooks_that_run_are_part_of_a_plan() {
    let scene = Scene::new().await;
    let source = tempfile::tempdir().unwrap();
    let group = format!("{}.example.com", scene.desk.namespace.name());
    chart(source.path(), &group);
    for version in ["1.0.0", "2.0.0"] {
        scene.repository.add(source.path(), version);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("addon.yaml");
    let mut addon = scene.addon();
    addon["spec"]["helm"]["chart"] = json!("full");
    fs::write(&file, addon.to_string()).unwrap();
    let of_file = ["-f", file.to_str().unwrap()];
    let text = scene
        .plan(&[&of_file[..], &["--diff"]].concat())
        .await
        .good();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let kind = format!("moons.{group}");
    let has = |cells: &[&str]| lines.iter().any(|line| line == cells);
    assert!(
        has(&["create", "CustomResourceDefinition", "-", &kind, "crds/"]),
        "{text}"
    );
    assert!(
        has(&["run", "Secret", "-", "login", "hook:", "pre-install"]),
        "{text}"
    );
    assert!(
        !text.contains("check") && !text.contains("hunter2"),
        "{text}"
    );

    scene.install(&scene.repository.archive_of("full-1.0.0"));
    let same = scene.plan(&of_file).await.good();
    assert!(same.ends_with("Nothing to do.\n"), "{same}");
    let more = ["--version", "2.0.0"];
    let text = scene.plan(&[&of_file[..], &more].concat()).await.good();
    assert!(text.contains("hook: pre-upgrade\n"), "{text}");
    assert!(!text.contains("CustomResourceDefinition"), "{text}");
}
