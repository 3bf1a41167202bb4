//! Which Services have which load-balancer address, as claims on the platform's pool. Pure.
//!
//! Claims are the platform's own objects. What the status of a Service says it has is not read, so no tenant can take
//! over an address of somebody else or make it look taken.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::Ipv4Addr,
};

use butler_fabric::Layout;
use sha2::{Digest as _, Sha256};

use super::world::View;

/// The management cluster among the others, which are called by a UID.
pub const MANAGEMENT_CLUSTER: &str = "management";
/// What one tenant may have, so that nobody takes all of them.
const MOST: usize = 16;

/// Addresses by cluster, and there by namespace and name.
pub type Given = BTreeMap<String, BTreeMap<String, Ipv4Addr>>;

/// A Service that is to have an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    /// The cluster it is in.
    pub cluster: String,
    /// Its namespace and name, with a slash between.
    pub service: String,
}

impl Wish {
    /// The name of its claim: the same for as long as the Service has its name, and no other's.
    pub fn claim(&self) -> String {
        let mut name = "lb-".to_owned();
        let digest = Sha256::digest(format!("{}\n{}", self.cluster, self.service));
        for byte in digest.iter().take(10) {
            // Writing to a text cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}

/// A claim, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub wish: Wish,
    /// What it was given.
    pub address: Option<Ipv4Addr>,
}

/// What is to be done about claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Claims to make.
    pub make: Vec<Wish>,
    /// Claims to delete, by name.
    pub drop: Vec<String>,
}

/// Decides. `known` are the clusters that there are; of one that was not heard of nothing is taken back.
pub fn plan(known: &BTreeSet<String>, views: &BTreeMap<String, View>, held: &[Claim]) -> Changes {
    let mut changes = Changes::default();
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in held {
        let Wish { cluster, service } = &claim.wish;
        let wanted = match views.get(cluster) {
            _ if !known.contains(cluster) => false,
            None => true,
            Some(view) => view.services.iter().any(|it| it.name == *service),
        };
        if wanted {
            *kept.entry(cluster).or_default() += 1;
        } else {
            changes.drop.push(claim.name.clone());
        }
    }
    for (cluster, view) in views.iter().filter(|(id, _)| known.contains(*id)) {
        let kept = kept.get(cluster.as_str()).copied().unwrap_or_default();
        let most = if cluster == MANAGEMENT_CLUSTER {
            usize::MAX
        } else {
            MOST
        };
        let services = view.services.iter().map(|service| Wish {
            cluster: cluster.clone(),
            service: service.name.clone(),
        });
        let new = services.filter(|wish| held.iter().all(|claim| claim.wish != *wish));
        changes.make.extend(new.take(most.saturating_sub(kept)));
    }
    changes
}

/// What everybody has.
pub fn given(layout: Layout, held: &[Claim]) -> Given {
    let mut given = Given::new();
    for Claim { wish, address, .. } in held {
        if let Some(address) = address.filter(|address| layout.balancers().contains(address)) {
            let own = given.entry(wish.cluster.clone()).or_default();
            own.insert(wish.service.clone(), address);
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::{super::world::SeenService, *};

    fn view(services: &[&str]) -> View {
        let service = |name: &&str| SeenService {
            name: (*name).to_owned(),
            held: None,
            health_port: None,
            port: None,
        };
        View {
            nodes: Vec::new(),
            services: services.iter().map(service).collect(),
        }
    }

    fn wish(cluster: &str, service: &str) -> Wish {
        Wish {
            cluster: cluster.to_owned(),
            service: service.to_owned(),
        }
    }

    fn claim(cluster: &str, service: &str, address: Option<&str>) -> Claim {
        let wish = wish(cluster, service);
        Claim {
            name: wish.claim(),
            wish,
            address: address.map(|it| it.parse().unwrap()),
        }
    }

    fn known(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|it| (*it).to_owned()).collect()
    }

    fn views(all: &[(&str, &[&str])]) -> BTreeMap<String, View> {
        let each = all.iter().map(|(id, it)| ((*id).to_owned(), view(it)));
        each.collect()
    }

    #[test]
    fn a_service_asks_once_and_its_claim_goes_with_it() {
        let known = known(&[MANAGEMENT_CLUSTER, "blue"]);
        let seen = views(&[
            ("blue", &["x/web", "x/api"]),
            (MANAGEMENT_CLUSTER, &["t/demo"]),
        ]);
        let held = [claim("blue", "x/web", None), claim("blue", "x/old", None)];
        let changes = plan(&known, &seen, &held);
        assert_eq!(
            changes.make,
            [wish("blue", "x/api"), wish(MANAGEMENT_CLUSTER, "t/demo")]
        );
        assert_eq!(changes.drop, [wish("blue", "x/old").claim()]);
    }

    #[test]
    fn nothing_is_taken_back_from_a_cluster_that_was_not_heard_of_and_everything_from_one_that_is_gone()
     {
        let held = [claim("blue", "x/web", None), claim("gone", "x/web", None)];
        let changes = plan(&known(&["blue"]), &BTreeMap::new(), &held);
        assert_eq!(changes.drop, [wish("gone", "x/web").claim()]);
        assert_eq!(changes.make, []);
    }

    #[test]
    fn equal_names_in_two_clusters_are_two_claims() {
        assert_ne!(wish("blue", "x/web").claim(), wish("red", "x/web").claim());
        assert_ne!(wish("a", "b/c").claim(), wish("a/b", "c").claim());
    }

    #[test]
    fn a_greedy_tenant_leaves_some_for_others() {
        let names: Vec<_> = (0..40).map(|it| format!("x/{it:02}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let known = known(&["blue", MANAGEMENT_CLUSTER]);
        let seen = views(&[("blue", &names), (MANAGEMENT_CLUSTER, &names)]);
        let made = plan(&known, &seen, &[]).make;
        let of = |id: &str| made.iter().filter(|it| it.cluster == id).count();
        assert_eq!((of("blue"), of(MANAGEMENT_CLUSTER)), (MOST, 40));
        let held: Vec<_> = made
            .iter()
            .map(|it| claim(&it.cluster, &it.service, None))
            .collect();
        assert_eq!(plan(&known, &seen, &held), Changes::default());
    }

    #[test]
    fn only_addresses_of_load_balancers_are_used() {
        let layout = Layout::new("10.40.0.0/24".parse().unwrap()).unwrap();
        let held = [
            claim("blue", "x/web", Some("10.40.0.130")),
            claim("blue", "x/odd", Some("10.40.0.1")),
            claim("red", "x/web", None),
        ];
        let given = given(layout, &held);
        assert_eq!(given["blue"].len(), 1);
        assert_eq!(given["blue"]["x/web"].to_string(), "10.40.0.130");
        assert!(!given.contains_key("red"));
    }
}
