//! A new version of the catalogue on its way over a fleet, disturbed at every write. The addons are played: whatever
//! they are granted they have a moment later, and nobody may be granted anything out of turn.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use butler_api::{
    butler::{AddonDefinition, TenantAddon},
    names::CATALOGUE_VERSION,
};
use butler_controller::Surroundings;
use butler_runtime::{clock::SystemClock, endpoints::Readiness, metrics::Metrics};
use butler_testkit::{
    Options, Scenario, World, at_every_write,
    faults::{Fault, Refusal},
};
use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage;

/// The canary has the last name, so that only its wave can bring it first.
const FLEET: [(&str, &str); 3] = [("jupiter", ""), ("mars", ""), ("zeus", "canary")];

/// A version spreads, one addon at a time.
#[derive(Default)]
struct Spreading {
    /// What was granted out of turn.
    wrong: Mutex<Vec<String>>,
}

fn addons(world: &World) -> Api<TenantAddon> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

fn granted(addon: &TenantAddon) -> Option<&str> {
    addon
        .annotations()
        .get(CATALOGUE_VERSION)
        .map(String::as_str)
}

fn held(addon: &TenantAddon) -> Option<&str> {
    addon.status.as_ref()?.last_attempted_version.as_deref()
}

impl Spreading {
    /// Gives addons what they are granted, and looks whether that was their turn.
    async fn play(&self, world: &World) {
        let api = addons(world);
        let mut changes = watcher(api.clone(), watcher::Config::default())
            .default_backoff()
            .touched_objects()
            .boxed();
        loop {
            // A step of its own that failed is tried again although nothing changes.
            let _ = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
            let Ok(all) = api.list(&ListParams::default()).await else {
                continue;
            };
            self.judge(&all.items);
            for addon in &all.items {
                if let Some(version) = granted(addon).filter(|it| held(addon) != Some(it)) {
                    let _ = install(&api, addon, version).await;
                }
            }
        }
    }

    fn judge(&self, all: &[TenantAddon]) {
        let by_name: BTreeMap<String, &TenantAddon> =
            all.iter().map(|addon| (addon.name_any(), addon)).collect();
        let moving = |addon: &&&TenantAddon| held(addon).is_some() && granted(addon) != held(addon);
        let count = by_name.values().filter(moving).count();
        let canary = by_name.get("zeus-small").and_then(|addon| held(addon));
        let early = |name: &str| by_name.get(name).and_then(|it| granted(it)) == Some("2.0.0");
        let mut wrong = self.wrong.lock().unwrap();
        if count > 1 {
            wrong.push(format!("{count} addons moved at once"));
        }
        if canary != Some("2.0.0") && (early("mars-small") || early("jupiter-small")) {
            wrong.push("somebody came before the canary".to_owned());
        }
    }
}

async fn install(
    api: &Api<TenantAddon>,
    addon: &TenantAddon,
    version: &str,
) -> Result<(), kube::Error> {
    let yes = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Played", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let status = json!({"status": {
        "observedGeneration": addon.metadata.generation, "phase": "Installed",
        "installedVersion": version, "lastAttemptedVersion": version,
        "helmRelease": {"name": "small", "namespace": "small", "version": version},
        "conditions": [yes("Installed"), yes("Ready")],
    }});
    let (name, parameters) = (addon.name_any(), PatchParams::default());
    let status = Patch::Merge(&status);
    api.patch_status(&name, &parameters, &status)
        .await
        .map(drop)
}

impl Scenario for Spreading {
    async fn set_up(&self, world: &World) {
        let (namespace, entry) = (world.namespace().name(), world.name("small"));
        let mut objects = vec![json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
            "metadata": {"name": entry},
            "spec": {
                "displayName": "Small", "description": "A small chart.", "category": "other",
                "chart": {"repository": "https://charts.example.com", "name": "small", "defaultVersion": "1.0.0"},
                "rollout": {"waves": [{"name": "canary", "matchLabels": {"stage": "canary"}}]},
            },
        })];
        for (name, stage) in FLEET {
            objects.push(json!({
                "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
                "metadata": {"name": name, "namespace": namespace, "labels": {"stage": stage}},
                "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}},
            }));
            objects.push(json!({
                "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
                "metadata": {"name": format!("{name}-small"), "namespace": namespace,
                    "annotations": {CATALOGUE_VERSION: "1.0.0"}},
                "spec": {"clusterRef": {"name": name}, "addon": entry},
            }));
        }
        for object in objects {
            world.server().apply_yaml(&object.to_string()).await;
        }
        let api = addons(world);
        for (name, _) in FLEET {
            let addon = api.get(&format!("{name}-small")).await.unwrap();
            install(&api, &addon, "1.0.0").await.unwrap();
        }
    }

    async fn controller(&self, client: Client, world: &World) {
        let surroundings = Surroundings::new(
            SystemClock::shared(),
            Metrics::default(),
            Readiness::default(),
        );
        // Without Helm: nobody but the rollout is at work.
        let controllers =
            butler_controller::run_addons(client, surroundings, CancellationToken::new());
        tokio::join!(controllers, self.play(world));
    }

    async fn user(&self, world: &World) {
        let definitions: Api<AddonDefinition> = Api::all(world.server().client());
        let change = Patch::Merge(json!({"spec": {"chart": {"defaultVersion": "2.0.0"}}}));
        let (name, parameters) = (world.name("small"), PatchParams::default());
        let published = definitions.patch(&name, &parameters, &change).await;
        published.expect("a new version is published");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let wrong = std::mem::take(&mut *self.wrong.lock().unwrap());
        assert!(wrong.is_empty(), "{wrong:?}");
        let definitions: Api<AddonDefinition> = Api::all(world.server().client());
        let entry = definitions.get(&world.name("small")).await;
        let status = entry.map_err(|error| error.to_string())?.status;
        let status = status.unwrap_or_default();
        let rollout = status.rollout.as_ref();
        let is_done = status.conditions.iter().any(|held| held.reason == "Done");
        match rollout.filter(|_| is_done) {
            Some(rollout) if rollout.version == "2.0.0" && rollout.updated == 3 => Ok(()),
            _ => Err(format!("not done: {status:?}")),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "AddonDefinition"),
            ("butler.butlerlabs.dev/v1alpha1", "TenantAddon"),
        ]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::Refuse(Refusal::Conflict),
            Fault::LoseAnswer,
            Fault::Stale(self.quiet() / 2),
        ]
    }

    // A pass waits for half a second of quiet before it counts.
    fn quiet(&self) -> Duration {
        Duration::from_millis(900)
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn a_rollout_ends_the_same_and_in_its_order_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Spreading::default()).await;
    println!("{summary:?}");
    assert!(summary.writes >= 6, "{summary:?}");
}
