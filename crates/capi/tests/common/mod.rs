//! Clusters and providers that several tests plan for.

#![allow(dead_code, reason = "every test binary uses its own part of this")]

use std::collections::BTreeMap;

use butler_api::butler::{
    butler_config::ButlerConfigSpec, provider_config::ProviderConfig, tenant_cluster::TenantCluster,
};
use butler_capi::{
    Observed, Raw, TenantSpec,
    node::{BootstrapToken, JoinTicket, TalosTrust},
    observe::{ControlPlaneState, Inputs, Standing},
    secret::Hidden,
    validate,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A certificate to trust; made once with `openssl req -x509`, valid for nothing.
pub(crate) const AUTHORITY: &str = include_str!("authority.pem");

/// The moment every test plans at.
pub(crate) fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

/// Merges `with` into `base`.
pub(crate) fn merged(base: &Value, with: &Value) -> Value {
    let mut whole = base.clone();
    merge(&mut whole, with);
    whole
}

fn merge(base: &mut Value, with: &Value) {
    match (base, with) {
        (Value::Object(base), Value::Object(with)) => {
            for (key, value) in with {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, with) => *base = with.clone(),
    }
}

/// The cluster of the product documents, with `spec` merged over it.
pub(crate) fn cluster(spec: &Value) -> TenantCluster {
    let base = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": {
            "name": "my-cluster",
            "namespace": "team-a",
            "uid": "a7b8c9d0-0000-4000-8000-000000000001",
            "labels": {"butler.butlerlabs.dev/environment": "production"},
            "annotations": {"butler.butlerlabs.dev/owner": "ada@example.com"},
        },
        "spec": {
            "kubernetesVersion": "v1.35.4",
            "teamRef": {"name": "team-a"},
            "workers": {
                "replicas": 3,
                "machineTemplate": {"cpu": 4, "memory": "8Gi", "diskSize": "100Gi"},
            },
        },
    });
    serde_json::from_value(merged(&base, &json!({ "spec": spec }))).unwrap()
}

/// A provider with this spec.
pub(crate) fn provider(spec: &Value) -> ProviderConfig {
    let object = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": {"name": "somewhere", "namespace": "butler-system"},
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// What each provider is tried with.
pub(crate) fn providers() -> BTreeMap<&'static str, Value> {
    let with = |name: &str, block: &Value| json!({"provider": name, "credentialsRef": {"name": format!("{name}-credentials")}, name: block});
    let harvester = json!({
        "endpoint": "https://harvester.example.com", "namespace": "vms", "networkName": "default/vlan40",
        "imageName": "default/image-rocky9", "sshKeyPair": "default/ada",
    });
    let mut kubevirt = harvester.clone();
    kubevirt["clusterAPIProvider"] = json!("kubevirt");
    let mut proxmox = with(
        "proxmox",
        &json!({"endpoint": "https://pve.example.com:8006", "nodes": ["pve1", "pve2"], "storage": "local-lvm",
                "templateID": 9000, "vmidRange": {"start": 1000, "end": 1999}}),
    );
    proxmox["network"] = json!({"mode": "ipam", "poolRefs": [{"name": "machines"}], "subnet": "10.40.0.0/22",
        "gateway": "10.40.0.1", "dnsServers": ["10.40.0.2"], "timeServers": ["10.40.0.3"]});
    BTreeMap::from([
        ("local", json!({"provider": "local"})),
        ("harvester", with("harvester", &harvester)),
        ("kubevirt", with("harvester", &kubevirt)),
        (
            "nutanix",
            with(
                "nutanix",
                &json!({"endpoint": "https://prism.example.com/", "clusterUUID": "0005b6f1-8f43-0000-0000-000000000000",
                        "subnetUUID": "c7938dc6-7659-453e-a688-e26020c68e43", "imageUUID": "a8938dc6-7659-453e-a688-e26020c68e43"}),
            ),
        ),
        ("proxmox", proxmox),
        (
            "vsphere",
            with(
                "vsphere",
                &json!({"server": "vcenter.example.com", "datacenter": "dc1", "datastore": "fast", "network": "VM Network",
                        "resourcePool": "butler", "folder": "tenants", "template": "rocky-9-v1.35.4",
                        "thumbprint": "AA:BB:CC"}),
            ),
        ),
        (
            "aws",
            with(
                "aws",
                &json!({"region": "eu-central-1", "vpcID": "vpc-1", "subnetIDs": ["subnet-1", "subnet-2"],
                        "securityGroupIDs": ["sg-1"], "imageID": "ami-0abcdef1234567890"}),
            ),
        ),
        (
            "azure",
            with(
                "azure",
                &json!({"subscriptionID": "00000000-0000-0000-0000-000000000000", "resourceGroup": "butler",
                        "location": "westeurope", "vnetName": "net", "subnetName": "nodes",
                        "imageURN": "resf:rockylinux-x86_64:9-base:latest"}),
            ),
        ),
        (
            "gcp",
            with(
                "gcp",
                &json!({"projectID": "butler", "region": "europe-west3", "zone": "europe-west3-a", "network": "default",
                        "subnetwork": "nodes", "imageFamily": "rocky-linux-9", "imageProject": "rocky-linux-cloud",
                        "serviceAccount": "nodes@butler.iam.gserviceaccount.com", "tags": ["butler"]}),
            ),
        ),
    ])
}

