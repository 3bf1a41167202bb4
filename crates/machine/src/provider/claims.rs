//! Addresses by Cluster API's contract for providers of addresses: whoever needs one makes a claim, and finds the
//! address under the name of the claim.

use std::net::IpAddr;

use butler_api::{
    addresses::{IPAddress, IPAddressClaim, IPAddressClaimSpec, PoolReference},
    butler::NetworkPool,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, core::ObjectMeta};

/// A claim on an address of a `NetworkPool`.
pub fn claim(metadata: ObjectMeta, cluster: Option<String>, pool: &str) -> IPAddressClaim {
    IPAddressClaim {
        metadata,
        spec: IPAddressClaimSpec {
            cluster_name: cluster,
            pool_ref: PoolReference {
                api_group: NetworkPool::group(&()).into_owned(),
                kind: NetworkPool::kind(&()).into_owned(),
                name: pool.to_owned(),
            },
        },
        status: None,
    }
}

/// What was given to exactly this claim: an address of the same name may be an earlier one's.
pub fn granted(claim: &IPAddressClaim, address: Option<&IPAddress>) -> Option<IpAddr> {
    let uid = claim.uid()?;
    let mut owners = address?.owner_references().iter();
    owners.find(|owner| owner.uid == uid)?;
    address?.spec.address.parse().ok()
}

/// Makes an object go after its owner.
pub(super) fn owned_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_address_of_this_very_claim_counts() {
        let metadata = ObjectMeta {
            name: Some("w1".to_owned()),
            uid: Some("new".to_owned()),
            ..ObjectMeta::default()
        };
        let claim = claim(metadata, None, "lab");
        let address = |uid: &str| -> IPAddress {
            serde_json::from_value(json!({
                "metadata": {"name": "w1", "ownerReferences": [
                    {"apiVersion": "x/v1", "kind": "IPAddressClaim", "name": "w1", "uid": uid},
                ]},
                "spec": {"address": "10.40.0.7"},
            }))
            .unwrap()
        };
        let given = granted(&claim, Some(&address("new")));
        assert_eq!(given, "10.40.0.7".parse().ok());
        assert_eq!(granted(&claim, Some(&address("old"))), None);
        assert_eq!(granted(&claim, None), None);
    }
}
