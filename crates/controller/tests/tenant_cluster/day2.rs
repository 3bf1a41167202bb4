//! Clusters that work and are changed: replacements, those that stop, changes within changes, windows and schedules.

use std::sync::Arc;

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_capi::day2::{Cron, ROLLOUT_DEADLINE};
use butler_runtime::{
    clock::{Clock as _, SystemClock},
    task::Task,
};
use butler_testkit::{PATIENCE, Server, wait_for, wait_for_condition};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use crate::{
    DEMO,
    clock::{self, Ahead},
    clusters,
    driver::{self, Driver, WITHOUT_IMAGE, object},
    join::look,
    patch,
};

const POOL: (&str, &str) = ("MachineDeployment", "demo-workers");

/// A cluster that works, and a clock.
struct Scene {
    server: Server,
    clock: Arc<Ahead>,
    clusters: Api<TenantCluster>,
    home: String,
    _running: (Task, Driver),
}

impl Scene {
    async fn new(team: &str, spec: Value) -> Self {
        let server = crate::stage().await;
        let (clock, controllers) = clock::run(&server);
        let driver = Driver::start(&server.client());
        server.apply_yaml(&DEMO.replace("NAMESPACE", team)).await;
        let clusters = clusters(&server, team);
        patch(&clusters, json!({ "spec": spec })).await;
        let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
        Self {
            home: demo.status.unwrap().tenant_namespace.unwrap(),
            _running: (controllers, driver),
            server,
            clock,
            clusters,
        }
    }

    async fn change(&self, spec: Value) {
        patch(&self.clusters, json!({ "spec": spec })).await;
    }

    /// It is this late, and somebody looks.
    async fn late(&self, moment: Timestamp) {
        self.clock.reach(moment);
        look(&self.clusters, &moment.to_string()).await;
    }

    async fn until(&self, what: &str, done: impl Fn(&TenantCluster) -> bool) -> TenantCluster {
        wait_for(&self.clusters, "demo", what, PATIENCE, done).await
    }

    /// Waits until everything that was asked for is there.
    async fn rests(&self, version: &str, workers: i32) {
        let what = format!("{workers} workers of {version}");
        self.until(&what, |demo| {
            let status = demo.status.as_ref().unwrap();
            let seen = status.observed_state.as_ref();
            let running = seen.and_then(|seen| seen.kubernetes_version.as_deref());
            status.phase == Some(Phase::Ready)
                && status.observed_generation == demo.metadata.generation
                && running == Some(version)
                && status.worker_nodes_ready == Some(workers)
        })
        .await;
    }

    async fn pool(&self, done: impl Fn(&Value) -> bool + Send) -> Value {
        driver::until(&self.server, &self.home, POOL.0, POOL.1, done).await;
        object(&self.server, &self.home, POOL.0, POOL.1)
            .await
            .unwrap()
    }

    async fn names(&self, kind: &str) -> Vec<String> {
        let api = driver::api(&self.server, &self.home, kind);
        let listed = api.list(&ListParams::default()).await.unwrap();
        listed.iter().map(kube::ResourceExt::name_any).collect()
    }
}

pub(crate) fn says(demo: &TenantCluster, text: &str) -> bool {
    let conditions = demo.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|held| held.type_ == "Ready");
    ready.any(|held| held.message.contains(text))
}

fn version(pool: &Value) -> &Value {
    &pool["spec"]["template"]["spec"]["version"]
}

