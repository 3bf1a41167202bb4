//! Whose changes of users and roles are whose, and stores that are one tenant's alone.

use butler_steward::store::{
    Error,
    access::{Inspection, repair, stands},
    health::probe,
    remove::{Policy, remove},
    setup::{Tenancy, ensure},
};

use super::stage::{Stage, tenant};

/// Looks at the store as its controller does; whether somebody else was there.
async fn is_disturbed(stage: &Stage) -> bool {
    probe(&stage.session).await;
    stage.session.is_disturbed()
}

#[tokio::test]
async fn our_own_changes_are_never_taken_for_somebody_elses() {
    let stage = Stage::start().await;
    assert!(
        is_disturbed(&stage).await,
        "nobody knows who was there before"
    );
    Inspection::begin(&stage.session).finish();
    let tenants: Vec<_> = (0..12)
        .map(|at| tenant("a", &format!("t{at}"), &format!("{at}")))
        .collect();
    for tenant in &tenants {
        ensure(&stage.session, tenant, Tenancy::Shared)
            .await
            .unwrap();
    }
    assert!(!is_disturbed(&stage).await);
    for tenant in &tenants[..4] {
        remove(&stage.session, tenant, Policy::Delete, 100)
            .await
            .unwrap();
    }
    // Nothing is left to remove, and nothing is counted.
    remove(&stage.session, &tenants[0], Policy::Delete, 100)
        .await
        .unwrap();
    assert!(!is_disturbed(&stage).await);

    let victim = &tenants[5];
    stage.root.delete_user(victim.user()).await;
    assert!(is_disturbed(&stage).await);
    drop(Inspection::begin(&stage.session));
    assert!(stage.session.is_disturbed(), "a look that was broken off");
    let inspection = Inspection::begin(&stage.session);
    assert!(!stands(&stage.session, victim).await.unwrap());
    let writes = repair(&stage.session, victim, async { true })
        .await
        .unwrap();
    assert_eq!(writes, 2);
    inspection.finish();
    assert!(!is_disturbed(&stage).await);
    stage.fill(victim, 1).await;
}

#[tokio::test]
async fn a_tenant_that_is_being_removed_gets_nothing_back() {
    let stage = Stage::start().await;
    let tenant = tenant("a", "b", "1");
    ensure(&stage.session, &tenant, Tenancy::Shared)
        .await
        .unwrap();
    stage.root.delete_user(tenant.user()).await;
    let writes = repair(&stage.session, &tenant, async { false })
        .await
        .unwrap();
    assert_eq!(writes, 0);
    assert!(!stands(&stage.session, &tenant).await.unwrap());
}

#[tokio::test]
async fn a_dedicated_store_is_for_one_tenant_until_it_goes() {
    let stage = Stage::start().await;
    let (one, other) = (tenant("a", "one", "1"), tenant("a", "other", "2"));
    let take = async |tenant, tenancy| ensure(&stage.session, tenant, tenancy).await;
    take(&one, Tenancy::Dedicated).await.unwrap();
    for tenancy in [Tenancy::Dedicated, Tenancy::Shared] {
        let refused = take(&other, tenancy).await;
        assert!(
            matches!(refused, Err(Error::Occupied { .. })),
            "{refused:?}"
        );
    }
    let again = take(&one, Tenancy::Dedicated).await.unwrap();
    assert_eq!(again.writes, 0);
    remove(&stage.session, &one, Policy::Delete, 100)
        .await
        .unwrap();
    assert_eq!(stage.root.everything().await, []);
    take(&other, Tenancy::Shared).await.unwrap();
    let refused = take(&one, Tenancy::Dedicated).await;
    assert!(
        matches!(refused, Err(Error::Occupied { .. })),
        "{refused:?}"
    );
}
