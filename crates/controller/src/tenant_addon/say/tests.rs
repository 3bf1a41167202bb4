use butler_addons::record::Revision;
use butler_api::butler::tenant_cluster::ManagementMode;

use super::*;

fn world(statuses: &[Status]) -> World {
    let revisions = statuses.iter().zip(1..).map(|(status, number)| Revision {
        number,
        status: *status,
        request: None,
        owner: None,
        healthy: false,
    });
    World {
        revisions: revisions.collect(),
        ..World::default()
    }
}

#[test]
fn what_was_handed_over_is_left_alone_also_while_the_other_tool_is_at_it_or_failed() {
    use Status::{Deployed, Failed, PendingInstall, PendingUpgrade, Superseded};
    let left = |statuses: &[Status]| is_left_alone(ManagementMode::GitOps, &world(statuses));
    assert!(left(&[Deployed]));
    assert!(left(&[Superseded, Deployed]));
    assert!(left(&[Deployed, PendingUpgrade]));
    assert!(left(&[Deployed, Failed]));
    for own in [&[][..], &[PendingInstall], &[Failed]] {
        assert!(!left(own), "it was never installed: {own:?}");
    }
}
