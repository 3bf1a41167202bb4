//! What the tests share: settings of a tenant, and a look at it.

use std::{fs, time::Duration};

use butler_api::types::KubeVersion;
use butler_runtime::task;
use butler_steward::tenant::{
    TenantSettings, plan,
    settings::{AddonImage, ControlPlaneEndpoint, KubeletSettings},
    sync::{Limits, Synced, sync},
};
use butler_testkit::{Options, Server};
use kube::Client;

/// Generous: a busy machine is slow, and a test that passes does not wait.
pub(crate) const LIMITS: Limits = Limits {
    call: Duration::from_secs(20),
    at_once: 4,
};

pub(crate) async fn server() -> Server {
    Server::start(Options::default()).await.unwrap()
}

/// Both addons on, for a control plane at this address.
pub(crate) fn settings_at(host: &str, port: u16, authority: &str) -> TenantSettings {
    TenantSettings {
        cluster_name: "ta".into(),
        version: KubeVersion::new(1, 35, 4),
        cluster_domain: "cluster.local".into(),
        pod_cidr: "10.43.0.0/16".parse().unwrap(),
        service_cidr: "10.96.0.0/16".parse().unwrap(),
        dns_service_ips: Vec::new(),
        endpoint: ControlPlaneEndpoint {
            host: host.into(),
            port,
        },
        ca_certificate: authority.into(),
        kubelet: KubeletSettings::default(),
        core_dns: Some(AddonImage::default()),
        kube_proxy: Some(AddonImage::default()),
        konnectivity: None,
        refused_writes: None,
        registry: "registry.k8s.io".into(),
    }
}

/// Settings of a tenant whose API server is this one.
pub(crate) fn settings(server: &Server) -> TenantSettings {
    let url = server.url();
    let port = url
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let authority = fs::read_to_string(server.folder().join("ca.crt")).unwrap();
    settings_at("127.0.0.1", port, &authority)
}

/// A look at which nothing may fail, on a task of its own, as controllers look.
pub(crate) async fn look(client: &Client, settings: &TenantSettings) -> Synced {
    let (client, plan) = (client.clone(), plan(settings).unwrap());
    let look = task::spawn("look", async move { sync(&client, &plan, LIMITS).await });
    let synced = look
        .join()
        .await
        .expect("a look that does not panic")
        .unwrap();
    assert!(synced.failed.is_empty(), "{:?}", synced.failed);
    assert!(synced.contested.is_empty(), "{:?}", synced.contested);
    synced
}

pub(crate) fn names(keys: &[butler_steward::tenant::ObjectKey]) -> Vec<String> {
    let mut names: Vec<_> = keys.iter().map(ToString::to_string).collect();
    names.sort();
    names
}