/// A spec that was found right.
pub(crate) fn spec(provider_name: &str, cluster_spec: &Value) -> TenantSpec {
    let platform = ButlerConfigSpec::default();
    let provider = provider(&providers()[provider_name]);
    let raw = Raw {
        cluster: &cluster(cluster_spec),
        provider: &provider,
        platform: &platform,
    };
    validate(&raw).unwrap_or_else(|invalid| panic!("{provider_name}: {invalid}"))
}

/// What a plan is made from beside the spec.
pub(crate) fn inputs() -> Inputs {
    let credentials = [
        ("username", "ada"),
        ("password", "a \"quoted\" password"),
        ("tenantID", "11111111-1111-1111-1111-111111111111"),
        ("clientID", "22222222-2222-2222-2222-222222222222"),
    ];
    Inputs {
        access: butler_capi::access::Audience::Unknown,
        catalogue: BTreeMap::new(),
        credentials: credentials
            .into_iter()
            .map(|(key, value)| (key.to_owned(), Hidden::new(value)))
            .collect(),
        machine_addresses: vec!["10.40.1.10-10.40.1.19".parse().unwrap()],
        address_shortage: None,
        load_balancer_ranges: Vec::new(),
        join: Some(join("abcdef.0123456789abcdef")),
        talos: Some(TalosTrust {
            authority: AUTHORITY.to_owned(),
            key: Hidden::new("the key"),
            token: Hidden::new("butler.00112233"),
        }),
    }
}

/// How machines join, with this token.
pub(crate) fn join(token: &str) -> JoinTicket {
    JoinTicket {
        endpoint: "10.40.0.201:6443".to_owned(),
        authority: AUTHORITY.to_owned(),
        token: BootstrapToken::new(token, "2026-11-16T00:00:00Z".parse().unwrap()).unwrap(),
    }
}

/// A control plane that serves this version.
pub(crate) fn serving(version: &str) -> ControlPlaneState {
    ControlPlaneState {
        wanted: version.parse().unwrap(),
        running: Some(version.parse().unwrap()),
        replicas: 1,
        initialized: true,
        available: true,
        endpoint: Some("10.40.0.201:6443".to_owned()),
        ending: false,
        message: None,
    }
}

/// A cluster whose control plane serves, and that has no machines yet.
pub(crate) fn observed() -> Observed {
    Observed {
        namespace: Standing::Ours,
        control_plane: Some(serving("v1.35.4")),
        inputs: inputs(),
        ..Observed::default()
    }
}
