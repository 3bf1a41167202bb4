//! The platform on this machine, from nothing to nothing: `make e2e`.
//!
//! It takes minutes, root and the whole machine, so it is no part of `cargo test`.
#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod addons;
mod server;
mod stage;
mod tenant;
mod tour;

use std::path::Path;

use stage::{Cluster, MANAGEMENT, Stage, butleradm, get, good, output, run, until};
use tenant::{NAMESPACE, Tenant};

#[test]
#[ignore = "takes the whole machine: make e2e"]
fn a_platform_comes_up_with_tenants_serves_heals_and_leaves_nothing() {
    let Some(stage) = Stage::empty() else {
        return;
    };
    let first = good(&["up"]);
    good(&["status"]);
    let management = Cluster(MANAGEMENT.to_owned());
    webhooks_of_cluster_api_are_called(&management);

    // Two tenants with equal ranges: the sample, whose node is Ready, and one of Cluster API's own objects.
    tenant::push_image();
    Tenant::make("twin");
    let folder = tempfile::tempdir().unwrap();
    let demo = Tenant::serve("demo", &Tenant::namespace_of("demo"), folder.path());
    demo.check_api();
    let twin = Tenant::serve("twin", NAMESPACE, folder.path());
    twin.check_api();
    neither_reaches_the_other(&demo, &twin);
    good(&["status"]);

    machines_are_broken_and_come_back(&management, &demo);

    // Whoever cuts the network finds it whole again, on the host and on the router.
    run("ip link delete butler0");
    demo.answers("after the host's link was deleted");
    run(
        "for bridge in $(nsenter --net=/run/butler/net/.router ip -br link show type bridge | cut -d' ' -f1); do \
         nsenter --net=/run/butler/net/.router ip link delete $bridge; done",
    );
    demo.answers("after all bridges were deleted");
    twin.answers("after all bridges were deleted");
    assert!(!demo.reaches(&format!("{}:10250", twin.nodes()[0])));

    run("umount --lazy /run/butler/net/.router");
    until("the registry to be there again", || {
        get("10.40.0.254:5000", "/v2/").map(drop)
    });
    demo.answers("after the router was taken away");

    // The network goes on without its keeper, and `up` brings that back. Machines do not notice either.
    let machines = "pgrep -f ^/opt/butler/containerd/containerd$";
    let running = output(machines);
    run("kill -9 $(cat /run/butler/agent.lock)");
    demo.answers("without an agent");
    let second = good(&["up"]);

    // Controllers on the host for whoever works on them, and back.
    good(&["up", "--controllers", "process"]);
    good(&["status"]);
    let steward = "pgrep -f '^/var/lib/butler/butler steward'";
    let ended = output(steward);
    run(&format!("kill -9 {ended}"));
    until("Steward to be started again", || {
        let status = butleradm(&["status"]);
        let again = status.status.success() && output(steward) != ended;
        again.then_some(()).ok_or_else(|| output(steward))
    });
    good(&["up"]);
    assert_eq!(output(steward), "");
    demo.answers("with controllers in pods again");
    assert_eq!(output(machines), running, "no machine was started anew");

    // Down and up again: the same clusters.
    let down = good(&["down"]);
    stage.is_empty_again();
    good(&["up"]);
    demo.answers("after a restart");
    twin.answers("after a restart");

    // The management machine that is killed comes back by `up`.
    run("kill -9 $(cat /var/lib/butler/machines/butler-management/pid)");
    good(&["up"]);
    demo.answers("after a crash of the management machine");

    // A tenant that is deleted takes its machines along.
    is_deleted(&management, "cluster", &twin, 1);
    is_deleted(&management, "tenantcluster", &demo, 0);

    good(&["reset"]);
    stage.is_empty_again();
    assert!(!Path::new("/var/lib/butler").exists());
    // For people: how busy the host is decides, so that goals are the bench's.
    println!("up {first:?}, second up {second:?}, down {down:?}");
}

#[test]
#[ignore = "takes the whole machine: make e2e"]
fn a_cluster_is_made_used_resized_upgraded_repaired_put_to_sleep_and_removed_by_butlerctl() {
    let Some(stage) = Stage::empty() else {
        return;
    };
    good(&["up"]);
    tenant::push_image();
    tour::walk(&Cluster(MANAGEMENT.to_owned()));
    good(&["reset"]);
    stage.is_empty_again();
}

