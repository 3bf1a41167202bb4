//! Writes that a tenant cluster refuses for a while.

use butler_api::steward::{TenantControlPlane, tenant_control_plane::status::State};
use butler_testkit::{pods::PodOptions, wait_for};

use crate::{
    serving::{Platform, SOON, is_ready, kubectl, platform_with, try_kubectl},
    stage,
};

const ALL: &str = "writePermissions: {blockCreation: true, blockUpdate: true, blockDeletion: true}";

/// Asks until the answer is the expected one: a policy reaches an API server a moment after it is written.
async fn until(platform: &Platform, arguments: &[&str], refused: bool) -> String {
    let asking = async {
        loop {
            let output = try_kubectl(platform, "blue", arguments, "").await;
            if output.status.success() != refused {
                return String::from_utf8_lossy(&output.stderr).into_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, asking).await;
    waited.unwrap_or_else(|_| panic!("{arguments:?} was not refused={refused}"))
}

async fn state(platform: &Platform, wanted: State) {
    let planes = platform.home.api::<TenantControlPlane>();
    wait_for(
        &planes,
        "blue",
        &format!("state {wanted:?}"),
        SOON,
        |plane| {
            let resources = plane
                .status
                .as_ref()
                .and_then(|status| status.kubernetes_resources.as_ref());
            let version = resources.and_then(|resources| resources.version.as_ref());
            version.and_then(|version| version.status) == Some(wanted)
        },
    )
    .await;
}

#[tokio::test]
async fn a_frozen_tenant_reads_refuses_writes_is_still_looked_after_and_thaws() {
    let platform = platform_with(PodOptions::default()).await;
    let home = &platform.home;
    home.apply_yaml(&stage::control_plane("blue", "")).await;
    is_ready(home, "blue").await;
    kubectl(&platform, "blue", &["create", "namespace", "mine"]).await;
    // Its token is asked for below, and nobody makes the account any more by then.
    until(&platform, &["get", "serviceaccount", "default"], false).await;

    home.apply_yaml(&stage::control_plane("blue", ALL)).await;
    state(&platform, State::WriteLimited).await;
    let refusal = until(
        &platform,
        &["create", "configmap", "new", "--dry-run=server"],
        true,
    )
    .await;
    assert!(
        refusal.contains("the platform lets nobody create or change or delete anything"),
        "{refusal}"
    );
    for refused in [
        &["label", "namespace", "mine", "a=b"][..],
        &["delete", "namespace", "mine", "--wait=false"],
        &["create", "configmap", "new", "-n", "kube-system"],
    ] {
        until(&platform, refused, true).await;
    }
    let names = kubectl(&platform, "blue", &["get", "namespaces", "-o", "name"]).await;
    assert!(names.contains("namespace/mine"), "{names}");
    // Questions that look like creations are answered.
    kubectl(&platform, "blue", &["auth", "can-i", "create", "pods"]).await;
    kubectl(&platform, "blue", &["create", "token", "default"]).await;

    // Steward goes on: another addon arrives in the frozen cluster, and controllers keep their leases.
    let more = format!("{ALL}\n  addons: {{coreDNS: {{}}}}");
    home.apply_yaml(&stage::control_plane("blue", &more)).await;
    until(
        &platform,
        &["get", "configmap", "coredns", "-n", "kube-system"],
        false,
    )
    .await;
    let renewed = [
        "get",
        "lease",
        "kube-scheduler",
        "-n",
        "kube-system",
        "-o=jsonpath={.spec.renewTime}",
    ];
    let before = kubectl(&platform, "blue", &renewed).await;
    let changes = async {
        while kubectl(&platform, "blue", &renewed).await == before {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, changes).await;
    waited.expect("the scheduler renews its lease");

    home.apply_yaml(&stage::control_plane("blue", "")).await;
    state(&platform, State::Ready).await;
    until(&platform, &["create", "configmap", "new"], false).await;
    let policies = [
        "get",
        "validatingadmissionpolicies,validatingadmissionpolicybindings",
        "-o",
        "name",
    ];
    let left = kubectl(&platform, "blue", &policies).await;
    assert!(!left.contains("steward"), "{left}");
}
