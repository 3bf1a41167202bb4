//! The objects as text, so that a change to them is seen by whoever reviews it.
//!
//! `BUTLER_UPDATE_GOLDEN=1 cargo test -p butler-steward --test tenant golden` writes them anew.

use std::{env, fmt::Write as _, fs, path::PathBuf};

use butler_steward::tenant::{
    TenantPlan, TenantSettings, plan,
    settings::{AddonImage, AgentMode, CgroupDriver, KonnectivityAgents, RefusedWrites},
};
use serde_json::json;

use crate::stage::settings_at;

fn settings() -> TenantSettings {
    settings_at(
        "10.40.0.201",
        6443,
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    )
}

fn text(plan: &TenantPlan) -> String {
    let mut text = String::new();
    for object in &plan.objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object.body).unwrap());
    }
    for key in &plan.retired {
        writeln!(text, "# removed where it is ours: {key}").unwrap();
    }
    text
}

fn compare(name: &str, settings: &TenantSettings) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/tenant")
        .join(format!("{name}.yaml"));
    let made = text(&plan(settings).unwrap());
    if env::var_os("BUTLER_UPDATE_GOLDEN").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let held = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        held == made,
        "{} is no longer what is planned:\n{made}",
        file.display()
    );
}

#[test]
fn a_tenant_with_both_addons() {
    compare("addons", &settings());
}

#[test]
fn a_tenant_that_brings_its_own_network_and_names() {
    let patches = json!([{ "op": "add", "path": "/maxPods", "value": 50 }]);
    let mut settings = TenantSettings {
        core_dns: None,
        kube_proxy: None,
        ..settings()
    };
    settings.endpoint.host = "api.ta.example.com".into();
    settings.kubelet.cgroup_driver = Some(CgroupDriver::Cgroupfs);
    settings.kubelet.patches = serde_json::from_value(patches).unwrap();
    compare("bare", &settings);
}

#[test]
fn a_tenant_that_takes_no_writes() {
    let settings = TenantSettings {
        core_dns: None,
        kube_proxy: None,
        refused_writes: Some(RefusedWrites {
            creation: false,
            update: true,
            deletion: true,
        }),
        ..settings()
    };
    compare("frozen", &settings);
}

#[test]
fn a_tenant_with_two_families_a_mirror_and_a_tunnel() {
    let agents = KonnectivityAgents {
        image: "mirror.example.com/k8s/proxy-agent:v0.34.0".into(),
        mode: AgentMode::Deployment(2),
        server_host: "10.40.0.201".into(),
        server_port: 8132,
        host_network: true,
        tolerations: vec![json!({ "key": "CriticalAddonsOnly", "operator": "Exists" })],
        extra_args: vec!["--sync-interval=5s".into()],
    };
    let settings = TenantSettings {
        cluster_domain: "tenant.example".into(),
        dns_service_ips: vec!["10.96.0.10".parse().unwrap(), "fd00:96::a".parse().unwrap()],
        core_dns: Some(AddonImage {
            repository: None,
            tag: Some("v1.14.2".into()),
        }),
        konnectivity: Some(agents),
        registry: "mirror.example.com/k8s".into(),
        ..settings()
    };
    compare("mirror", &settings);
}