fn template(pool: &Value) -> String {
    let name = &pool["spec"]["template"]["spec"]["infrastructureRef"]["name"];
    name.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn other_machines_replace_those_that_stand_and_their_templates_go_after_them() {
    let scene = Scene::new("team-a", json!({})).await;
    let before = template(&scene.pool(|_| true).await);
    let held = scene.names("LocalMachineTemplate").await;
    assert_eq!(held, std::slice::from_ref(&before));
    let larger = json!({"workers": {"machineTemplate": {"cpu": 8}}});
    scene.change(larger).await;
    let pool = scene.pool(|pool| template(pool) != before).await;
    scene.rests("v1.34.4", 2).await;
    let machine = |held: &Value| held["spec"]["infrastructureRef"]["name"] == template(&pool);
    for name in ["demo-workers-0", "demo-workers-1"] {
        driver::until(&scene.server, &scene.home, "Machine", name, machine).await;
    }
    driver::until_gone(&scene.server, &scene.home, "LocalMachineTemplate", &before).await;
    assert_eq!(scene.names("LocalMachineTemplate").await, [template(&pool)]);
    let pool = scene.pool(|_| true).await;
    let annotations = pool["metadata"]["annotations"].to_string();
    assert!(
        !annotations.contains(butler_capi::build::CAME_FROM),
        "{annotations}"
    );
}

#[tokio::test]
async fn a_rollout_that_stops_is_taken_back_after_its_time_and_another_release_heals() {
    let scene = Scene::new("team-b", json!({})).await;
    scene
        .change(json!({"kubernetesVersion": WITHOUT_IMAGE}))
        .await;
    scene
        .pool(|pool| *version(pool) == WITHOUT_IMAGE && pool["status"]["upToDateReplicas"] == 1)
        .await;
    scene
        .until("the rollout", |demo| says(demo, "0 of 2 machines replaced"))
        .await;
    let late = SystemClock.now() + ROLLOUT_DEADLINE + SignedDuration::from_mins(1);
    scene.late(late).await;
    scene.pool(|pool| *version(pool) == "v1.34.4").await;
    scene
        .until("the way back", |demo| {
            let phase = demo.status.as_ref().and_then(|status| status.phase);
            phase == Some(Phase::Ready) && says(demo, "change the spec to try again")
        })
        .await;
    scene.late(late + SignedDuration::from_hours(1)).await;
    let pool = scene.pool(|_| true).await;
    assert_eq!(version(&pool), "v1.34.4", "what failed is not tried again");

    scene.change(json!({"kubernetesVersion": "v1.35.4"})).await;
    scene.rests("v1.35.4", 2).await;
    scene.pool(|pool| *version(pool) == "v1.35.4").await;
}

#[tokio::test]
async fn changes_during_a_change_are_taken_up_at_once_or_after_it() {
    let scene = Scene::new("team-c", json!({})).await;
    scene
        .change(json!({"kubernetesVersion": WITHOUT_IMAGE}))
        .await;
    let pool = scene.pool(|pool| *version(pool) == WITHOUT_IMAGE).await;
    let before = template(&pool);
    // More and other machines need not wait for those that do not come.
    let change = json!({"workers": {"replicas": 3, "machineTemplate": {"cpu": 8}}});
    scene.change(change).await;
    scene
        .pool(|pool| pool["spec"]["replicas"] == 3 && template(pool) != before)
        .await;
    // Another release does, and says so.
    scene.change(json!({"kubernetesVersion": "v1.35.4"})).await;
    let waits = "the upgrade to v1.35.4 waits for pool workers";
    scene.until(waits, |demo| says(demo, waits)).await;
    let late = SystemClock.now() + ROLLOUT_DEADLINE + SignedDuration::from_mins(1);
    scene.late(late).await;
    scene.rests("v1.35.4", 3).await;
    let pool = scene.pool(|pool| *version(pool) == "v1.35.4").await;
    assert_ne!(template(&pool), before, "the larger machines came with it");
}

/// A schedule of every day, some hours from now on the hour, and when that is.
pub(crate) fn later(hours: i64) -> (String, Timestamp) {
    let then = SystemClock.now() + SignedDuration::from_hours(hours);
    let hour = then.to_zoned(TimeZone::UTC).hour();
    let schedule = format!("0 {hour} * * *");
    let moment = Cron::parse(&schedule, None).unwrap();
    (schedule, moment.after(SystemClock.now()).unwrap())
}

#[tokio::test]
async fn a_window_that_is_closed_holds_what_disturbs_and_lets_it_go_when_it_opens() {
    let (schedule, opens) = later(6);
    let windows = json!([{"schedule": schedule, "duration": "1h"}]);
    let scene = Scene::new("team-d", json!({"maintenance": {"windows": windows}})).await;
    let before = template(&scene.pool(|_| true).await);
    let change = json!({
        "kubernetesVersion": "v1.35.4", "workers": {"replicas": 3, "machineTemplate": {"cpu": 8}},
    });
    scene.change(change).await;
    let waits = format!("waits for the maintenance window that opens at {opens}");
    scene.until(&waits, |demo| says(demo, &waits)).await;
    scene.rests("v1.34.4", 3).await;
    let pool = scene.pool(|_| true).await;
    assert_eq!(
        (version(&pool), template(&pool)),
        (&json!("v1.34.4"), before.clone())
    );

    scene.late(opens + SignedDuration::from_mins(5)).await;
    scene.rests("v1.35.4", 3).await;
    let pool = scene.pool(|pool| *version(pool) == "v1.35.4").await;
    assert_ne!(template(&pool), before);
}

#[tokio::test]
async fn a_cluster_falls_asleep_and_wakes_by_its_schedule() {
    let ((start, asleep), (end, awake)) = (later(6), later(12));
    let schedules = json!([{"start": start, "end": end}]);
    let scene = Scene::new("team-e", json!({"hibernation": {"schedules": schedules}})).await;
    scene.rests("v1.34.4", 2).await;
    scene.late(asleep + SignedDuration::from_mins(1)).await;
    let demo = scene.until("its sleep", |demo| {
        demo.status.as_ref().is_some_and(|status| {
            let mut conditions = status.conditions.iter();
            let sleeps = conditions.any(|it| it.type_ == "Ready" && it.reason == "Hibernated");
            sleeps && status.phase == Some(Phase::Ready)
        })
    });
    assert_eq!(demo.await.status.unwrap().worker_nodes_desired, Some(0));
    let plane = |replicas: u32| move |plane: &Value| plane["spec"]["replicas"] == replicas;
    let (server, home) = (&scene.server, &scene.home);
    driver::until(server, home, "StewardControlPlane", "demo", plane(0)).await;
    assert!(scene.names("Machine").await.is_empty());

    scene.late(awake + SignedDuration::from_mins(1)).await;
    scene.rests("v1.34.4", 2).await;
    driver::until(server, home, "StewardControlPlane", "demo", plane(1)).await;
}
