//! What a spec must not say, each with its field and the rule.

use butler_api::butler::butler_config::ButlerConfigSpec;
use butler_capi::{Invalid, Raw, TenantSpec, spec::Size, validate};
use serde_json::{Value, json};

use crate::common::{cluster, merged, provider, providers};

fn check(name: &str, block: &Value, spec: &Value) -> Result<TenantSpec, Invalid> {
    let platform = ButlerConfigSpec::default();
    let raw = Raw {
        cluster: &cluster(spec),
        provider: &provider(&merged(&providers()[name], block)),
        platform: &platform,
    };
    validate(&raw)
}

/// Asserts that the spec is refused with this field and these words.
fn refused(name: &str, block: &Value, spec: &Value, field: &str, says: &str) {
    let invalid = check(name, block, spec).expect_err(says);
    let found = invalid
        .faults
        .iter()
        .any(|fault| fault.field == field && fault.rule.contains(says));
    assert!(found, "{field}: {says} is not in: {invalid}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_fault_names_its_field_and_its_rule() {
    let none = json!({});
    for (spec, field, says) in [
        (
            json!({"kubernetesVersion": "1.35"}),
            "spec.kubernetesVersion",
            "is not a Kubernetes version",
        ),
        (
            json!({"networking": {"podCIDR": "10.244.0.1/16"}}),
            "spec.networking.podCIDR",
            "host bits",
        ),
        (
            json!({"networking": {"serviceCIDR": "10.244.0.0/20"}}),
            "spec.networking.serviceCIDR",
            "shares addresses",
        ),
        (
            json!({"networking": {"podCIDR": "10.244.0.0/23"}}),
            "spec.networking.podCIDR",
            "serves 2 nodes and the pools may have 3",
        ),
        (
            json!({"workers": {"machineTemplate": {"cpu": "500m"}}}),
            "spec.workers.machineTemplate.cpu",
            "at least 1",
        ),
        (
            json!({"workers": {"machineTemplate": {"memory": "lots"}}}),
            "spec.workers.machineTemplate.memory",
            "lots",
        ),
        (
            json!({"workers": {"drainTimeout": "5x"}}),
            "spec.workers.drainTimeout",
            "is not a length of time",
        ),
        (
            json!({"workers": {"labels": {"kubernetes.io/hostname": "me"}}}),
            "spec.workers.labels",
            "may not set on its own node",
        ),
        (
            json!({"workers": {"labels": {"a b": "c"}}}),
            "spec.workers.labels",
            "is not a label key",
        ),
        (
            json!({"nodeSettings": {"kubeletArgs": {"Max_Pods": "1"}}}),
            "spec.nodeSettings.kubeletArgs[Max_Pods]",
            "is not a flag of the kubelet",
        ),
        (
            json!({"workerPools": [{"name": "workers", "replicas": 1}]}),
            "spec.workers.name",
            "names are unique",
        ),
        (
            json!({"workerPools": [{"name": "b"}]}),
            "spec.workerPools[b].replicas",
            "give either replicas",
        ),
        (
            json!({"workerPools": [{"name": "b", "minReplicas": 3, "maxReplicas": 1}]}),
            "spec.workerPools[b].minReplicas",
            "above maxReplicas",
        ),
        (
            json!({"workerPools": [{"name": "b", "replicas": 1, "rollout": {"maxSurge": 0}}]}),
            "spec.workerPools[b].rollout.maxSurge",
            "ever be replaced",
        ),
        (
            json!({"hibernation": {"schedules": [{"start": "99 * * * *", "end": "0 6 * * *"}]}}),
            "spec.hibernation.schedules[0].start",
            "is not a schedule",
        ),
        (
            json!({"maintenance": {"windows": [{"schedule": "0 2 * * 6", "timeZone": "Europe/Atlantis"}]}}),
            "spec.maintenance.windows[0].schedule",
            "Europe/Atlantis",
        ),
        (
            json!({"maintenance": {"windows": [{"schedule": "0 2 * * 6", "duration": "5m"}]}}),
            "spec.maintenance.windows[0].duration",
            "from 30m to 24h",
        ),
        (
            json!({"controlPlane": {"serviceType": "Gateway"}}),
            "spec.controlPlane.serviceType",
            "gatewayRef",
        ),
        (
            json!({"controlPlane": {"serviceType": "Ingress"}}),
            "spec.controlPlane.serviceType",
            "hostname",
        ),
        (
            json!({"nodeSettings": {"trustedCAs": ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]}}),
            "spec.nodeSettings.trustedCAs[0]",
            "is not a certificate",
        ),
        (
            json!({"workers": {"machineTemplate": {"os": {"type": "talos"}}}}),
            "spec.workers.machineTemplate.os.type",
            "join by kubeadm",
        ),
        (
            json!({"infrastructureOverride": {"gcp": {}}}),
            "spec.infrastructureOverride.gcp",
            "the cluster's provider is another one",
        ),
    ] {
        refused("local", &none, &spec, field, says);
    }
}

