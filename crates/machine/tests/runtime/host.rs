//! What the provider sees of machines: news of their progress and their end, across its own restarts.

use std::time::Duration;

use butler_machine::{
    provider::{Host as _, LocalHost},
    runtime::{Held, MachineId, protocol::Outcome},
};
use futures::{StreamExt as _, stream::BoxStream};

use crate::stage::{Stage, can_run, plan};

async fn news(changes: &mut BoxStream<'static, MachineId>, what: &str) -> MachineId {
    let next = tokio::time::timeout(Duration::from_mins(1), changes.next()).await;
    next.unwrap_or_else(|_| panic!("waited for news of {what}"))
        .unwrap()
}

#[tokio::test]
async fn a_provider_that_is_restarted_finds_machines_and_hears_of_everything_that_happens_to_them()
{
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    let host = LocalHost::new(stage.machines.clone()).unwrap();
    let data = plan("#cloud-config\nruncmd: ['until [ -e /run/go ]; do sleep 0.05; done']\n");
    host.start(stage.spec(), data).await.unwrap();
    let first = host.observe(&stage.id).await.unwrap();
    assert!(first.pid.is_some() && first.outcome.is_none(), "{first:?}");
    drop(host);

    let host = LocalHost::new(stage.machines.clone()).unwrap();
    let mut changes = host.changes();
    assert_eq!(host.observe(&stage.id).await.unwrap(), first);
    assert_eq!(news(&mut changes, "where it is").await, stage.id);
    stage.run("touch /run/go");
    assert_eq!(
        news(&mut changes, "the end of the bootstrap data").await,
        stage.id
    );
    let done = host.observe(&stage.id).await.unwrap();
    assert_eq!(done.outcome, Some(Outcome::Succeeded));

    // As another program does it.
    let id = stage.id.clone();
    stage.machines.pause(&id).unwrap();
    assert_eq!(news(&mut changes, "a pause").await, id);
    assert_eq!(host.observe(&id).await.unwrap().held, Some(Held::Paused));
    stage.machines.resume(&id).unwrap();
    assert_eq!(news(&mut changes, "its end").await, id);
    let this = std::slice::from_ref(&id);
    assert_eq!(stage.machines.called("team/worker").unwrap(), this);
    assert_eq!(stage.machines.called("worker").unwrap(), this);
    assert!(stage.machines.called("other").unwrap().is_empty());

    // A machine that dies by itself.
    let pid = done.pid.unwrap().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status()
        .unwrap();
    assert!(killed.success());
    assert_eq!(news(&mut changes, "its death").await, id);
    let dead = host.observe(&id).await.unwrap();
    assert_eq!((dead.pid, dead.held), (None, None));
    host.start(stage.spec(), plan("#cloud-config"))
        .await
        .unwrap();
    let again = host.observe(&id).await.unwrap();
    assert!(
        again.pid.is_some() && again.outcome == done.outcome,
        "{again:?}"
    );
    host.remove(&id).await.unwrap();
}
