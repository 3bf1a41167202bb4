//! A Git repository on this machine, read over HTTP by who has the token.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_runtime::task::{self, Task};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

/// What the repository asks for, with the name `git`.
pub(crate) const TOKEN: &str = "glpat-7Qx-the-right-one";

/// The name of its branch is one that no value defaults to.
pub(crate) const BRANCH: &str = "trunk";

/// A checkout, whose commits are served as soon as they are made.
pub(crate) struct Git {
    checkout: TempDir,
    address: SocketAddr,
    _server: Task,
}

impl Git {
    pub(crate) async fn start() -> Self {
        let checkout = tempfile::tempdir().expect("a folder");
        git(checkout.path(), &["init", "--quiet", "-b", BRANCH]);
        let repository: Arc<Path> = checkout.path().join(".git").into();
        let router = Router::new()
            .route("/fleet.git/info/refs", get(advertise))
            .route("/fleet.git/git-upload-pack", post(upload))
            .layer(middleware::from_fn(only_with_the_token))
            .with_state(repository);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = task::spawn("git", async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self {
            checkout,
            address,
            _server: server,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/fleet.git", self.address)
    }

    /// Where people edit.
    pub(crate) fn folder(&self) -> &Path {
        self.checkout.path()
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder().join(file)
    }

    pub(crate) fn write(&self, file: &str, content: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    /// All that is in the checkout becomes the head of the branch.
    pub(crate) fn commit(&self, message: &str) {
        git(self.folder(), &["add", "--all"]);
        git(self.folder(), &["commit", "--quiet", "-m", message]);
    }
}

/// Git with nothing of this machine's own settings.
fn command() -> Command {
    let mut command = Command::new("git");
    command.envs([
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "Ada"),
        ("GIT_AUTHOR_EMAIL", "ada@example.com"),
        ("GIT_COMMITTER_NAME", "Ada"),
        ("GIT_COMMITTER_EMAIL", "ada@example.com"),
    ]);
    command
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = command().current_dir(folder).args(arguments).output();
    let output = output.expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
}

async fn only_with_the_token(request: Request, next: Next) -> Response {
    let expected = format!("Basic {}", STANDARD.encode(format!("git:{TOKEN}")));
    let said = request.headers().get(header::AUTHORIZATION);
    if said.is_some_and(|said| *said == expected) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"fleet\"")];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}

/// The first half of the protocol: which branches there are.
async fn advertise(State(repository): State<Arc<Path>>) -> impl IntoResponse {
    let mut answer = b"001e# service=git-upload-pack\n0000".to_vec();
    answer.extend(upload_pack(&repository, &["--advertise-refs"], b"").await);
    let kind = "application/x-git-upload-pack-advertisement";
    ([(header::CONTENT_TYPE, kind)], answer)
}

/// The second half: the objects that the client does not have.
async fn upload(State(repository): State<Arc<Path>>, wanted: Bytes) -> impl IntoResponse {
    let answer = upload_pack(&repository, &[], &wanted).await;
    let kind = "application/x-git-upload-pack-result";
    ([(header::CONTENT_TYPE, kind)], answer)
}

async fn upload_pack(repository: &Path, options: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = tokio::process::Command::from(command());
    let mut running = command
        .args(["upload-pack", "--stateless-rpc"])
        .args(options)
        .arg(repository)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("git runs");
    let mut stdin = running.stdin.take().expect("the pipe was just asked for");
    // It stops reading once it knows enough.
    let _ = stdin.write_all(input).await;
    drop(stdin);
    let output = running.wait_with_output().await;
    output.expect("git ends").stdout
}
