//! What the objects of control planes have, and what moves them.

use k8s_openapi::api::core::v1::{Container, PodSpec, VolumeProjection};
use serde_json::{Value, json};

use super::*;
use crate::{
    endpoint::{self, Balancer, Observed},
    spec::fixture::plane,
};

mod encryption;
mod release;

fn endpoint(spec: &ControlPlane) -> Endpoint {
    let seen = Observed {
        balancer: vec![Balancer::Address([10, 40, 0, 201].into())],
        ..Observed::default()
    };
    endpoint::resolve(spec, &seen, "cluster.local").unwrap()
}

fn inputs(spec: &ControlPlane) -> Inputs {
    Inputs {
        version: spec.version,
        store: Store {
            endpoints: vec!["https://etcd:2379".into()],
            prefix: "/t".into(),
            certificate_secret: "prod-datastore-certificate".into(),
            overrides: Vec::new(),
        },
        hashes: Hashes::default(),
        audit: AuditFiles::default(),
        encryption: super::encryption::Facts::default(),
        failed_rollout: None,
    }
}

/// The objects of a control plane that has nothing behind it.
pub(crate) fn objects_of(spec: &ControlPlane) -> Objects {
    made(spec, &inputs(spec))
}

fn made(spec: &ControlPlane, inputs: &Inputs) -> Objects {
    objects(spec, &endpoint(spec), inputs)
}

fn pod(over: &Value) -> PodSpec {
    let spec = plane(over);
    let deployment = made(&spec, &inputs(&spec)).deployment;
    deployment.spec.unwrap().template.spec.unwrap()
}

fn container<'a>(pod: &'a PodSpec, name: &str) -> &'a Container {
    pod.containers
        .iter()
        .find(|container| container.name == name)
        .unwrap()
}

fn flags(pod: &PodSpec, name: &str) -> Vec<String> {
    container(pod, name).command.clone().unwrap()
}

/// The keys of Secrets that a container sees, as `secret/key`.
fn secrets_of(pod: &PodSpec, container: &Container) -> Vec<String> {
    let mounted = |name: &str| {
        let mut mounts = container.volume_mounts.iter().flatten();
        mounts.any(|mount| mount.name == name)
    };
    let volumes = pod
        .volumes
        .iter()
        .flatten()
        .filter(|volume| mounted(&volume.name));
    let keys = |source: VolumeProjection| {
        let secret = source.secret.unwrap_or_default();
        let items = secret.items.unwrap_or_default().into_iter();
        items
            .map(|item| format!("{}/{}", secret.name, item.key))
            .collect::<Vec<_>>()
    };
    let projected = volumes
        .filter_map(|volume| volume.projected.clone()?.sources)
        .flatten();
    projected.flat_map(keys).collect()
}

#[test]
fn only_the_controller_manager_holds_the_key_of_the_authority() {
    let pod = pod(&json!({"spec": {"addons": {"konnectivity": {}}}}));
    for part in &pod.containers {
        let has = secrets_of(&pod, part).contains(&"prod-ca/ca.key".to_owned());
        assert_eq!(has, part.name == names::CONTROLLER_MANAGER, "{}", part.name);
    }
    let front_proxy = "prod-front-proxy-ca-certificate/front-proxy-ca.key".to_owned();
    assert!(
        pod.containers
            .iter()
            .all(|part| !secrets_of(&pod, part).contains(&front_proxy))
    );
}

#[test]
fn every_container_runs_with_the_least_rights() {
    let pod = pod(&json!({"spec": {"addons": {"konnectivity": {}}}}));
    assert_eq!(pod.automount_service_account_token, Some(false));
    let all = pod.security_context.clone().unwrap();
    assert_eq!(
        (all.run_as_non_root, all.run_as_user),
        (Some(true), Some(65532))
    );
    assert_eq!(all.seccomp_profile.unwrap().type_, "RuntimeDefault");
    assert_eq!(all.sysctls, None);
    for container in &pod.containers {
        let own = container.security_context.clone().unwrap();
        assert_eq!(own.read_only_root_filesystem, Some(true));
        assert_eq!(own.allow_privilege_escalation, Some(false));
        assert_eq!(own.capabilities.unwrap().drop, Some(vec!["ALL".to_owned()]));
    }
}

#[test]
fn a_port_below_1024_is_opened_to_the_user_that_is_not_root() {
    let pod = pod(&json!({"spec": {"networkProfile": {"port": 443}}}));
    let sysctls = pod.security_context.unwrap().sysctls.unwrap();
    assert_eq!(sysctls[0].name, "net.ipv4.ip_unprivileged_port_start");
}

