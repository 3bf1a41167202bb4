//! Images against the real registry: made, sent, found again, and refused when they are damaged.
#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use butler_images::{File, Layout, MirrorError, Recipe, Reference, Registry, mirror};
use butler_toolchain::Toolchain;

const PATIENCE: Duration = Duration::from_secs(20);

fn name(text: &str) -> Reference {
    text.parse().unwrap()
}

/// A small image whose program is a file with this content.
fn recipe(folder: &Path, image: &str, content: &str) -> Recipe {
    let source = folder.join(content);
    fs::write(&source, content).unwrap();
    let mut recipe = Recipe::program(vec![name(image)], "/usr/bin/thing", source);
    recipe.links = vec![("/bin/other".to_owned(), "/usr/bin/thing".to_owned())];
    recipe
}

/// A registry that ends with the test, also when that is killed.
struct Running {
    child: Child,
    registry: Registry,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn start(folder: &Path) -> Running {
    let program = Toolchain::locate()
        .unwrap()
        .binary("registry", None)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = folder.join("registry.yaml");
    let storage = folder.join("storage");
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {address}}}\n",
        storage.display()
    );
    fs::write(&config, text).unwrap();
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .arg("serve")
        .arg(config)
        .env("OTEL_TRACES_EXPORTER", "none")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let registry = Registry::new(&format!("http://{address}"), None).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = registry.is_there().await {
        assert!(
            Instant::now() < deadline,
            "waited {PATIENCE:?} for the registry: {error}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Running { child, registry }
}

#[tokio::test]
async fn a_registry_is_filled_once_and_a_second_time_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join("layout"));
    let recipes = [
        recipe(folder.path(), "registry.k8s.io/a:v1", "one"),
        recipe(folder.path(), "registry.k8s.io/deep/b:v2", "two"),
    ];
    assert_eq!(layout.make(&recipes).unwrap(), 2);
    let running = start(folder.path()).await;
    let mut sent = Vec::new();
    for _ in 0..2 {
        let tell = |it: &butler_images::Sent| sent.push(it.sent);
        mirror(&layout, None, &running.registry, tell)
            .await
            .unwrap();
    }
    assert_eq!(sent, [true, true, false, false]);
    for entry in layout.images().unwrap() {
        let held = running.registry.digest(&entry.name).await.unwrap();
        assert_eq!(held, Some(entry.digest));
    }
}

#[tokio::test]
async fn a_damaged_layout_is_found_out_before_anybody_pulls_it() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join("layout"));
    layout
        .make(&[recipe(folder.path(), "registry.k8s.io/a:v1", "one")])
        .unwrap();
    let blobs = folder.path().join("layout/blobs/sha256");
    let layer = fs::read_dir(blobs).unwrap().map(|it| it.unwrap().path());
    let layer = layer
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let mut content = fs::read(&layer).unwrap();
    content[2000] ^= 1;
    fs::write(&layer, content).unwrap();
    let running = start(folder.path()).await;
    let error = mirror(&layout, None, &running.registry, |_| ())
        .await
        .unwrap_err();
    let MirrorError::Push { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(source.is_damage(), "{source:?}");
    assert_eq!(
        running
            .registry
            .digest(&name("registry.k8s.io/a:v1"))
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn a_registry_with_a_path_holds_everything_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join("layout"));
    layout
        .make(&[recipe(folder.path(), "registry.k8s.io/a:v1", "one")])
        .unwrap();
    let running = start(folder.path()).await;
    let port = running.child.id();
    assert_ne!(port, 0);
    let text = fs::read_to_string(folder.path().join("registry.yaml")).unwrap();
    let address = text.split("addr: ").nth(1).unwrap().trim_end_matches("}\n");
    let below = Registry::new(&format!("http://{address}/site/mirror"), None).unwrap();
    mirror(&layout, None, &below, |_| ()).await.unwrap();
    let found = running
        .registry
        .digest(&name("x.io/site/mirror/a:v1"))
        .await
        .unwrap();
    assert!(found.is_some());
}

#[test]
fn the_same_recipe_gives_the_same_bytes_whenever_and_wherever_it_is_made() {
    let digests = [1, 2].map(|_| {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path().join("layout"));
        let recipe = recipe(folder.path(), "registry.k8s.io/a:v1", "one");
        layout.make(&[recipe]).unwrap();
        layout.images().unwrap()
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn what_is_there_is_not_made_again_and_what_changed_is() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join("layout"));
    let first = recipe(folder.path(), "registry.k8s.io/a:v1", "one");
    assert_eq!(layout.make(std::slice::from_ref(&first)).unwrap(), 1);
    assert_eq!(layout.make(std::slice::from_ref(&first)).unwrap(), 0);
    let before = layout.images().unwrap();
    let more = File {
        target: "/etc/more".to_owned(),
        source: first.files[0].source.clone(),
    };
    assert_eq!(layout.make(&[first.clone().with([more])]).unwrap(), 1);
    let after = layout.images().unwrap();
    assert_eq!(after.len(), 1);
    assert_ne!(before, after);
    layout.prune().unwrap();
    let blobs = fs::read_dir(folder.path().join("layout/blobs/sha256")).unwrap();
    assert_eq!(blobs.count(), 3, "a layer, a config and a manifest");
    // A part that is gone is made again.
    let layer = after[0].digest.replace("sha256:", "");
    fs::remove_file(folder.path().join("layout/blobs/sha256").join(layer)).unwrap();
    let more = File {
        target: "/etc/more".to_owned(),
        source: first.files[0].source.clone(),
    };
    assert_eq!(layout.make(&[first.with([more])]).unwrap(), 1);
}