#[test]
#[ignore = "takes the whole machine: make e2e"]
fn addons_come_from_the_registry_survive_kills_of_the_controller_work_and_leave_nothing() {
    let Some(stage) = Stage::empty() else {
        return;
    };
    let management = Cluster(MANAGEMENT.to_owned());
    good(&["up"]);
    addons::sample_gets_storage(&management);
    is_gone(&management, "tenantcluster", "demo");
    good(&["up", "--controllers", "process"]);
    tenant::push_image();
    addons::walk(&management);
    good(&["reset"]);
    stage.is_empty_again();
}

fn is_gone(management: &Cluster, kind: &str, name: &str) {
    let cluster = [kind, name, "-n", NAMESPACE];
    management.kubectl(&[&["delete", "--wait=false"], &cluster[..]].concat());
    let named = ["get", "-o", "name", "--ignore-not-found"];
    let words = [&named[..], &cluster].concat();
    management.until("the tenant to be gone", &words, str::is_empty);
}

fn is_deleted(management: &Cluster, kind: &str, tenant: &Tenant, left: usize) {
    is_gone(management, kind, &tenant.name);
    let machines = management.kubectl(&["get", "localmachines", "-A", "-o", "name"]);
    assert_eq!(machines.lines().count(), left, "{machines}");
    until("its address to be free", || {
        match get(&tenant.address, "/") {
            Err(_) => Ok(()),
            Ok(who) => Err(who),
        }
    });
}

/// Nobody else would refuse this.
fn webhooks_of_cluster_api_are_called(management: &Cluster) {
    let topology = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: x, namespace: default}\n\
                    spec: {topology: {classRef: {name: x}, version: v1.35.4}}\n";
    let refused = management.try_kubectl(&["apply", "--dry-run=server", "-f", "-"], topology);
    let said = refused.unwrap_err();
    assert!(said.contains("ClusterTopology feature flag"), "{said}");
}

fn neither_reaches_the_other(demo: &Tenant, twin: &Tenant) {
    // More pods than the other has, so that some have addresses that only this one knows.
    twin.cluster
        .kubectl(&["scale", "deployment/web", "--replicas=4"]);
    let rolled = ["rollout", "status", "deployment/web", "--timeout=120s"];
    twin.cluster.until("more pods", &rolled, |_| true);
    let known = demo.ask("pods -A", "{.items[*].status.podIP}");
    let pods = twin.pods();
    let strange: Vec<_> = pods.iter().filter(|pod| !known.contains(pod)).collect();
    assert!(!strange.is_empty(), "{pods:?} and {known:?}");
    for pod in strange {
        let address = format!("{pod}:8080");
        assert!(twin.reaches(&address), "its own pod {pod}");
        assert!(!demo.reaches(&address), "the other's pod {pod}");
    }
    for (one, other) in [(demo, twin), (twin, demo)] {
        let kubelet = |tenant: &Tenant| format!("{}:10250", tenant.nodes()[0]);
        assert!(one.reaches(&kubelet(one)), "its own node");
        assert!(!one.reaches(&kubelet(other)), "the other's node");
        assert!(!one.reaches("10.40.0.10:10250"), "the management node");
        assert!(!one.reaches("10.40.0.1:22"), "the host");
    }
}

fn machines_are_broken_and_come_back(management: &Cluster, demo: &Tenant) {
    let node = demo.ask("nodes", "{.items[0].metadata.name}").remove(0);
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let words = [
        "get",
        "localmachine",
        &node,
        "-n",
        &demo.namespace,
        "-o",
        ready,
    ];
    for verb in ["partition", "pause", "kill"] {
        good(&["machine", verb, &node]);
        management.until("the machine to be broken", &words, |said| said == "False");
        assert!(get(&demo.address, "/").is_err(), "after {verb}");
        good(&["machine", "resume", &node]);
        demo.answers(&format!("after {verb}"));
        management.until("the machine to be whole", &words, |said| said == "True");
    }
    assert_eq!(
        butleradm(&["machine", "kill", "nobody"]).status.code(),
        Some(2)
    );
}

#[test]
fn what_is_wrong_with_the_command_line_is_said_with_exit_code_two() {
    let output = butleradm(&["up", "--range", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let output = butleradm(&["mirror", "--to", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
}
