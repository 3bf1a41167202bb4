//! What tenants hold: in status, in metrics, and for as long as they are there.

use butler_api::steward::{TenantControlPlane, data_store::StorageUsage};
use butler_runtime::metrics::Metrics;
use butler_testkit::{Namespace, PATIENCE, etcd::TlsEtcd, wait_for, wait_until_gone};
use kube::api::DeleteParams;

use crate::{
    raw::User,
    stage::{self, FAST, until},
};

/// The prefix of a tenant, by what its control plane reports.
async fn prefix(home: &Namespace, name: &str) -> String {
    let (plane, _) = stage::plane_is(home, name, "StoreReady", "True", "Ready").await;
    let setup = plane.status.unwrap().storage.unwrap().setup.unwrap();
    format!("/{}/", setup.schema.unwrap())
}

/// Adds keys from one number to another; returns the bytes.
async fn fill(root: &User, prefix: &str, from: usize, to: usize) -> i64 {
    let mut bytes = 0;
    for at in from..to {
        let key = format!("{prefix}registry/pods/{at:05}");
        bytes += key.len() + 1_000;
        root.put(key, &[b'x'; 1_000]).await.unwrap();
    }
    i64::try_from(bytes).unwrap()
}

fn usage(plane: &TenantControlPlane) -> Option<StorageUsage> {
    plane.status.as_ref()?.storage.as_ref()?.usage.clone()
}

/// A series of a scrape.
fn series(metrics: &Metrics, name: &str, labels: &str) -> Option<i64> {
    let text = metrics.encode().unwrap();
    let line = format!("{name}{{{labels}}} ");
    let value = text.lines().find_map(|found| found.strip_prefix(&line))?;
    Some(value.parse().unwrap())
}

#[tokio::test]
async fn figures_are_exact_in_metrics_move_in_steps_in_status_and_go_with_the_tenant() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let (steward, _) = stage::steward(&server, FAST);
    server
        .apply_yaml(&etcd.data_store("main").to_string())
        .await;
    for name in ["blue", "green"] {
        home.apply_yaml(&stage::control_plane(name, "main")).await;
    }
    let root = stage::root(&etcd);
    let (blue, green) = (prefix(&home, "blue").await, prefix(&home, "green").await);
    // Measured as a whole, or the first step would be somewhere on the way.
    drop(steward);
    let mut bytes = fill(&root, &blue, 0, 2_000).await;
    let (steward, metrics) = stage::steward(&server, FAST);
    let labels = |name: &str| format!(r#"namespace="{}",name="{name}""#, home.name());
    let keys = |name: &str| series(&metrics, "steward_tenant_store_keys", &labels(name));
    until("2,000 keys of blue", async || keys("blue") == Some(2_000)).await;
    assert_eq!(
        series(&metrics, "steward_tenant_store_bytes", &labels("blue")),
        Some(bytes)
    );
    until("no keys of green", async || keys("green") == Some(0)).await;

    let planes = home.api::<TenantControlPlane>();
    let has = |keys: i64| {
        move |plane: &TenantControlPlane| usage(plane).is_some_and(|usage| usage.keys == keys)
    };
    let told = wait_for(&planes, "blue", "2,000 keys", PATIENCE, has(2_000)).await;
    assert_eq!(usage(&told).unwrap().bytes, bytes);
    let stores = stage::stores(&server);
    let total = wait_for(&stores, "main", "its total", PATIENCE, |store| {
        let usage = store
            .status
            .as_ref()
            .and_then(|status| status.usage.as_ref());
        usage.is_some_and(|usage| usage.keys == 2_000)
    });
    total.await;

    stage::counted(&home, "blue").await;

    // A little more is exact in metrics and no reason to write.
    let mark = server.mark().await;
    bytes += fill(&root, &blue, 2_000, 2_100).await;
    until("2,100 keys of blue", async || keys("blue") == Some(2_100)).await;
    // The next round is over when another tenant's figure moved.
    fill(&root, &green, 0, 50).await;
    wait_for(&planes, "green", "50 keys", PATIENCE, has(50)).await;
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    let about_blue = writes.only(|write| write.name() == "blue");
    assert_eq!(about_blue.count(), 0, "{about_blue}");

    // A restart knows the same, and writes nothing.
    drop(steward);
    until("nobody to speak for tenants", async || {
        keys("blue").is_none()
    })
    .await;
    let mark = server.mark().await;
    let (_steward, metrics) = stage::steward(&server, FAST);
    let of = |name: &str, tenant: &str| series(&metrics, name, &labels(tenant));
    until("2,100 keys of blue again", async || {
        of("steward_tenant_store_keys", "blue") == Some(2_100)
    })
    .await;
    assert_eq!(of("steward_tenant_store_bytes", "blue"), Some(bytes));
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    assert_eq!(writes.count(), 0, "{writes}");

    assert_eq!(of("steward_control_plane_ready", "blue"), Some(0));
    until("its certificates", async || {
        of(
            "steward_control_plane_certificate_expiry_timestamp_seconds",
            "blue",
        )
        .is_some()
    })
    .await;
    assert_eq!(
        series(&metrics, "steward_data_store_users", r#"name="main""#),
        Some(2)
    );
    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
    until("no series of blue", async || {
        !metrics.encode().unwrap().contains("blue")
    })
    .await;
    assert!(of("steward_tenant_store_keys", "green").is_some());
}

#[tokio::test]
async fn what_is_kept_in_a_second_store_counts_for_the_tenant_and_for_that_store() {
    let (server, main) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let events = main.start_beside().await.unwrap();
    let home = server.namespace("tenants").await;
    let (steward, _) = stage::steward(&server, FAST);
    for (name, etcd) in [("main", &main), ("events", &events)] {
        server.apply_yaml(&etcd.data_store(name).to_string()).await;
    }
    let overrides = "  dataStoreOverrides: [{resource: /events, dataStore: events}]\n";
    let plane = stage::control_plane("blue", "main") + overrides;
    home.apply_yaml(&plane).await;
    let blue = prefix(&home, "blue").await;
    drop(steward);
    let mut bytes = fill(&stage::root(&main), &blue, 0, 30).await;
    bytes += fill(&stage::root(&events), &blue, 0, 20).await;

    let (_steward, metrics) = stage::steward(&server, FAST);
    let labels = format!(r#"namespace="{}",name="blue""#, home.name());
    let of = |name: &str| series(&metrics, name, &labels);
    until("keys of both stores", async || {
        of("steward_tenant_store_keys") == Some(50)
    })
    .await;
    assert_eq!(of("steward_tenant_store_bytes"), Some(bytes));
    let planes = home.api::<TenantControlPlane>();
    let told = wait_for(&planes, "blue", "50 keys", PATIENCE, |plane| {
        usage(plane).is_some_and(|usage| usage.keys == 50)
    });
    assert_eq!(usage(&told.await).unwrap().bytes, bytes);
    for (name, keys) in [("main", 30), ("events", 20)] {
        let what = format!("{keys} keys");
        wait_for(&stage::stores(&server), name, &what, PATIENCE, |store| {
            let usage = store
                .status
                .as_ref()
                .and_then(|status| status.usage.as_ref());
            usage.is_some_and(|usage| usage.keys == keys)
        })
        .await;
    }
}
