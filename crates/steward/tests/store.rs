//! Tenants in a real etcd with TLS and authentication.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    reason = "tests: what goes wrong fails the test with its message"
)]

#[path = "store/drift.rs"]
mod drift;
#[path = "store/health.rs"]
mod health;
#[path = "store/names.rs"]
mod names;
#[path = "store/raw.rs"]
mod raw;
#[path = "store/stage.rs"]
mod stage;

use butler_steward::store::{
    Sessions,
    remove::{self, Policy, remove},
    setup::{self, Observed, Tenancy, ensure},
    usage::{Measured, Meter, Trust, Usage, count_keys, measure},
};
use butler_testkit::etcd::TlsEtcd;
use futures::{StreamExt as _, stream};
use stage::{Stage, settings, tenant};
use tonic::Code;

/// Controllers run these on any thread.
#[tokio::test]
async fn work_in_a_store_can_move_between_threads() {
    fn moves(_: &impl Send) {}
    let stage = Stage::start().await;
    let (session, tenant) = (&stage.session, tenant("a", "b", "1"));
    let mut meter = Meter::new(&tenant);
    moves(&ensure(session, &tenant, Tenancy::Shared));
    moves(&remove(session, &tenant, Policy::Delete, 1));
    moves(&measure(session, &mut meter, 1));
    moves(&butler_steward::store::health::probe(session));
}

/// Tenants whose joined names, and whose UIDs as prefixes, look alike.
fn look_alikes() -> [butler_steward::store::Identity; 3] {
    [
        tenant("a-b", "c", "1"),
        tenant("a", "b-c", "11"),
        tenant("a", "b", "1-"),
    ]
}

#[tokio::test]
async fn tenants_with_names_that_look_alike_cannot_reach_each_other() {
    let stage = Stage::start().await;
    for tenant in &look_alikes() {
        let outcome = ensure(&stage.session, tenant, Tenancy::Shared)
            .await
            .unwrap();
        assert!(outcome.enforced);
        stage.fill(tenant, 3).await;
    }
    for one in &look_alikes() {
        let user = stage.tenant(one);
        assert_eq!(
            user.range(&one.prefix(), &one.range_end())
                .await
                .unwrap()
                .len(),
            3
        );
        for other in look_alikes().iter().filter(|other| *other != one) {
            let denied = Err(Code::PermissionDenied);
            assert_eq!(
                user.range(&other.prefix(), &other.range_end()).await,
                denied
            );
            let key = [other.prefix(), b"registry/pods/00000".to_vec()].concat();
            assert_eq!(user.range(&key, &[]).await, denied);
            assert_eq!(user.put(key, b"stolen").await, Err(Code::PermissionDenied));
        }
        let beyond = user.range(&one.prefix(), &[0]).await;
        assert_eq!(beyond, Err(Code::PermissionDenied));
        let claim = user.put("/.steward/claims/user/x", b"{}").await;
        assert_eq!(claim, Err(Code::PermissionDenied));
    }
}

#[tokio::test]
async fn deleting_a_tenant_leaves_the_others_as_they_were_to_the_byte() {
    let stage = Stage::start().await;
    for tenant in &look_alikes() {
        ensure(&stage.session, tenant, Tenancy::Shared)
            .await
            .unwrap();
        stage.fill(tenant, 40).await;
    }
    let [gone, kept, also_kept] = look_alikes();
    let is_gone = |key: &[u8]| {
        key.starts_with(&gone.prefix())
            || key.starts_with(b"/.steward") && key.ends_with(b"/steward-1")
    };
    let mut before = stage.root.everything().await;
    assert_eq!(before.len(), 3 * 40 + 3 * 2);
    before.retain(|entry| !is_gone(&entry.key));
    let access = [
        setup::observe(&stage.session, &kept).await.unwrap(),
        setup::observe(&stage.session, &also_kept).await.unwrap(),
    ];
    let removed = remove(&stage.session, &gone, Policy::Delete, 1_000)
        .await
        .unwrap();
    assert!(removed.finished);
    assert_eq!((removed.keys, removed.writes), (40, 3));
    assert_eq!(stage.root.everything().await, before);
    for (tenant, access) in [&kept, &also_kept].into_iter().zip(access) {
        assert_eq!(
            setup::observe(&stage.session, tenant).await.unwrap(),
            access
        );
        stage.fill(tenant, 1).await;
    }
    let nothing = setup::observe(&stage.session, &gone).await.unwrap();
    assert_eq!(nothing, Observed::default());
    let again = remove(&stage.session, &gone, Policy::Delete, 1_000)
        .await
        .unwrap();
    assert_eq!((again.finished, again.keys, again.writes), (true, 0, 0));
}

#[tokio::test]
async fn what_is_set_up_is_not_written_again_and_what_was_changed_by_hand_is_put_right() {
    let stage = Stage::start().await;
    let tenant = tenant("a", "b", "1");
    let first = ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    assert_eq!(first.writes, 5);
    let everything = stage.root.everything().await;
    let second = ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    assert_eq!(second.writes, 0);
    assert_eq!(stage.root.everything().await, everything);
    stage.root.delete_role(tenant.role()).await;
    let third = ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    assert_eq!(third.writes, 3);
    stage.fill(&tenant, 1).await;
}

