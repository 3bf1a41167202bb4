//! Versions of addons: which release of Kubernetes they run on, and when another one may come by itself.

use std::sync::Arc;

use butler_api::butler::{AddonDefinition, butler_config::ButlerConfigSpec, tenant_cluster::Phase};
use butler_capi::{Observed, Plan, Raw, Retry, TenantSpec, addons::Facts, plan, validate};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    common::{cluster, merged, now, provider, providers, spec},
    day2::versions,
    phases::finding,
    world::{apply, running, settle},
};

/// Puts an entry of the catalogue where plans look for it.
fn offer(world: &mut Observed, name: &str, spec: &Value) {
    let base = json!({
        "displayName": name, "description": "d", "category": "observability",
        "chart": {"repository": "https://charts.example.com", "name": name, "defaultVersion": "1.0.0"},
    });
    let definition = json!({"metadata": {"name": name}, "spec": merged(&base, spec)});
    let definition: AddonDefinition = serde_json::from_value(definition).unwrap();
    let entry = Arc::new(definition).into();
    world.inputs.catalogue.insert(name.to_owned(), entry);
}

fn metrics(release: &str, more: &Value) -> TenantSpec {
    let base = json!({"kubernetesVersion": release, "addons": {"monitoring": {"provider": "metrics-server"}}});
    spec("local", &merged(&base, more))
}

fn addon_version(plan: &Plan) -> Value {
    let mut addons = plan.objects.iter();
    let addon = addons.find(|object| object.id().kind == "TenantAddon");
    addon.unwrap().to_value()["spec"]["version"].clone()
}

const RANGE: &str = ">=1.30 <1.35";