#[test]
fn the_managers_never_take_the_api_away() {
    let pod = pod(&json!({}));
    for name in [names::CONTROLLER_MANAGER, names::SCHEDULER] {
        let manager = container(&pod, name);
        assert!(manager.readiness_probe.is_none() && manager.startup_probe.is_some());
        let flags = flags(&pod, name);
        assert!(flags.contains(&"--leader-elect=true".to_owned()));
        assert!(
            flags
                .iter()
                .any(|flag| flag.starts_with("--requestheader-client-ca-file="))
        );
    }
}

#[test]
fn scaling_replaces_no_pod() {
    let print = |replicas: u8| {
        let spec =
            plane(&json!({"spec": {"controlPlane": {"deployment": {"replicas": replicas}}}}));
        fingerprint(&made(&spec, &inputs(&spec)).deployment)
    };
    assert_eq!(print(1), print(3));
    assert_eq!(print(1), print(0));
}

#[test]
fn a_changed_secret_replaces_pods_exactly_when_they_mount_it() {
    let print = |spec: &ControlPlane, inputs: &Inputs| fingerprint(&made(spec, inputs).deployment);
    let spec = plane(&json!({}));
    let before = print(&spec, &inputs(&spec));
    let mounted: [fn(&mut Hashes) -> &mut String; 9] = [
        |hashes| &mut hashes.ca,
        |hashes| &mut hashes.front_proxy_ca,
        |hashes| &mut hashes.service_account,
        |hashes| &mut hashes.api_server,
        |hashes| &mut hashes.kubelet_client,
        |hashes| &mut hashes.front_proxy_client,
        |hashes| &mut hashes.data_store,
        |hashes| &mut hashes.controller_manager_kubeconfig,
        |hashes| &mut hashes.scheduler_kubeconfig,
    ];
    for field in mounted {
        let mut inputs = inputs(&spec);
        "changed".clone_into(field(&mut inputs.hashes));
        assert_ne!(print(&spec, &inputs), before);
    }
    let mut inputs = inputs(&spec);
    inputs.hashes.konnectivity_kubeconfig = Some("changed".into());
    inputs.audit.policy = Some("changed".into());
    inputs.audit.webhook = Some(b"changed".to_vec());
    assert_eq!(print(&spec, &inputs), before);
}

#[test]
fn a_flag_that_leaves_the_spec_leaves_the_pod() {
    let with = |flag: &str| {
        let args =
            json!({"spec": {"controlPlane": {"deployment": {"extraArgs": {"apiServer": [flag]}}}}});
        flags(&pod(&args), names::API_SERVER)
    };
    let (first, second) = (with("--v=2"), with("--profiling=false"));
    assert_eq!(first.len(), second.len());
    assert!(!second.contains(&"--v=2".to_owned()));
}

#[test]
fn a_user_overrides_a_flag_in_every_component() {
    let pod = pod(
        &json!({"spec": {"controlPlane": {"deployment": {"extraArgs": {
            "apiServer": ["--allow-privileged=false", "--tls-sni-cert-key=/a", "--tls-sni-cert-key=/b"],
            "controllerManager": ["--controllers=*"],
            "scheduler": ["--leader-elect-lease-duration=30s"],
        }}}}}),
    );
    let of = |name: &str, flag: &str| {
        let flags = flags(&pod, name).into_iter();
        flags
            .filter(|text| text.starts_with(flag))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(names::API_SERVER, "--allow-privileged"),
        ["--allow-privileged=false"]
    );
    assert_eq!(of(names::API_SERVER, "--tls-sni").len(), 2);
    assert_eq!(
        of(names::CONTROLLER_MANAGER, "--controllers"),
        ["--controllers=*"]
    );
    assert_eq!(of(names::SCHEDULER, "--leader-elect-lease").len(), 1);
}

#[test]
fn a_new_issuer_of_tokens_does_not_end_the_old_one() {
    let pod = pod(&json!({"spec": {
        "networkProfile": {"clusterDomain": "tenant.example"},
        "controlPlane": {"deployment": {"extraArgs": {"apiServer": ["--service-account-issuer=https://new"]}}},
    }}));
    let flags = flags(&pod, names::API_SERVER).into_iter();
    let issuers: Vec<String> = flags.filter(|flag| flag.contains("issuer=")).collect();
    assert_eq!(
        issuers,
        [
            "--service-account-issuer=https://new",
            "--service-account-issuer=https://kubernetes.default.svc.tenant.example",
        ]
    );
}

