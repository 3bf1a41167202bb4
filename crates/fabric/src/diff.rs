//! What to do so that the network becomes what it should be. Pure.
//!
//! The order is written once, here: nothing is taken away before its replacement is there, and a machine gets its
//! connection only when the routes and filters that keep it in its cluster are in place.

use std::{collections::BTreeSet, net::Ipv4Addr};

use serde::Serialize;

use crate::{
    plan::port_of,
    state::{
        Address, Content, Destination, Filter, HOST_LINK, Link, LinkKind, MACHINE_LINK, Rule,
        Space, State, Target, UPLINK,
    },
};

/// One change to the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// Make a namespace.
    MakeSpace(Space),
    /// Write a kernel setting.
    Set(Space, String, String),
    /// Remove a link that is wrong or no longer wanted.
    DropLink(Space, String),
    /// Make a bridge.
    AddBridge(Space, String),
    /// Make a veth between two namespaces.
    AddPair(End, End),
    /// Make a link the port of a bridge, or free it.
    Enslave(Space, String, Option<String>),
    /// Switch a link on.
    SwitchOn(Space, String),
    /// Give a link an address.
    AddAddress(Space, Address),
    /// Take an address away.
    DropAddress(Space, Address),
    /// Replace the packet filter.
    PutFilter(Space, Filter),
    /// Remove the packet filter.
    DropFilter(Space),
    /// Make or replace a route.
    PutRoute(Space, Destination, Target),
    /// Remove a route.
    DropRoute(Space, Destination),
    /// Add a rule.
    AddRule(Space, Rule),
    /// Remove a rule.
    DropRule(Space, Rule),
    /// Remove a namespace with everything in it.
    DropSpace(Space),
}

/// One end of a veth.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// Where it is.
    pub space: Space,
    /// Its name there.
    pub link: String,
}

/// The steps from what is observed to what is wanted; none when they are the same.
pub fn diff(wanted: &State, observed: &State) -> Vec<Step> {
    let nothing = Content::default();
    let mut steps = Steps::default();
    for (space, content) in &wanted.spaces {
        let held = observed.spaces.get(space);
        if held.is_none() {
            steps.spaces.push(Step::MakeSpace(space.clone()));
        }
        steps.compare(space, content, held.unwrap_or(&nothing));
    }
    for (one, other) in pairs(wanted) {
        steps.pair(wanted, observed, one, other);
    }
    for space in observed.spaces.keys() {
        if !wanted.spaces.contains_key(space) {
            steps.gone.push(Step::DropSpace(space.clone()));
        }
    }
    steps.in_order()
}

/// Steps by when they are taken.
#[derive(Default)]
struct Steps {
    spaces: Vec<Step>,
    settings: Vec<Step>,
    wrong: Vec<Step>,
    bridges: Vec<Step>,
    pairs: Vec<Step>,
    ports: Vec<Step>,
    on: Vec<Step>,
    addresses: Vec<Step>,
    filters: Vec<Step>,
    routes: Vec<Step>,
    rules: Vec<Step>,
    connections: Vec<Step>,
    stale_rules: Vec<Step>,
    stale_routes: Vec<Step>,
    stale: Vec<Step>,
    gone: Vec<Step>,
}

impl Steps {
    fn in_order(self) -> Vec<Step> {
        // No `..`: a new kind of step must be given its place here.
        let Self {
            spaces,
            settings,
            wrong,
            bridges,
            pairs,
            ports,
            on,
            addresses,
            filters,
            mut routes,
            rules,
            connections,
            stale_rules,
            stale_routes,
            stale,
            gone,
        } = self;
        // A next hop must be known to be on its link before a route can lead over it.
        routes.sort_by_key(|step| !matches!(step, Step::PutRoute(_, _, Target::Link { .. })));
        [
            spaces,
            settings,
            wrong,
            bridges,
            pairs,
            ports,
            on,
            addresses,
            filters,
            routes,
            rules,
            connections,
            stale_rules,
            stale_routes,
            stale,
            gone,
        ]
        .concat()
    }