#[test]
fn what_a_provider_needs_is_asked_for_by_name() {
    for (name, block, spec, field, says) in [
        (
            "harvester",
            json!({"harvester": {"sshKeyPair": null}}),
            json!({}),
            "spec.providerConfigRef",
            "harvester.sshKeyPair",
        ),
        (
            "harvester",
            json!({"harvester": {"imageName": null}}),
            json!({}),
            "spec.workers.machineTemplate.os.imageRef",
            "names no image",
        ),
        (
            "proxmox",
            json!({"network": {"gateway": null}}),
            json!({}),
            "spec.providerConfigRef",
            "network.gateway",
        ),
        (
            "proxmox",
            json!({"network": {"dnsServers": []}}),
            json!({}),
            "spec.providerConfigRef",
            "network.dnsServers",
        ),
        (
            "proxmox",
            json!({}),
            json!({"workers": {"machineTemplate": {"os": {"imageRef": "rocky"}}}}),
            "spec.workers.machineTemplate.os.imageRef",
            "number of a template",
        ),
        (
            "nutanix",
            json!({}),
            json!({"workers": {"machineTemplate": {"memory": "1Gi"}}}),
            "spec.workers.machineTemplate.memory",
            "2Gi or more",
        ),
        (
            "nutanix",
            json!({}),
            json!({"infrastructureOverride": {"nutanix": {"storageContainerUUID": "x"}}}),
            "spec.infrastructureOverride.nutanix.storageContainerUUID",
            "choose another image",
        ),
        (
            "azure",
            json!({"azure": {"vnetName": null}}),
            json!({}),
            "spec.providerConfigRef",
            "azure.vnetName",
        ),
        (
            "azure",
            json!({"azure": {"imageURN": "rocky"}}),
            json!({}),
            "spec.workers.machineTemplate.os.imageRef",
            "publisher:offer:sku:version",
        ),
        (
            "gcp",
            json!({"gcp": {"zone": null}}),
            json!({}),
            "spec.workers.zone",
            "needs a zone",
        ),
        (
            "aws",
            json!({}),
            json!({"workers": {"machineTemplate": {"cpu": 500}}}),
            "spec.workers.machineTemplate.cpu",
            "AWS has no machine",
        ),
        (
            "aws",
            json!({"aws": {"imageID": null}}),
            json!({}),
            "spec.workers.machineTemplate.os.imageRef",
            "names no image",
        ),
        (
            "vsphere",
            json!({}),
            json!({"workers": {"machineTemplate": {"os": {"type": "bottlerocket"}}}, "nodeSettings": {"kubeletArgs": {"v": "4"}}}),
            "spec.nodeSettings.kubeletArgs[v]",
            "Bottlerocket",
        ),
    ] {
        refused(name, &block, &spec, field, says);
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let spec = json!({"kubernetesVersion": "x", "workers": {"machineTemplate": {"cpu": 0, "diskSize": "1Gi"}}});
    let invalid = check("local", &json!({}), &spec).unwrap_err();
    assert_eq!(invalid.faults.len(), 3, "{invalid}");
}

#[test]
fn a_schematic_does_not_take_the_place_of_an_image_and_the_remedy_is_said() {
    let block = json!({"harvester": {"imageName": null}});
    let mut wanted = json!({"workers": {"machineTemplate": {"os": {"schematicID": "376567988ad370138ad8b269"}}}});
    let field = "spec.workers.machineTemplate.os.imageRef";
    refused(
        "harvester",
        &block,
        &wanted,
        field,
        "bring it to the provider, and name it",
    );
    wanted["workers"]["machineTemplate"]["os"]["imageRef"] = json!("default/image");
    check("harvester", &block, &wanted).unwrap();
}

#[test]
fn sizes_are_rounded_up_and_never_down() {
    let spec = json!({"workers": {"machineTemplate": {"cpu": "2500m", "memory": "6500Mi", "diskSize": "100G"}}});
    let spec = check("vsphere", &json!({}), &spec).unwrap();
    let machine = spec.pools[0].machine;
    assert_eq!(
        (machine.cpu, machine.memory_mib(), machine.disk_gib()),
        (3, 6500, 94)
    );
}

#[test]
fn a_cluster_that_only_has_pools_says_zero_workers() {
    let spec = json!({"workers": {"replicas": 0}, "workerPools": [{"name": "b", "minReplicas": 1, "maxReplicas": 4}]});
    let spec = check("local", &json!({}), &spec).unwrap();
    assert_eq!(spec.pools.len(), 1);
    assert_eq!(spec.pools[0].size, Size::Between { min: 1, max: 4 });
}

#[test]
fn the_longest_names_are_refused_with_how_long_they_may_be() {
    let platform = ButlerConfigSpec::default();
    let mut object = cluster(&json!({"workerPools": [{"name": "a23456789012345", "replicas": 1}]}));
    object.metadata.name = Some("a".repeat(50));
    let provider = provider(&providers()["local"]);
    let invalid = validate(&Raw {
        cluster: &object,
        provider: &provider,
        platform: &platform,
    })
    .unwrap_err();
    assert!(invalid.to_string().contains("at most 12"), "{invalid}");
}