#[test]
fn node_restriction_is_on_until_somebody_says_otherwise() {
    let plugins = |over: &Value| {
        let flags = flags(&pod(over), names::API_SERVER).into_iter();
        flags
            .filter(|flag| flag.starts_with("--enable-admission-plugins="))
            .collect::<String>()
    };
    assert!(plugins(&json!({})).contains("NodeRestriction"));
    let forgotten = json!({"spec": {"kubernetes": {"admissionControllers": ["AlwaysPullImages"]}}});
    assert!(plugins(&forgotten).contains("NodeRestriction"));
    let off = "--disable-admission-plugins=NodeRestriction,Priority";
    let said =
        json!({"spec": {"controlPlane": {"deployment": {"extraArgs": {"apiServer": [off]}}}}});
    let plugins = plugins(&said);
    assert!(
        !plugins.contains("NodeRestriction") && !plugins.contains("Priority"),
        "{plugins}"
    );
}

#[test]
fn kubelets_are_verified_once_the_cluster_signs_for_them() {
    let flag = "--kubelet-certificate-authority=/etc/kubernetes/pki/ca.crt".to_owned();
    assert!(!flags(&pod(&json!({})), names::API_SERVER).contains(&flag));
    let signed = json!({"spec": {"kubernetes": {"kubelet": {"configurationJSONPatches": [
        {"op": "add", "path": "/serverTLSBootstrap", "value": true},
    ]}}}});
    assert!(flags(&pod(&signed), names::API_SERVER).contains(&flag));
}

#[test]
fn a_budget_is_kept_above_one_pod() {
    for (replicas, budget) in [(0, false), (1, false), (2, true)] {
        let spec =
            plane(&json!({"spec": {"controlPlane": {"deployment": {"replicas": replicas}}}}));
        assert_eq!(
            made(&spec, &inputs(&spec)).disruption_budget.is_some(),
            budget
        );
    }
}

#[test]
fn a_node_port_is_asked_for_where_the_spec_names_one() {
    let asked = |port: u16| {
        let spec = plane(&json!({"spec": {
            "controlPlane": {"service": {"serviceType": "NodePort"}}, "networkProfile": {"port": port},
        }}));
        service(&spec).spec.unwrap().ports.unwrap()[0].node_port
    };
    assert_eq!(asked(30443), Some(30443));
    assert_eq!(asked(6443), None);
}

#[test]
fn ranges_of_clients_can_be_cleared() {
    let ranges = |list: Value| {
        let spec = plane(&json!({"spec": {"networkProfile": {"loadBalancerSourceRanges": list}}}));
        service(&spec).spec.unwrap().load_balancer_source_ranges
    };
    assert_eq!(
        ranges(json!(["10.0.0.0/8"])),
        Some(vec!["10.0.0.0/8".to_owned()])
    );
    assert_eq!(ranges(json!([])), None);
}

#[test]
fn a_pod_range_that_nodes_cannot_share_out_gets_a_mask_that_fits() {
    let mask = |pods: &str, services: &str| {
        let pod =
            pod(&json!({"spec": {"networkProfile": {"podCidr": pods, "serviceCidr": services}}}));
        let flags = flags(&pod, names::CONTROLLER_MANAGER).into_iter();
        flags
            .filter(|flag| flag.starts_with("--node-cidr-mask-size"))
            .collect::<String>()
    };
    assert_eq!(mask("10.244.0.0/16", "10.96.0.0/16"), "");
    assert_eq!(
        mask("fd00:244::/32", "fd00:96::/112"),
        "--node-cidr-mask-size=48"
    );
}

#[test]
fn keys_are_never_printed() {
    let spec = plane(&json!({"spec": {"kubernetes": {"encryption": {}}}}));
    let mut inputs = inputs(&spec);
    inputs.encryption.keys = vec![super::encryption::Key {
        name: "k".into(),
        secret: b"hidden-hidden-hidden-hidden-hidd".to_vec(),
    }];
    let objects = made(&spec, &inputs);
    inputs.encryption.live = Some(b"hidden".to_vec());
    let printed = format!("{objects:?} {inputs:?}");
    // 104, 105: how a list of bytes would begin.
    assert!(!printed.contains("hidden") && !printed.contains("104, 105"));
    assert!(printed.contains("prod-encryption"));
}
