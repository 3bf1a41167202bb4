//! Control planes of several kinds, and what their objects are made from.

use butler_api::steward::TenantControlPlane;
use butler_steward::{
    endpoint::{self, Endpoint, Observed},
    spec::{self, ControlPlane},
    workload::{AuditFiles, Hashes, Inputs, Store, StoreOverride, encryption},
};
use serde_json::{Value, json};

/// A control plane with this spec, laid over the smallest one that is right.
pub(crate) fn plane(over: &Value) -> ControlPlane {
    let mut object = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": { "namespace": "team-a", "name": "prod", "uid": "5e8c", "generation": 1 },
        "spec": {
            "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
            "kubernetes": { "version": "v1.35.4" },
        },
    });
    json_patch::merge(&mut object, over);
    let object: TenantControlPlane = serde_json::from_value(object).unwrap();
    spec::validate(&object).unwrap()
}

/// Everything turned on that can be.
pub(crate) fn everything() -> ControlPlane {
    plane(&json!({"spec": {
        "kubernetes": {
            "kubelet": {"configurationJSONPatches": [
                {"op": "add", "path": "/serverTLSBootstrap", "value": true},
            ]},
            "admissionControllers": ["PodSecurityPolicy", "AlwaysPullImages", "EventRateLimit"],
            "audit": {
                "policy": {"rules": [{"level": "Metadata"}]},
                "webhookKubeconfigSecretRef": {"name": "audit-sink", "key": "kubeconfig"},
            },
            "authentication": {"oidc": {
                "issuerURL": "https://id.example.com", "clientID": "kubernetes",
                "groupsClaim": "groups", "groupsPrefix": "oidc:", "requiredClaims": {"hd": "example.com"},
            }},
            "encryption": {"resources": ["secrets", "configmaps"]},
        },
        "networkProfile": {
            "address": "198.51.100.5", "port": 443, "clusterDomain": "tenant.example",
            "certSANs": ["api.example.com"], "loadBalancerClass": "example.com/lb",
            "loadBalancerSourceRanges": ["192.0.2.0/24"],
        },
        "addons": {"konnectivity": {"server": {"extraArgs": ["--v=4"]}}},
        "controlPlane": {
            "service": {
                "additionalMetadata": {"annotations": {"example.com/pool": "public"}},
                "additionalPorts": [{"name": "kms", "port": 9000, "targetPort": "kms"}],
            },
            "deployment": deployment(),
        },
    }}))
}

fn deployment() -> Value {
    json!({
        "replicas": 3,
        "registrySettings": {"registry": "mirror.example.com:5000/k8s", "tagSuffix": "-hardened"},
        "nodeSelector": {"role": "tenants"},
        "runtimeClassName": "gvisor",
        "priorityClassName": "tenant-critical",
        "tolerations": [{"key": "tenants", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
        ],
        "serviceAccountName": "tenant",
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "resources": {"apiServer": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
        "extraArgs": {
            "apiServer": [
                "--service-account-issuer=https://issuer.example.com",
                "--authorization-config=/etc/authz/config.yaml",
                "--disable-admission-plugins=EventRateLimit",
                "--v=2",
            ],
            "controllerManager": ["--controllers=*"],
            "scheduler": ["--v=3"],
        },
        "additionalMetadata": {"labels": {"cost-centre": "42"}},
        "podAdditionalMetadata": {"annotations": {"example.com/scrape": "true"}},
        "additionalInitContainers": [{"name": "prepare", "image": "example.com/prepare:1"}],
        "additionalContainers": [{
            "name": "kms", "image": "example.com/kms:1",
            "ports": [{"name": "kms", "containerPort": 9000}],
        }],
        "additionalVolumes": [{"name": "authz", "configMap": {"name": "authz"}}],
        "additionalVolumeMounts": {"apiServer": [{"name": "authz", "mountPath": "/etc/authz"}]},
    })
}

/// A Service that its cluster has done everything for.
pub(crate) fn observed() -> Observed {
    let service = json!({
        "spec": {"clusterIPs": ["10.96.7.7"], "ports": [
            {"name": "kube-apiserver", "port": 6443, "nodePort": 31443},
            {"name": "konnectivity-server", "port": 8132, "nodePort": 31132},
        ]},
        "status": {"loadBalancer": {"ingress": [{"ip": "10.40.0.201"}]}},
    });
    Observed::of(&serde_json::from_value(service).unwrap())
}

/// The endpoint of a control plane with that Service.
pub(crate) fn endpoint(spec: &ControlPlane) -> Endpoint {
    endpoint::resolve(spec, &observed(), "cluster.local").unwrap()
}

/// What objects depend on besides.
pub(crate) fn inputs(spec: &ControlPlane) -> Inputs {
    let hash = |name: &str| format!("hash-of-{name}");
    Inputs {
        version: spec.version,
        store: Store {
            endpoints: vec![
                "https://etcd-0.etcd:2379".into(),
                "https://etcd-1.etcd:2379".into(),
            ],
            prefix: "/steward-5e8c".into(),
            certificate_secret: "prod-datastore-certificate".into(),
            overrides: Vec::new(),
        },
        hashes: Hashes {
            ca: hash("ca"),
            front_proxy_ca: hash("front-proxy-ca"),
            service_account: hash("service-account"),
            api_server: hash("api-server"),
            kubelet_client: hash("kubelet-client"),
            front_proxy_client: hash("front-proxy-client"),
            data_store: hash("data-store"),
            controller_manager_kubeconfig: hash("controller-manager-kubeconfig"),
            scheduler_kubeconfig: hash("scheduler-kubeconfig"),
            konnectivity_kubeconfig: Some(hash("konnectivity-kubeconfig")),
        },
        audit: AuditFiles {
            policy: None,
            webhook: Some(b"a kubeconfig".to_vec()),
        },
        encryption: encryption::Facts {
            fresh: true,
            keys: vec![encryption::Key {
                name: "key-1".into(),
                secret: vec![7; 32],
            }],
            ..encryption::Facts::default()
        },
        failed_rollout: None,
    }
}

/// The same, with events in a store of their own.
pub(crate) fn inputs_with_override(spec: &ControlPlane) -> Inputs {
    let mut inputs = inputs(spec);
    inputs.store.overrides = vec![StoreOverride {
        resource: "/events".into(),
        endpoints: vec![
            "https://events-0:2379".into(),
            "https://events-1:2379".into(),
        ],
    }];
    inputs
}
