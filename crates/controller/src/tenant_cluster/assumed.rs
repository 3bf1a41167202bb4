//! What a preview cannot know, made up, so that the rest can be shown all the same; and said, so that nobody takes it for
//! true.

use butler_api::types::AddressRange;
use butler_capi::{
    Object, Observed, TenantSpec, addresses,
    node::{self, BootstrapToken, JoinTicket, TOKEN_LIFE},
    plan,
    secret::Hidden,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::{join, observe};

/// Addresses that are for examples, and nobody has.
const ADDRESSES: &str = "192.0.2.1-192.0.2.254";
/// An API server that nobody has.
const ENDPOINT: &str = "192.0.2.1:6443";

/// How machines of a cluster that stands join it, from the Secrets beside it.
pub(super) fn read_joining(spec: &TenantSpec, seen: &mut Observed, secrets: &[Value]) {
    let secret = |name: &str| {
        let found = secrets.iter().find(|it| observe::id(it).name == name)?;
        serde_json::from_value::<Secret>(found.clone()).ok()
    };
    let identity = &spec.identity;
    seen.inputs.talos = secret(&identity.trust()).and_then(|it| node::kept_trust(&it));
    let endpoint = seen.control_plane.as_ref();
    let endpoint = endpoint.and_then(|held| held.endpoint.clone());
    let token = secret(&identity.join()).and_then(|it| node::kept_token(&it));
    let authority = secret(&join::authority_name(identity));
    let authority = authority.and_then(|it| join::certificate(&it));
    if let (Some(endpoint), Some(token), Some(authority)) = (endpoint, token, authority) {
        seen.inputs.join = Some(JoinTicket {
            endpoint,
            authority,
            token,
        });
    }
}

/// Makes up what a plan needs and nobody could say, and tells what that is.
pub fn assume(spec: &TenantSpec, observed: &mut Observed, now: Timestamp) -> Vec<String> {
    let mut assumed = Vec::new();
    let keys = spec.infrastructure.keys();
    if observed.inputs.credentials.is_empty() && !keys.is_empty() {
        let made = keys
            .iter()
            .map(|key| ((*key).to_owned(), Hidden::new("assumed")));
        observed.inputs.credentials.extend(made);
        assumed.push(format!(
            "the credentials of the provider hold {}: they were not read, and what stands of them is taken for right",
            keys.join(" and ")
        ));
    }
    let needed = addresses::of_machines(spec, observed);
    if let Some(needed) = needed.filter(|_| observed.inputs.machine_addresses.is_empty()) {
        let range: Option<AddressRange> = ADDRESSES.parse().ok();
        observed.inputs.machine_addresses.extend(range);
        assumed.push(format!(
            "the machines have the {needed} addresses that they need: no pool of the provider was asked"
        ));
    }
    // What machines that stand were told is known from them, or not to be guessed: another guess would replace them.
    if node::needs_ticket(spec) && observed.inputs.join.is_none() && observed.pools.is_empty() {
        assume_joining(spec, observed, now);
        assumed.push(
            "the control plane says how machines join it: what they are told, and the names of its Secrets, are made up"
                .to_owned(),
        );
    }
    if !assumed.is_empty() {
        believe(spec, observed, now);
    }
    assumed
}

fn assume_joining(spec: &TenantSpec, observed: &mut Observed, now: Timestamp) {
    let made = join::new_trust(spec.identity.cluster(), now).ok();
    let expires = now.checked_add(TOKEN_LIFE).unwrap_or(Timestamp::MAX);
    let token = BootstrapToken::new("assume.0000000000000000", expires).ok();
    observed.inputs.join = made.as_ref().zip(token).map(|(made, token)| JoinTicket {
        endpoint: ENDPOINT.to_owned(),
        authority: made.authority.clone(),
        token,
    });
    if node::needs_trust(spec) && observed.inputs.talos.is_none() {
        observed.inputs.talos = made;
    }
}

/// What stands and may say something that was made up here is taken for what it should be.
fn believe(spec: &TenantSpec, observed: &mut Observed, now: Timestamp) {
    for object in plan(spec, observed, now).objects {
        let is_made_up = matches!(object, Object::Secret(_) | Object::Infrastructure(_))
            && !object.id().kind.ends_with("Template");
        if let Some(held) = observed.objects.get_mut(&object.id())
            && is_made_up
        {
            *held = Some(object.hash());
        }
    }
}

#[cfg(test)]
mod tests {
    use butler_api::butler::butler_config::ButlerConfigSpec;
    use butler_capi::{Raw, validate};
    use serde_json::json;

    use super::*;
    use crate::tenant_cluster::preview::foresee;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn spec(provider: &Value, os: &str) -> TenantSpec {
        let object = |kind: &str, name: &str, spec: &Value| {
            json!({
                "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": kind, "spec": spec,
                "metadata": {"name": name, "namespace": "team-a", "uid": "12345678-0000"},
            })
        };
        let wish = json!({
            "kubernetesVersion": "v1.35.4",
            "workers": {"replicas": 2, "machineTemplate": {"os": {"type": os}}},
        });
        let raw = Raw {
            cluster: &serde_json::from_value(object("TenantCluster", "demo", &wish)).unwrap(),
            provider: &serde_json::from_value(object("ProviderConfig", "some", provider)).unwrap(),
            platform: &ButlerConfigSpec::default(),
        };
        validate(&raw).unwrap()
    }

    fn providers() -> [Value; 3] {
        let secret = json!({"name": "creds"});
        [
            json!({"provider": "nutanix", "credentialsRef": secret, "nutanix": {
                "endpoint": "https://prism.example.com/", "clusterUUID": "0005b6f1-8f43-0000-0000-000000000000",
                "subnetUUID": "c7938dc6-7659-453e-a688-e26020c68e43", "imageUUID": "a8938dc6-7659-453e-a688-e26020c68e43"}}),
            json!({"provider": "azure", "credentialsRef": secret, "azure": {
                "subscriptionID": "00000000-0000-0000-0000-000000000000", "resourceGroup": "butler",
                "location": "westeurope", "vnetName": "net", "subnetName": "nodes",
                "imageURN": "resf:rockylinux-x86_64:9-base:latest"}}),
            json!({"provider": "proxmox", "credentialsRef": secret,
                "network": {"mode": "ipam", "subnet": "10.40.0.0/22", "gateway": "10.40.0.1", "dnsServers": ["10.40.0.2"]},
                "proxmox": {"endpoint": "https://pve.example.com:8006", "nodes": ["pve1"], "storage": "fast", "templateID": 9000}}),
        ]
    }

    #[test]
    fn every_provider_and_every_system_is_foreseen_down_to_its_pool_and_what_was_made_up_is_said() {
        for provider in providers() {
            for os in ["rocky", "talos", "flatcar", "bottlerocket", "kairos"] {
                let spec = spec(&provider, os);
                let mut fresh = Observed::default();
                let assumed = assume(&spec, &mut fresh, now());
                assert_eq!(
                    assumed.iter().any(|it| it.contains("how machines join")),
                    os != "rocky",
                    "{assumed:?}"
                );
                assert!(!assumed.is_empty());
                let steps = foresee(&spec, fresh, now());
                let made: Vec<String> = steps
                    .iter()
                    .flat_map(|step| step.changes.create.iter().map(ToString::to_string))
                    .collect();
                let pool = "MachineDeployment demo-workers".to_owned();
                assert!(made.contains(&pool), "{provider} {os}: {made:?}");
                let waits = &steps.last().unwrap().waits;
                for word in ["no key", "no addresses", "how machines join"] {
                    assert!(!waits.iter().any(|it| it.contains(word)), "{os}: {waits:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_made_up_changes_nothing_that_stands() {
        let [nutanix, azure, _] = providers();
        for provider in [nutanix, azure] {
            let spec = spec(&provider, "rocky");
            let mut observed = Observed::default();
            assume(&spec, &mut observed, now());
            let mut standing = observed.clone();
            for step in foresee(&spec, observed, now()) {
                crate::tenant_cluster::preview::come_true(&spec, &mut standing, &step);
            }
            // Nobody knows what the credentials really hold.
            standing.inputs.credentials.clear();
            for (id, hash) in &mut standing.objects {
                if id.kind == "Secret" || id.kind == "AzureClusterIdentity" {
                    *hash = Some("of what is really there".to_owned());
                }
            }
            assume(&spec, &mut standing, now());
            let rest = foresee(&spec, standing, now());
            assert!(rest[0].changes.is_empty(), "{}", rest[0]);
        }
    }
}
