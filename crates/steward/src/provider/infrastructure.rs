//! Infrastructure clusters that want to be told the address of the control plane: which kinds, and how. Pure.

use butler_api::infrastructure::contract::ApiEndpoint;
use serde_json::{Value, json};

/// API group of the kinds below.
pub(crate) const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// How a kind takes the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In `spec.controlPlaneEndpoint`, whatever stands there.
    Endpoint,
    /// The same, and nobody else says that the infrastructure stands.
    EndpointAndReady,
    /// In `spec.controlPlaneEndpoint` while that is empty; afterwards it must be the same.
    Once,
    /// It is set by people beforehand and must be the same.
    Same,
    /// In two fields of its own.
    FixedIp,
}

/// One kind that takes the address.
struct Known {
    kind: &'static str,
    plural: &'static str,
    way: Way,
}

const fn known(kind: &'static str, plural: &'static str, way: Way) -> Known {
    Known { kind, plural, way }
}

const KNOWN: [Known; 13] = [
    known("AWSCluster", "awsclusters", Way::Endpoint),
    known("AzureCluster", "azureclusters", Way::Endpoint),
    known("HetznerCluster", "hetznerclusters", Way::Endpoint),
    known("IonosCloudCluster", "ionoscloudclusters", Way::Endpoint),
    known("LocalCluster", "localclusters", Way::Endpoint),
    known("KubevirtCluster", "kubevirtclusters", Way::EndpointAndReady),
    known("NutanixCluster", "nutanixclusters", Way::EndpointAndReady),
    known("PacketCluster", "packetclusters", Way::EndpointAndReady),
    known("ProxmoxCluster", "proxmoxclusters", Way::Once),
    known("TinkerbellCluster", "tinkerbellclusters", Way::Once),
    known("VSphereCluster", "vsphereclusters", Way::Once),
    known("Metal3Cluster", "metal3clusters", Way::Same),
    known("OpenStackCluster", "openstackclusters", Way::FixedIp),
];

/// Whether the kind takes the address from us.
pub(super) fn is_known(group: &str, kind: &str) -> bool {
    group == GROUP && KNOWN.iter().any(|known| known.kind == kind)
}

/// Whether nobody but us says that infrastructure of this kind stands.
pub(super) fn is_finished_here(kind: &str) -> bool {
    let mut known = KNOWN.iter();
    known.any(|known| known.kind == kind && known.way == Way::EndpointAndReady)
}

/// The resources that have to be read and patched, for permissions.
pub(crate) fn resources() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.plural).collect()
}

/// The resources whose status has to be patched, for permissions.
pub(crate) fn status_resources() -> Vec<String> {
    let ready = KNOWN
        .iter()
        .filter(|known| known.way == Way::EndpointAndReady);
    ready
        .map(|known| format!("{}/status", known.plural))
        .collect()
}

/// What has to be done to an infrastructure cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    /// A merge patch of the object.
    pub(super) object: Option<Value>,
    /// A merge patch of its status.
    pub(super) status: Option<Value>,
}

/// Compares the live object with the address; an error says why it cannot be told.
pub(super) fn change(kind: &str, live: &Value, endpoint: &ApiEndpoint) -> Result<Change, String> {
    let Some(known) = KNOWN.iter().find(|known| known.kind == kind) else {
        return Ok(Change::default());
    };
    let wanted = json!({"host": endpoint.host, "port": endpoint.port});
    let held = endpoint_of(live);
    let spec = |fields: Value| Some(json!({"spec": fields}));
    let write = || spec(json!({"controlPlaneEndpoint": wanted}));
    let stands = held.as_ref() == Some(&wanted);
    let object = match known.way {
        Way::FixedIp => {
            let fields = json!({"apiServerFixedIP": endpoint.host, "apiServerPort": endpoint.port});
            let stands = ["apiServerFixedIP", "apiServerPort"]
                .iter()
                .all(|field| live.pointer(&format!("/spec/{field}")) == fields.get(field));
            if stands { None } else { spec(fields) }
        }
        _ if stands => None,
        Way::Endpoint | Way::EndpointAndReady => write(),
        Way::Once if held.is_none() => write(),
        Way::Once | Way::Same => {
            let found = held.map_or_else(|| "nothing".to_owned(), |held| held.to_string());
            return Err(format!(
                "its spec.controlPlaneEndpoint is {found} and must be {wanted}; set it, or serve the control plane there"
            ));
        }
    };
    let status = (known.way == Way::EndpointAndReady && !is_ready(live))
        .then(|| json!({"status": {"ready": true, "initialization": {"provisioned": true}}}));
    Ok(Change { object, status })
}

/// The address that stands there; an empty host or port 0 is none.
fn endpoint_of(live: &Value) -> Option<Value> {
    let held = live.pointer("/spec/controlPlaneEndpoint")?;
    let host = held.get("host")?.as_str().filter(|host| !host.is_empty())?;
    let port = held.get("port")?.as_i64().filter(|port| *port != 0)?;
    Some(json!({"host": host, "port": port}))
}

/// Either contract's word: a kind knows one of them, and the other is dropped when it is written.
fn is_ready(live: &Value) -> bool {
    ["/status/ready", "/status/initialization/provisioned"]
        .iter()
        .any(|path| live.pointer(path) == Some(&Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> ApiEndpoint {
        ApiEndpoint {
            host: "fd00::1".to_owned(),
            port: 40443,
        }
    }

    fn set() -> Value {
        json!({"spec": {"controlPlaneEndpoint": {"host": "fd00::1", "port": 40443}}})
    }

    #[test]
    fn every_known_kind_is_told_once() {
        for known in KNOWN.iter().filter(|known| known.way != Way::Same) {
            let mut live = json!({"spec": {}, "status": {}});
            let first = change(known.kind, &live, &endpoint()).unwrap();
            for patch in [
                first.object.clone().unwrap(),
                first.status.unwrap_or_else(|| json!({})),
            ] {
                json_patch::merge(&mut live, &patch);
            }
            let second = change(known.kind, &live, &endpoint()).unwrap();
            assert_eq!(second, Change::default(), "{}", known.kind);
        }
    }

    #[test]
    fn openstack_has_fields_of_its_own() {
        let patch = change("OpenStackCluster", &json!({}), &endpoint())
            .unwrap()
            .object;
        let fields = json!({"apiServerFixedIP": "fd00::1", "apiServerPort": 40443});
        assert_eq!(patch, Some(json!({"spec": fields})));
    }

    #[test]
    fn an_address_that_people_set_is_never_overwritten_where_the_kind_forbids_it() {
        let other = json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.9", "port": 6443}}});
        for kind in [
            "VSphereCluster",
            "ProxmoxCluster",
            "TinkerbellCluster",
            "Metal3Cluster",
        ] {
            assert!(
                change(kind, &other, &endpoint())
                    .unwrap_err()
                    .contains("10.0.0.9"),
                "{kind}"
            );
            assert_eq!(
                change(kind, &set(), &endpoint()),
                Ok(Change::default()),
                "{kind}"
            );
        }
        assert!(change("Metal3Cluster", &json!({}), &endpoint()).is_err());
        let empty = json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}});
        assert!(
            change("VSphereCluster", &empty, &endpoint())
                .unwrap()
                .object
                .is_some()
        );
    }

    #[test]
    fn kinds_of_others_are_left_alone() {
        assert!(!is_known(GROUP, "HarvesterCluster"));
        assert!(!is_known("example.com", "LocalCluster"));
        assert!(is_known(GROUP, "LocalCluster"));
    }
}