#[test]
fn an_upgrade_out_of_the_range_of_an_addon_is_held_and_says_which_and_what_to_do() {
    let mut world = running(&metrics("v1.34.4", &json!({})), now());
    offer(
        &mut world,
        "metrics-server",
        &json!({"kubernetesVersions": RANGE}),
    );
    let held = plan(&metrics("v1.35.4", &json!({})), &world, now());
    assert_eq!(versions(&held).0, "v1.34.4", "{held}");
    assert!(held.changes.is_empty(), "{held}");
    assert_eq!(held.phase, Phase::Ready);
    let said = &held.findings.last().unwrap().message;
    for word in [
        "v1.35.4",
        "my-cluster-metrics-server",
        "1.0.0",
        RANGE,
        "give the addon a version",
        "remove the addon",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let near = plan(&metrics("v1.34.6", &json!({})), &world, now());
    assert_eq!(versions(&near).0, "v1.34.6", "another release heals");
    offer(
        &mut world,
        "metrics-server",
        &json!({"kubernetesVersions": ">=1.30"}),
    );
    let open = plan(&metrics("v1.35.4", &json!({})), &world, now());
    assert_eq!(
        versions(&open).0,
        "v1.35.4",
        "another word of the catalogue heals"
    );
}

#[test]
fn another_version_of_the_addon_goes_first_and_the_upgrade_follows_once_it_runs() {
    let mut world = running(&metrics("v1.34.4", &json!({})), now());
    offer(
        &mut world,
        "metrics-server",
        &json!({"kubernetesVersions": RANGE, "chart": {"kubernetesVersions": {"2.0.0": ">=1.33"}}}),
    );
    let version = |version: &str| json!({"addons": {"monitoring": {"version": version}}});
    let wanted = metrics("v1.35.4", &version("2.0.0"));
    let first = plan(&wanted, &world, now());
    assert_eq!(versions(&first).0, "v1.34.4", "1.0.0 still runs: {first}");
    assert_eq!(addon_version(&first), "2.0.0");
    apply(&mut world, &first);
    let during = plan(&wanted, &world, now());
    assert_eq!(versions(&during).0, "v1.34.4", "{during}");
    settle(&mut world);
    let then = plan(&wanted, &world, now());
    assert_eq!(versions(&then).0, "v1.35.4", "{then}");
    // And the other way round: the version that is asked for together with the upgrade does not run there.
    let back = plan(&metrics("v1.35.4", &version("1.0.0")), &world, now());
    assert_eq!(versions(&back).0, "v1.34.4", "{back}");
}

#[test]
fn an_addon_of_the_clusters_user_holds_an_upgrade_until_it_is_gone() {
    let release = |release: &str| spec("local", &json!({"kubernetesVersion": release}));
    let mut world = running(&release("v1.34.4"), now());
    offer(&mut world, "velero", &json!({"kubernetesVersions": RANGE}));
    let own = Facts {
        addon: "velero".to_owned(),
        version: Some("1.0.0".to_owned()),
        ..Facts::default()
    };
    world.addons.insert("backup".to_owned(), own);
    let held = plan(&release("v1.35.4"), &world, now());
    assert!(held.waits[0].contains("TenantAddon backup"), "{held}");
    let ready = finding(&held, "Ready");
    assert_eq!(ready.reason.retry(), Retry::NeedsChange, "{held}");
    world.addons.remove("backup");
    assert_eq!(
        versions(&plan(&release("v1.35.4"), &world, now())).0,
        "v1.35.4"
    );
}

const WINDOW: &str =
    r#"{"maintenance": {"windows": [{"schedule": "0 2 * * 6", "duration": "4h"}]}}"#;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A Thursday, the next opening, and a moment after it.
fn moments() -> (Timestamp, Timestamp, Timestamp) {
    (
        at("2026-11-12T12:00:00Z"),
        at("2026-11-14T02:00:00Z"),
        at("2026-11-14T02:30:00Z"),
    )
}

#[test]
fn a_new_version_of_the_catalogue_waits_for_the_window_and_one_of_the_user_does_not() {
    let (closed, opening, open) = moments();
    let window: Value = serde_json::from_str(WINDOW).unwrap();
    let wanted = metrics("v1.35.4", &window);
    let mut world = running(&wanted, closed);
    offer(&mut world, "metrics-server", &json!({}));
    let noted = plan(&wanted, &world, closed);
    assert_eq!(
        addon_version(&noted),
        "1.0.0",
        "what it has is written down"
    );
    assert!(noted.waits.is_empty(), "{noted}");
    apply(&mut world, &noted);
    settle(&mut world);

    offer(
        &mut world,
        "metrics-server",
        &json!({"chart": {"defaultVersion": "1.1.0"}}),
    );
    let held = plan(&wanted, &world, closed);
    assert!(held.changes.is_empty(), "{held}");
    assert_eq!((held.phase, held.wake), (Phase::Ready, Some(opening)));
    let said = &held.findings.last().unwrap().message;
    for word in ["metrics-server", "1.0.0", "1.1.0", "2026-11-14T02:00:00Z"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let own = metrics(
        "v1.35.4",
        &merged(
            &window,
            &json!({"addons": {"monitoring": {"version": "3.0.0"}}}),
        ),
    );
    assert_eq!(addon_version(&plan(&own, &world, closed)), "3.0.0");

    let moved = plan(&wanted, &world, open);
    assert_eq!(addon_version(&moved), "1.1.0");
    apply(&mut world, &moved);
    assert_eq!(
        world.addons["my-cluster-metrics-server"].version.as_deref(),
        Some("1.0.0")
    );
    let after = plan(&wanted, &world, closed);
    assert_eq!(
        addon_version(&after),
        "1.1.0",
        "what began in a window is not taken back after it"
    );
    assert!(after.changes.is_empty(), "{after}");
}

#[test]
fn a_new_version_of_the_platform_waits_for_the_window_but_not_on_a_cluster_that_never_worked() {
    let (closed, opening, open) = moments();
    let of = |version: &str| {
        let platform: ButlerConfigSpec =
            serde_json::from_value(json!({"defaultAddonVersions": {"traefik": version}})).unwrap();
        let window: Value = serde_json::from_str(WINDOW).unwrap();
        let asked = merged(&window, &json!({"addons": {"ingress": {}}}));
        let raw = Raw {
            cluster: &cluster(&asked),
            provider: &provider(&providers()["local"]),
            platform: &platform,
        };
        validate(&raw).unwrap()
    };
    let mut world = running(&of("33.0.0"), closed);
    let held = plan(&of("34.0.0"), &world, closed);
    assert_eq!(addon_version(&held), "33.0.0");
    assert_eq!(held.wake, Some(opening));
    assert_eq!(addon_version(&plan(&of("34.0.0"), &world, open)), "34.0.0");
    world.phase = Some(Phase::Installing);
    assert_eq!(
        addon_version(&plan(&of("34.0.0"), &world, closed)),
        "34.0.0"
    );
}

#[test]
fn a_version_that_spreads_by_a_rollout_reaches_a_cluster_only_while_a_window_is_open() {
    let (closed, _, open) = moments();
    let window: Value = serde_json::from_str(WINDOW).unwrap();
    let wanted = metrics("v1.35.4", &window);
    let mut world = running(&wanted, closed);
    offer(
        &mut world,
        "metrics-server",
        &json!({"rollout": {}, "chart": {"defaultVersion": "1.1.0"}}),
    );
    let held = plan(&wanted, &world, closed);
    assert_eq!(addon_version(&held), "1.0.0");
    assert!(held.waits[0].contains("1.1.0"), "{held}");
    let follows = plan(&wanted, &world, open);
    assert_eq!(
        addon_version(&follows),
        Value::Null,
        "the rollout says when"
    );
}

#[test]
fn clusters_without_windows_follow_the_catalogue_as_it_moves() {
    let wanted = metrics("v1.35.4", &json!({}));
    let mut world = running(&wanted, now());
    offer(
        &mut world,
        "metrics-server",
        &json!({"chart": {"defaultVersion": "1.1.0"}}),
    );
    let plan = plan(&wanted, &world, now());
    assert_eq!(addon_version(&plan), Value::Null);
    assert!(plan.changes.is_empty(), "{plan}");
}
