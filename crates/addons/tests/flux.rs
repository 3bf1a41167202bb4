//! All files of an export, compared with a file that people read.
//!
//! `UPDATE_GOLDEN=1 cargo test -p butler-addons --test flux` writes it again; the difference is then reviewed.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::{collections::BTreeSet, env, fs, path::Path, time::Duration};

use butler_addons::{
    flux::{Addon, Credentials, SecretKey, Tier, export},
    request::{ChartRef, Drift, ReleaseId},
};
use serde_json::{Value, json};

fn addon(name: &str, tier: Tier, repository: &str, values: Value) -> Addon {
    Addon {
        name: format!("demo-{name}"),
        tier,
        release: ReleaseId {
            namespace: format!("{name}-system"),
            name: name.to_owned(),
        },
        chart: ChartRef {
            repository: repository.to_owned(),
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            digest: None,
        },
        plain_http: false,
        credentials: None,
        values,
        values_from: Vec::new(),
        needs: BTreeSet::new(),
        create_namespace: true,
        timeout: Duration::from_mins(10),
        history: 10,
        drift: Drift::Correct,
        paused: false,
        installed: Some("1.2.3".to_owned()),
    }
}

fn addons() -> Vec<Addon> {
    let mut network = addon(
        "network",
        Tier::Infrastructure,
        "https://charts.example.com/stable/",
        // What a reader of YAML could take for something else.
        json!({"mode": "on", "ports": [80, "0080"], "motd": "a\nb\n", "off": null, "share": 0.5}),
    );
    network.create_namespace = false;
    network.timeout = Duration::from_secs(90);
    let certificates = addon(
        "certificates",
        Tier::Infrastructure,
        "https://charts.example.com/stable",
        json!({}),
    );
    let mut shop = addon(
        "shop",
        Tier::Apps,
        "oci://registry.example.com:5000/charts",
        json!({"replicas": 2}),
    );
    shop.needs = BTreeSet::from(["demo-certificates".to_owned(), "demo-db".to_owned()]);
    shop.plain_http = true;
    shop.chart.digest = Some(format!("sha256:{}", "ab".repeat(32)));
    shop.credentials = Some(Credentials {
        namespace: "team-a".to_owned(),
        name: "registry".to_owned(),
    });
    shop.values_from = vec![
        SecretKey {
            secret: "shop".to_owned(),
            key: "values.yaml".to_owned(),
            target: None,
        },
        SecretKey {
            secret: "shop".to_owned(),
            key: "password".to_owned(),
            target: Some("auth.password".to_owned()),
        },
    ];
    let mut db = addon("db", Tier::Apps, "https://db.example.com", json!({}));
    db.drift = Drift::Report;
    db.paused = true;
    db.installed = Some("1.2.2".to_owned());
    vec![network, certificates, shop, db]
}

#[test]
fn a_cluster_is_written_down_as_people_expect_it_of_flux() {
    let export = export("demo", "clusters/demo", &addons()).unwrap();
    let files = export.files.iter();
    let text: Vec<String> = files
        .map(|file| format!("=== {}\n{}", file.path, file.content))
        .collect();
    let text = text.concat();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/flux.txt");
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &text).unwrap();
    }
    let held = fs::read_to_string(&golden).unwrap();
    for (number, (held, now)) in held.lines().zip(text.lines()).enumerate() {
        assert_eq!(held, now, "line {}", number + 1);
    }
    assert_eq!(held.lines().count(), text.lines().count());
}

#[test]
fn no_secret_is_written() {
    let export = export("demo", "clusters/demo", &addons()).unwrap();
    let mut kinds = export.objects.iter().map(|object| &object["kind"]);
    assert!(kinds.all(|kind| kind != "Secret"));
}
