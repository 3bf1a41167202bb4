//! The addon catalogue: what it says must hold together, and a real API server must accept it.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test fails where it stands"
)]

mod entries;
#[path = "../stage/mod.rs"]
mod stage;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use butler_api::butler::AddonDefinition;
use butler_testkit::Options;
use butler_toolchain::Toolchain;
use kube::{Api, ResourceExt, api::ListParams};

/// A folder below `charts/`.
pub(crate) fn chart(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../charts")
        .join(name)
}

/// What the real Helm makes of a chart, or why it does not.
fn render(name: &str, arguments: &[&str]) -> Result<String, String> {
    let helm = Toolchain::locate().unwrap().binary("helm", None).unwrap();
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(helm)
        .arg("template")
        .arg("release")
        .arg(chart(name))
        .args(arguments)
        .env("HOME", home.path())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

#[tokio::test]
async fn a_real_api_server_accepts_every_entry_of_the_chart() {
    let server = stage::server(Options::default()).await;
    server
        .apply_yaml(&render("butler-addons", &[]).unwrap())
        .await;
    let api: Api<AddonDefinition> = Api::all(server.client());
    let held = api.list(&ListParams::default()).await.unwrap();
    let held: BTreeSet<String> = held.iter().map(ResourceExt::name_any).collect();
    let files: BTreeSet<String> = entries::all().iter().map(ResourceExt::name_any).collect();
    assert_eq!(held, files);
}

#[test]
fn entries_are_left_out_or_changed_by_values_and_a_wrong_name_is_an_error() {
    let with = [
        "--set",
        "exclude={redis}",
        "--set",
        "overrides.nats.chart.repository=oci://registry.example.com/charts",
    ];
    let rendered = render("butler-addons", &with).unwrap();
    assert!(!rendered.contains("name: redis"), "redis was excluded");
    assert!(rendered.contains("repository: oci://registry.example.com/charts"));
    assert!(rendered.contains("defaultVersion: 1.2.7"), "the rest stays");
    let refused = render("butler-addons", &["--set", "exclude={reddis}"]).unwrap_err();
    assert!(refused.contains("has no addon"), "{refused}");
}
