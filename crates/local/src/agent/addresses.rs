//! Who has which load-balancer address. Pure.
//!
//! The book of addresses is ours. A Service of a tenant gets what is written here, whatever its status says, so no
//! tenant can take over an address of somebody else or make it look taken.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use butler_fabric::Layout;
use serde::{Deserialize, Serialize};

use super::world::{SeenService, View};

/// The management cluster among the others, which are called by a UID.
pub const MANAGEMENT_CLUSTER: &str = "management";
/// What one tenant may have, so that nobody takes all of them.
const MOST: usize = 16;

/// Addresses by cluster, and there by namespace and name.
pub type Given = BTreeMap<String, BTreeMap<String, Ipv4Addr>>;

/// The book of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    given: Given,
    /// The one that was given last: the search goes on behind it, so that an address that was freed rests.
    last: Option<Ipv4Addr>,
}

impl Addresses {
    /// What everybody has.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// Takes back what nobody wants any more, and gives every other Service one: the one it has, else the one it asks
    /// for, else the next that is free. The management cluster goes first: tenants' API servers are among its Services.
    pub fn assign(&mut self, layout: Layout, views: &BTreeMap<String, View>) {
        self.take_back(views);
        let management = views.get_key_value(MANAGEMENT_CLUSTER).into_iter();
        let tenants = views.iter().filter(|(id, _)| *id != MANAGEMENT_CLUSTER);
        let all: Vec<_> = management.chain(tenants).collect();
        for (id, view) in &all {
            for service in &view.services {
                // The platform's own word counts after the book was lost; a tenant's does not.
                let held = service.held.filter(|_| *id == MANAGEMENT_CLUSTER);
                self.give(layout, id, service, held);
            }
        }
        for (id, view) in &all {
            for service in &view.services {
                self.give(layout, id, service, service.asked);
            }
        }
        for (id, view) in all {
            for service in &view.services {
                let next = self.next(layout);
                if self.give(layout, id, service, next) {
                    self.last = next;
                }
            }
        }
    }

    fn take_back(&mut self, views: &BTreeMap<String, View>) {
        self.given.retain(|id, given| {
            let services = views.get(id).map_or(&[][..], |view| &view.services);
            given.retain(|name, _| services.iter().any(|service| service.name == *name));
            !given.is_empty()
        });
    }

    /// Whether a Service without an address has one now.
    fn give(
        &mut self,
        layout: Layout,
        id: &str,
        service: &SeenService,
        address: Option<Ipv4Addr>,
    ) -> bool {
        let Some(address) = address else { return false };
        let own = self.given.get(id);
        let has = own.is_some_and(|given| given.contains_key(&service.name));
        let full = id != MANAGEMENT_CLUSTER && own.is_some_and(|given| given.len() >= MOST);
        if has || full || !layout.balancers().contains(&address) || self.taken().contains(&address)
        {
            return false;
        }
        let own = self.given.entry(id.to_owned()).or_default();
        own.insert(service.name.clone(), address);
        true
    }

    fn next(&self, layout: Layout) -> Option<Ipv4Addr> {
        let range = layout.balancers();
        let (first, last) = (range.network().to_bits(), range.broadcast().to_bits());
        let start = self.last.map_or(first, |last| last.to_bits() + 1);
        let taken = self.taken();
        let mut candidates = (start..=last).chain(first..=last).map(Ipv4Addr::from_bits);
        candidates.find(|address| range.contains(address) && !taken.contains(address))
    }

    fn taken(&self) -> BTreeSet<Ipv4Addr> {
        let all = self.given.values().flat_map(BTreeMap::values);
        all.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new("10.40.0.0/26".parse().unwrap()).unwrap()
    }

    fn service(name: &str, held: Option<&str>, asked: Option<&str>) -> SeenService {
        SeenService {
            name: name.to_owned(),
            held: held.map(|it| it.parse().unwrap()),
            asked: asked.map(|it| it.parse().unwrap()),
        }
    }

    fn assigned(book: &mut Addresses, clusters: &[(&str, &[SeenService])]) -> Vec<String> {
        let view = |(id, services): &(&str, &[SeenService])| {
            let services = services.to_vec();
            let nodes = Vec::new();
            ((*id).to_owned(), View { nodes, services })
        };
        book.assign(layout(), &clusters.iter().map(view).collect());
        let given = book.given().values().flatten();
        given.map(|(name, it)| format!("{name} {it}")).collect()
    }

    #[test]
    fn who_has_an_address_keeps_it_and_others_get_what_they_ask_for_or_the_next() {
        let services = [
            service("a", None, None),
            service("b", None, Some("10.40.0.33")),
            service("c", Some("10.40.0.32"), None),
            service("d", None, Some("10.40.0.32")),
        ];
        let mut book = Addresses::default();
        let wanted = [
            "a 10.40.0.34",
            "b 10.40.0.33",
            "c 10.40.0.32",
            "d 10.40.0.35",
        ];
        for _ in 0..2 {
            assert_eq!(
                assigned(&mut book, &[(MANAGEMENT_CLUSTER, &services)]),
                wanted
            );
        }
    }

    #[test]
    fn an_address_that_is_not_ours_to_give_is_not_given() {
        let services = [service("a", Some("10.40.0.5"), Some("192.0.2.1"))];
        let given = assigned(
            &mut Addresses::default(),
            &[(MANAGEMENT_CLUSTER, &services)],
        );
        assert_eq!(given, ["a 10.40.0.32"]);
    }

    #[test]
    fn a_tenant_gets_no_address_by_claiming_that_it_has_it() {
        let mut book = Addresses::default();
        let api = [service("api", None, None)];
        assigned(&mut book, &[(MANAGEMENT_CLUSTER, &api)]);
        let thief = [service("web", Some("10.40.0.32"), Some("10.40.0.32"))];
        let given = assigned(&mut book, &[(MANAGEMENT_CLUSTER, &api), ("blue", &thief)]);
        assert_eq!(given, ["web 10.40.0.33", "api 10.40.0.32"]);
    }

    #[test]
    fn two_tenants_with_equal_names_have_different_addresses() {
        let mut book = Addresses::default();
        let web = [service("web", None, None)];
        let given = assigned(&mut book, &[("blue", &web), ("red", &web)]);
        assert_eq!(given, ["web 10.40.0.32", "web 10.40.0.33"]);
        assert_eq!(assigned(&mut book, &[("red", &web)]), ["web 10.40.0.33"]);
    }

    #[test]
    fn a_freed_address_rests_until_the_others_were_used() {
        let mut book = Addresses::default();
        let mut one = |name: &str| {
            assigned(
                &mut book,
                &[(MANAGEMENT_CLUSTER, &[service(name, None, None)])],
            )
        };
        assert_eq!(one("a"), ["a 10.40.0.32"]);
        assert_eq!(one("b"), ["b 10.40.0.33"]);
        for round in 0..14 {
            one(&format!("x{round}"));
        }
        assert_eq!(one("c"), ["c 10.40.0.32"]);
    }

    #[test]
    fn a_greedy_tenant_leaves_some_for_others_and_an_empty_range_leaves_the_rest_waiting() {
        let many: Vec<_> = (0..40)
            .map(|it| service(&format!("s{it:02}"), None, None))
            .collect();
        let mut book = Addresses::default();
        assert_eq!(assigned(&mut book, &[("blue", &many)]).len(), MOST);
        let mut book = Addresses::default();
        let all = layout().balancers().hosts().count() + 2;
        assert_eq!(
            assigned(&mut book, &[(MANAGEMENT_CLUSTER, &many)]).len(),
            all
        );
    }
}
