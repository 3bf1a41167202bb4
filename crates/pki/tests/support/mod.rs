//! A control plane to plan for, and keys that are quick to come by.

#![allow(dead_code, reason = "each test binary uses its own part")]

use butler_pki::{
    Action, Algorithm, Authority, Contents, Fresh, Item, Jitter, KeySource as _, Lifetimes, Plan,
    SecretKind, ServerNames, Servers, Store, Tenant, Wanted, carry_out, plan, profile::Profile,
    validity::Validity,
};
use jiff::Timestamp;

/// The moment at which tests begin.
pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

/// So many hours after another moment.
pub(crate) fn hours(after: Timestamp, hours: i64) -> Timestamp {
    Timestamp::from_second(after.as_second() + hours * 3600).unwrap()
}

/// So many days after the start.
pub(crate) fn day(days: i64) -> Timestamp {
    hours(start(), days * 24)
}

pub(crate) fn tenant() -> Tenant {
    Tenant {
        name: "blue".into(),
        namespace: "team-a".into(),
    }
}

/// An authority that people or a store bring.
pub(crate) fn authority(name: &str) -> Authority {
    let key = Fresh.key(Algorithm::EcdsaP256).unwrap();
    let serial = Fresh.serial().unwrap();
    let validity = Validity::starting(start(), Lifetimes::default().authority);
    Authority::create(&Profile::authority(name), key, serial, validity).unwrap()
}

/// A control plane with a store, reached at an address.
pub(crate) fn wanted() -> Wanted {
    let tenant = tenant();
    let names = ServerNames {
        tenant: &tenant.name,
        namespace: &tenant.namespace,
        cluster_domain: "cluster.local",
        management_domain: "cluster.local",
        service_ranges: &["10.96.0.0/16".parse().unwrap()],
        endpoints: &["192.0.2.10".parse().unwrap()],
        extra: &["tenant.example.com".parse().unwrap()],
    };
    Wanted {
        algorithm: Algorithm::EcdsaP256,
        replace_other_algorithms: false,
        lifetimes: Lifetimes::default(),
        authority: None,
        server_names: names.collect(),
        servers: Servers::new(&tenant, 6443, "192.0.2.10", 6443),
        store: Some(Store {
            authority: authority("etcd-ca"),
            user: "tenant_4f1c".into(),
        }),
        tunnel: true,
        rotation: None,
        tenant,
    }
}

/// One pass: the plan, and the Secrets after it.
pub(crate) fn pass(wanted: &Wanted, held: &Contents, now: Timestamp) -> (Plan, Contents) {
    let plan = plan(wanted, held, now, Jitter::NONE);
    let after = carry_out(&plan, wanted, held, &mut Fresh, now).unwrap();
    (plan, after)
}

/// The Secrets of a new control plane.
pub(crate) fn issued(wanted: &Wanted) -> Contents {
    pass(wanted, &Contents::new(), start()).1
}

/// The text of a file.
pub(crate) fn text(contents: &Contents, kind: SecretKind, file: &str) -> Vec<u8> {
    contents[&kind].data[file].clone()
}

/// The plan alone.
pub(crate) fn replan(wanted: &Wanted, held: &Contents, now: Timestamp) -> Plan {
    plan(wanted, held, now, Jitter::NONE)
}

/// Items that change, with the word for the reason.
pub(crate) fn changes(plan: &Plan) -> Vec<(Item, &'static str)> {
    let steps = plan.steps.iter();
    steps
        .filter_map(|(item, step)| match &step.action {
            Action::Keep => None,
            Action::Rewrite { reason } | Action::Issue { reason } | Action::Blocked { reason } => {
                Some((*item, reason.code()))
            }
        })
        .collect()
}

/// Writes a file of a Secret.
pub(crate) fn put(held: &mut Contents, kind: SecretKind, file: &str, text: &[u8]) {
    held.get_mut(&kind)
        .unwrap()
        .data
        .insert(file.into(), text.to_vec());
}