    fn compare(&mut self, space: &Space, wanted: &Content, held: &Content) {
        // No `..`: what is not compared is never repaired.
        let Content {
            links,
            addresses,
            routes,
            rules,
            settings,
            filter,
        } = wanted;
        for (name, value) in settings {
            if held.settings.get(name) != Some(value) {
                let step = Step::Set(space.clone(), name.clone(), value.clone());
                self.settings.push(step);
            }
        }
        self.links(space, links, held);
        for address in addresses.difference(&held.addresses) {
            let step = Step::AddAddress(space.clone(), address.clone());
            self.addresses.push(step);
        }
        for address in held.addresses.difference(addresses) {
            let step = Step::DropAddress(space.clone(), address.clone());
            self.stale.push(step);
        }
        match (filter, &held.filter) {
            (Some(filter), theirs) if Some(filter) != theirs.as_ref() => {
                let step = Step::PutFilter(space.clone(), filter.clone());
                self.filters.push(step);
            }
            (None, Some(_)) => self.stale.push(Step::DropFilter(space.clone())),
            (Some(_), _) | (None, None) => {}
        }
        for (destination, target) in routes {
            if held.routes.get(destination) != Some(target) {
                let step = Step::PutRoute(space.clone(), *destination, target.clone());
                self.routes.push(step);
            }
        }
        for destination in held.routes.keys() {
            if !routes.contains_key(destination) {
                let step = Step::DropRoute(space.clone(), *destination);
                self.stale_routes.push(step);
            }
        }
        for rule in rules.difference(&held.rules) {
            self.rules.push(Step::AddRule(space.clone(), rule.clone()));
        }
        for rule in held.rules.difference(rules) {
            let step = Step::DropRule(space.clone(), rule.clone());
            self.stale_rules.push(step);
        }
    }

    fn links(
        &mut self,
        space: &Space,
        wanted: &std::collections::BTreeMap<String, Link>,
        held: &Content,
    ) {
        for (name, link) in wanted {
            let theirs = held.links.get(name).filter(|it| it.kind == link.kind);
            if theirs.is_none() && held.links.contains_key(name) {
                self.wrong.push(Step::DropLink(space.clone(), name.clone()));
            }
            if theirs.is_none() && link.kind == LinkKind::Bridge {
                let step = Step::AddBridge(space.clone(), name.clone());
                self.bridges.push(step);
            }
            // Pairs are looked at with both their ends.
            if link.kind != LinkKind::Pair && link.up && !theirs.is_some_and(|it| it.up) {
                self.on.push(Step::SwitchOn(space.clone(), name.clone()));
            }
        }
        for name in held.links.keys() {
            if !wanted.contains_key(name) {
                self.stale.push(Step::DropLink(space.clone(), name.clone()));
            }
        }
    }

    /// A veth is there when both its ends are: a single one is the end of something else.
    fn pair(&mut self, wanted: &State, observed: &State, one: End, other: End) {
        let (first, second) = (one.link_in(observed), other.link_in(observed));
        let both = first.is_some() && second.is_some();
        if !both {
            for (end, link) in [(&one, first), (&other, second)] {
                if link.is_some_and(|it| it.kind == LinkKind::Pair) {
                    self.wrong
                        .push(Step::DropLink(end.space.clone(), end.link.clone()));
                }
            }
            self.pairs.push(Step::AddPair(one.clone(), other.clone()));
        }
        for end in [one, other] {
            let Some(link) = end.link_in(wanted) else {
                continue;
            };
            let held = end.link_in(observed).filter(|_| both);
            if link.bridge.as_ref() != held.and_then(|it| it.bridge.as_ref()) {
                let step = Step::Enslave(end.space.clone(), end.link.clone(), link.bridge.clone());
                self.ports.push(step);
            }
            if link.up && !held.is_some_and(|it| it.up) {
                let step = Step::SwitchOn(end.space, end.link);
                if link.bridge.is_some() {
                    self.connections.push(step);
                } else {
                    self.on.push(step);
                }
            }
        }
    }
}

impl End {
    fn link_in<'a>(&self, state: &'a State) -> Option<&'a Link> {
        state.spaces.get(&self.space)?.links.get(&self.link)
    }
}

/// Both ends of every veth there should be.
fn pairs(wanted: &State) -> BTreeSet<(End, End)> {
    let end = |space: Space, link: &str| End {
        space,
        link: link.to_owned(),
    };
    let mut pairs = BTreeSet::new();
    for (space, content) in &wanted.spaces {
        let Space::Machine(_) = space else { continue };
        let address = content.addresses.iter().find(|it| it.link == MACHINE_LINK);
        if let Some(address) = address.map(|it: &Address| -> Ipv4Addr { it.address }) {
            pairs.insert((
                end(Space::Router, &port_of(address)),
                end(space.clone(), MACHINE_LINK),
            ));
        }
    }
    if wanted.spaces.contains_key(&Space::Router) {
        pairs.insert((end(Space::Router, UPLINK), end(Space::Host, HOST_LINK)));
    }
    pairs
}
