//! An upgrade does not take away what somebody still calls.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{
    day2::{Calls, RemovedApi, removed_in, upgrade_removes_apis},
    plan,
};
use serde_json::json;

use crate::{
    common::{now, spec},
    world::running,
};

const METRICS: &str = r#"# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs that have been requested
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.35",resource="flowschemas",subresource="",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.35",resource="flowschemas",subresource="status",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="later.k8s.io",removed_release="1.36",resource="things",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="never.k8s.io",removed_release="1.35",resource="things",subresource="",version="v1beta1"} 0
apiserver_requested_deprecated_apis{group="odd\"}.io",removed_release="1.9",resource="odd, things",version="v1"} 1
apiserver_requested_deprecated_apis{group="cut off
apiserver_requested_deprecated_apis_total{group="other",removed_release="1.20"} 1
process_cpu_seconds_total 12.5
"#;

fn flow_schemas() -> RemovedApi {
    RemovedApi {
        group: "flowcontrol.apiserver.k8s.io".to_owned(),
        version: "v1beta3".to_owned(),
        resource: "flowschemas".to_owned(),
        release: "1.35".to_owned(),
    }
}

#[test]
fn only_what_was_called_and_is_gone_with_the_release_is_found() {
    let found = |version: &str| removed_in(version.parse().unwrap(), METRICS);
    let odd = RemovedApi {
        group: "odd\"}.io".to_owned(),
        version: "v1".to_owned(),
        resource: "odd, things".to_owned(),
        release: "1.9".to_owned(),
    };
    assert_eq!(found("v1.35.4"), [flow_schemas(), odd.clone()]);
    assert_eq!(found("v1.34.9"), [odd], "1.9 is before 1.34");
    assert_eq!(found("v1.36.0").len(), 3);
}

#[test]
fn an_upgrade_waits_while_somebody_calls_what_it_takes_away() {
    let release = |version: &str| spec("local", &json!({"kubernetesVersion": version}));
    let mut world = running(&release("v1.34.4"), now());
    let wanted = release("v1.35.4");
    world.removed_apis = Calls::Counted(vec![flow_schemas()]);
    let held = plan(&wanted, &world, now());
    assert!(held.changes.is_empty(), "{held}");
    assert_eq!(held.phase, Phase::Ready);
    assert!(held.wake.is_some(), "nobody tells when it is otherwise");
    let said = &held.findings.last().unwrap().message;
    for word in [
        "flowschemas of flowcontrol.apiserver.k8s.io/v1beta3",
        "removed in 1.35",
        "use a later version",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    world.removed_apis = Calls::Unanswered("connection refused".to_owned());
    let held = plan(&wanted, &world, now());
    assert!(held.changes.is_empty() && held.wake.is_some(), "{held}");
    world.removed_apis = Calls::Counted(Vec::new());
    assert_eq!(plan(&wanted, &world, now()).phase, Phase::Updating);
}

#[test]
fn a_tenant_is_asked_only_when_an_upgrade_to_another_minor_release_is_about_to_begin() {
    let release = |version: &str| spec("local", &json!({"kubernetesVersion": version}));
    let mut world = running(&release("v1.34.4"), now());
    let asks = |version: &str, world: &butler_capi::Observed| {
        upgrade_removes_apis(&release(version), world, now())
    };
    assert!(asks("v1.35.4", &world));
    assert!(!asks("v1.34.4", &world), "nothing is wanted");
    assert!(!asks("v1.34.6", &world), "a patch takes nothing away");
    assert!(!asks("v1.36.0", &world), "it cannot begin");
    world.control_plane.as_mut().unwrap().available = false;
    assert!(!asks("v1.35.4", &world), "it does not answer");
}
