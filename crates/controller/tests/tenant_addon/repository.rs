//! A chart repository on this machine: one small chart in two versions, behind a password.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, StatusCode},
    routing::get,
};
use butler_runtime::task::{self, Task};
use butler_toolchain::Toolchain;
use tempfile::TempDir;
use tokio::net::TcpListener;

const TEMPLATE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {greeting: {{ .Values.greeting | quote }}, version: "{{ .Chart.Version }}"}
---
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}"}
stringData: {password: {{ .Values.password | quote }}}
{{- if .Values.workload }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  replicas: 1
  selector: {matchLabels: {app: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app: "{{ .Release.Name }}"}}
    spec: {containers: [{name: main, image: "registry.invalid/{{ .Values.workload }}:1"}]}
{{- end }}
"#;
const SCHEMA: &str = r#"{"type": "object", "properties": {"greeting": {"type": "string"}}}"#;
const VALUES: &str = "{greeting: hello, password: none, workload: ''}";

/// The program under test.
pub(crate) fn helm() -> std::path::PathBuf {
    let toolchain = Toolchain::locate().expect("the tools");
    toolchain.binary("helm", None).expect("helm is installed")
}

#[allow(dead_code, reason = "each test file uses its part")]
pub(crate) struct Repository {
    address: SocketAddr,
    fetched: Arc<AtomicUsize>,
    folder: TempDir,
    _server: Task,
}

#[derive(Clone)]
struct Files {
    folder: Arc<Path>,
    fetched: Arc<AtomicUsize>,
}

#[allow(dead_code, reason = "each test file uses its part")]
impl Repository {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for version in ["1.0.0", "2.0.0"] {
            package(folder.path(), version);
        }
        run(folder.path(), &["repo", "index", "."]);
        let fetched = Arc::new(AtomicUsize::new(0));
        let files = Files {
            folder: folder.path().into(),
            fetched: Arc::clone(&fetched),
        };
        let router = Router::new().route("/{file}", get(serve)).with_state(files);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = task::spawn("repository", async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self {
            address,
            fetched,
            folder,
            _server: server,
        }
    }

    /// Adds a chart from a folder, under a version of its own.
    pub(crate) fn add(&self, chart: &Path, version: &str) {
        let folder = self.folder.path();
        let chart = chart.to_str().expect("a path that is text");
        let stamps = ["--version", version, "--app-version", version];
        run(folder, &[&["package", chart][..], &stamps].concat());
        run(folder, &["repo", "index", "."]);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The archive of the chart's first version.
    pub(crate) fn archive(&self) -> std::path::PathBuf {
        self.archive_of("small-1.0.0")
    }

    /// The archive of a chart, named with its version.
    pub(crate) fn archive_of(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("{name}.tgz"))
    }

    /// How often an archive was fetched.
    pub(crate) fn fetched(&self) -> usize {
        self.fetched.load(Ordering::SeqCst)
    }
}

async fn serve(
    State(files): State<Files>,
    UrlPath(file): UrlPath<String>,
    headers: HeaderMap,
) -> Result<Bytes, StatusCode> {
    // ada:sesame-open
    let expected = "Basic YWRhOnNlc2FtZS1vcGVu";
    if headers
        .get("authorization")
        .is_none_or(|said| said != expected)
    {
        return Err(StatusCode::UNAUTHORIZED);
    }
    if file != "index.yaml" {
        files.fetched.fetch_add(1, Ordering::SeqCst);
    }
    let content = fs::read(files.folder.join(file));
    content.map(Bytes::from).map_err(|_| StatusCode::NOT_FOUND)
}

fn package(folder: &Path, version: &str) {
    let chart = folder.join("small");
    fs::create_dir_all(chart.join("templates")).expect("a folder");
    let about = format!("{{apiVersion: v2, name: small, version: {version}}}");
    for (file, content) in [
        ("Chart.yaml", about.as_str()),
        ("values.yaml", VALUES),
        ("values.schema.json", SCHEMA),
        ("templates/all.yaml", TEMPLATE),
    ] {
        fs::write(chart.join(file), content).expect("a file");
    }
    run(folder, &["package", "small"]);
}

fn run(folder: &Path, arguments: &[&str]) {
    let output = Command::new(helm())
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .output()
        .expect("helm runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