#[tokio::test]
async fn setting_up_ends_well_after_a_crash_at_any_step() {
    let stage = Stage::start().await;
    for reached in 0..=4 {
        let tenant = tenant("a", "b", &format!("{reached}"));
        let steps = setup::plan(&tenant, &Observed::default()).unwrap();
        for step in steps.iter().take(reached) {
            setup::apply(&stage.session, &tenant, step).await.unwrap();
        }
        ensure(&stage.session, &tenant, Tenancy::Shared)
            .await
            .unwrap();
        let again = ensure(&stage.session, &tenant, Tenancy::Shared)
            .await
            .unwrap();
        assert_eq!(again.writes, 0, "after {reached} steps");
        stage.fill(&tenant, 2).await;
    }
}

#[tokio::test]
async fn removing_ends_well_after_a_crash_at_any_step() {
    let stage = Stage::start().await;
    let order = [
        remove::Step::DeleteUser,
        remove::Step::DeleteData,
        remove::Step::DeleteRole,
        remove::Step::Release,
    ];
    for reached in 0..=order.len() {
        let tenant = tenant("a", "b", &format!("{reached}"));
        ensure(&stage.session, &tenant, Tenancy::Shared)
            .await
            .unwrap();
        stage.fill(&tenant, 5).await;
        for step in &order[..reached] {
            remove::apply(&stage.session, &tenant, *step).await.unwrap();
        }
        let removed = remove(&stage.session, &tenant, Policy::Delete, 1_000)
            .await
            .unwrap();
        assert!(removed.finished);
        assert_eq!(stage.root.everything().await, [], "after {reached} steps");
        let left = stage.root.users_and_roles().await;
        assert_eq!(left, (vec!["root".to_owned()], vec!["root".to_owned()]));
    }
}

#[tokio::test]
async fn a_large_tenant_is_removed_in_parts_and_nobody_writes_meanwhile() {
    let stage = Stage::start().await;
    let tenant = tenant("a", "b", "1");
    ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    for at in 0..2_500 {
        let key = [tenant.prefix(), format!("{at:05}").into_bytes()].concat();
        stage.root.put(key, b"x").await.unwrap();
    }
    let part = remove(&stage.session, &tenant, Policy::Delete, 1_000)
        .await
        .unwrap();
    assert_eq!((part.finished, part.keys), (false, 1_000));
    let late = stage.tenant(&tenant).put(tenant.prefix(), b"late").await;
    assert_eq!(late, Err(Code::PermissionDenied));
    let rest = remove(&stage.session, &tenant, Policy::Delete, 10_000)
        .await
        .unwrap();
    assert_eq!((rest.finished, rest.keys), (true, 1_500));
    assert_eq!(stage.root.everything().await, []);
}

#[tokio::test]
async fn fifty_tenants_are_set_up_at_once_by_two_processes() {
    let stage = Stage::start().await;
    let other = Sessions::default()
        .get(&settings(&stage.etcd, "root"))
        .unwrap();
    let tenants: Vec<_> = (0..50)
        .map(|at| tenant("many", &format!("t{at}"), &format!("{at}")))
        .collect();
    let work = tenants.iter().flat_map(|tenant| {
        [&stage.session, &other].map(async |session| {
            ensure(session, tenant, Tenancy::Shared).await.unwrap();
        })
    });
    let work = stream::iter(work).buffer_unordered(25);
    Box::pin(work.collect::<Vec<_>>()).await;
    let (users, roles) = stage.root.users_and_roles().await;
    assert_eq!((users.len(), roles.len()), (51, 51));
    for tenant in &tenants {
        let again = ensure(&stage.session, tenant, Tenancy::Shared)
            .await
            .unwrap();
        assert_eq!(again.writes, 0);
        stage.fill(tenant, 1).await;
    }
}

#[tokio::test]
async fn usage_is_exact_however_small_the_parts_it_is_measured_in() {
    let stage = Stage::start().await;
    let (tenant, neighbour) = (tenant("a", "b", "1"), tenant("a", "c", "11"));
    for tenant in [&tenant, &neighbour] {
        ensure(&stage.session, tenant, Tenancy::Shared)
            .await
            .unwrap();
    }
    stage.fill(&neighbour, 10).await;
    let mut expected = Usage::default();
    for at in 0..620_usize {
        let key = [tenant.prefix(), format!("{at:04}").into_bytes()].concat();
        let value = vec![b'v'; if at % 60 == 0 { 900_000 } else { at }];
        expected.keys += 1;
        expected.bytes += (key.len() + value.len()) as u64;
        stage.root.put(key, &value).await.unwrap();
    }
    assert_eq!(
        count_keys(&stage.session, &tenant, Trust::Store)
            .await
            .unwrap(),
        620
    );
    for budget in [1, 1 << 20, u64::MAX] {
        let mut meter = Meter::new(&tenant);
        let mut passes = 1;
        let usage = loop {
            match measure(&stage.session, &mut meter, budget).await.unwrap() {
                Measured::Whole(usage) => break usage,
                Measured::Part => passes += 1,
            }
        };
        assert_eq!(usage, expected);
        assert_eq!(
            passes == 1,
            budget == u64::MAX,
            "{passes} passes with {budget}"
        );
    }
}

#[tokio::test]
async fn a_session_survives_a_restart_of_the_store() {
    let mut stage = Stage::with(TlsEtcd::start().await.unwrap());
    let tenant = tenant("a", "b", "1");
    ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    stage.etcd.restart().await.unwrap();
    let again = ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    assert_eq!(again.writes, 0);
}
