//! Names that are wished for, kept, moved and taken.

use butler_steward::store::{
    Error, Identity, Material, Sessions,
    remove::{Policy, remove},
    setup::{self, Observed, Tenancy, ensure},
};

use super::stage::{Stage, asking, chosen, owner, settings_with, tenant};

fn is_taken(result: Result<impl std::fmt::Debug, Error>, expected: &str) {
    match result {
        Err(Error::Taken { what, .. }) => assert_eq!(what, expected),
        other => panic!("expected a {expected} that is taken, got {other:?}"),
    }
}

#[tokio::test]
async fn the_place_of_another_tenant_cannot_be_wished_for() {
    let stage = Stage::start().await;
    let victim = tenant("a", "b", "1");
    ensure(&stage.session, &victim, Tenancy::Shared)
        .await
        .unwrap();
    stage.fill(&victim, 3).await;
    let everything = stage.root.everything().await;
    let thief = || owner("evil", "b", "2");
    let schema = asking(thief(), Some("steward-1"), None);
    is_taken(
        ensure(&stage.session, &schema, Tenancy::Shared).await,
        "schema",
    );
    let user = asking(thief(), None, Some("steward-1"));
    is_taken(ensure(&stage.session, &user, Tenancy::Shared).await, "user");
    for identity in [&schema, &user] {
        let removed = remove(&stage.session, identity, Policy::Delete, 100)
            .await
            .unwrap();
        assert!(removed.finished);
        assert_eq!(
            (removed.keys, removed.writes, removed.kept.len()),
            (0, 0, 1)
        );
    }
    assert_eq!(stage.root.everything().await, everything);
    stage.fill(&victim, 1).await;
}

#[tokio::test]
async fn a_prefix_that_something_else_uses_cannot_be_wished_for() {
    let stage = Stage::start().await;
    stage
        .root
        .put("/registry/secrets/a", b"of the cluster itself")
        .await
        .unwrap();
    stage.root.add_user("backup", "password").await;
    let registry = asking(owner("a", "b", "1"), Some("registry"), None);
    is_taken(
        ensure(&stage.session, &registry, Tenancy::Shared).await,
        "schema",
    );
    let backup = asking(owner("a", "b", "1"), None, Some("backup"));
    is_taken(
        ensure(&stage.session, &backup, Tenancy::Shared).await,
        "user",
    );
    remove(&stage.session, &registry, Policy::Delete, 100)
        .await
        .unwrap();
    remove(&stage.session, &backup, Policy::Delete, 100)
        .await
        .unwrap();
    assert_eq!(stage.root.everything().await.len(), 1);
    assert_eq!(stage.root.users_and_roles().await.0, ["backup", "root"]);
}

#[tokio::test]
async fn a_tenant_that_moved_keeps_its_place_and_its_old_self_cannot_delete_it() {
    let stage = Stage::start().await;
    let old = tenant("a", "b", "1");
    ensure(&stage.session, &old, Tenancy::Shared).await.unwrap();
    stage.fill(&old, 3).await;
    let moved = asking(owner("a", "b", "2"), Some("steward-1"), Some("steward-1"));
    ensure(&stage.session, &moved, Tenancy::Shared)
        .await
        .unwrap();
    let removed = remove(&stage.session, &old, Policy::Delete, 100)
        .await
        .unwrap();
    assert_eq!((removed.keys, removed.writes), (0, 0));
    assert_eq!(removed.kept.len(), 2);
    stage.fill(&moved, 3).await;
    let removed = remove(&stage.session, &moved, Policy::Delete, 100)
        .await
        .unwrap();
    assert_eq!(removed.keys, 3);
    assert_eq!(stage.root.everything().await, []);
}

#[tokio::test]
async fn retained_data_waits_for_a_tenant_of_the_same_name() {
    let stage = Stage::start().await;
    let first = tenant("a", "b", "1");
    ensure(&stage.session, &first, Tenancy::Shared)
        .await
        .unwrap();
    stage.fill(&first, 4).await;
    let removed = remove(&stage.session, &first, Policy::Retain, 100)
        .await
        .unwrap();
    assert!(removed.finished);
    assert!(
        stage
            .tenant(&first)
            .range(&first.prefix(), &[])
            .await
            .is_err()
    );
    let stranger = asking(owner("a", "x", "3"), Some("steward-1"), None);
    is_taken(
        ensure(&stage.session, &stranger, Tenancy::Shared).await,
        "schema",
    );
    let back = asking(owner("a", "b", "2"), Some("steward-1"), None);
    ensure(&stage.session, &back, Tenancy::Shared)
        .await
        .unwrap();
    let kept = stage
        .tenant(&back)
        .range(&back.prefix(), &back.range_end())
        .await;
    assert_eq!(kept.unwrap().len(), 4);
}

#[tokio::test]
async fn a_tenant_of_an_older_implementation_is_taken_over_and_removed_whole() {
    let stage = Stage::start().await;
    let older = asking(owner("a", "b", "1"), Some("a_b"), Some("a_b"));
    for step in setup::plan(&older, &Observed::default()).unwrap() {
        setup::apply(&stage.session, &older, &step).await.unwrap();
    }
    stage.fill(&older, 3).await;
    let recorded = chosen(Some("a_b"), Some("a_b"));
    let adopted = Identity::of(owner("a", "b", "1"), &recorded, &chosen(None, None)).unwrap();
    let untouched = remove(&stage.session, &older, Policy::Delete, 100)
        .await
        .unwrap();
    assert_eq!(untouched.keys, 0);
    let outcome = ensure(&stage.session, &adopted, Tenancy::Shared)
        .await
        .unwrap();
    assert_eq!(outcome.writes, 1);
    let removed = remove(&stage.session, &adopted, Policy::Delete, 100)
        .await
        .unwrap();
    assert_eq!(removed.keys, 3);
    assert_eq!(stage.root.everything().await, []);
}

#[tokio::test]
async fn an_administrator_by_password_can_set_up_tenants() {
    let stage = Stage::start().await;
    stage.root.add_user("steward", "secret").await;
    stage.root.grant_role("steward", "root").await;
    let settings = settings_with(&stage.etcd, |material: &mut Material| {
        material.basic = Some((b"steward".to_vec(), b"secret\n".to_vec()));
    });
    let session = Sessions::default().get(&settings).unwrap();
    let tenant = tenant("a", "b", "1");
    ensure(&session, &tenant, Tenancy::Shared).await.unwrap();
    stage.fill(&tenant, 2).await;
}
