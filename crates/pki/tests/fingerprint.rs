//! What is remembered of a plan is forgotten when anything changes that it was made from.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use butler_pki::{Algorithm, Contents, Fingerprint, Wanted};
use support::{authority, issued, wanted};

#[test]
fn every_change_of_what_is_wanted_tells() {
    let base = wanted();
    let held = issued(&base);
    let before = Fingerprint::of(&base, &held);
    assert_eq!(before, Fingerprint::of(&base.clone(), &held.clone()));
    let changes: [fn(&mut Wanted); 11] = [
        |wanted| wanted.tenant.name = "green".into(),
        |wanted| wanted.tenant.namespace = "team-b".into(),
        |wanted| wanted.algorithm = Algorithm::Rsa2048,
        |wanted| wanted.replace_other_algorithms = true,
        |wanted| wanted.lifetimes.authority = wanted.lifetimes.leaf,
        |wanted| wanted.authority = Some(authority("mine")),
        |wanted| _ = wanted.server_names.pop_first(),
        |wanted| wanted.servers.external = "https://192.0.2.11:6443".into(),
        |wanted| wanted.store = None,
        |wanted| wanted.tunnel = false,
        |wanted| wanted.rotation = Some("again".into()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut other = base.clone();
        change(&mut other);
        assert_ne!(before, Fingerprint::of(&other, &held), "change {number}");
    }
    let mut other = base.clone();
    if let Some(store) = &mut other.store {
        store.authority = authority("etcd-ca");
    }
    assert_ne!(before, Fingerprint::of(&other, &held));
}

#[test]
fn every_change_of_what_is_held_tells() {
    let wanted = wanted();
    let base = issued(&wanted);
    let before = Fingerprint::of(&wanted, &base);
    let differs = |change: &dyn Fn(&mut Contents)| {
        let mut held = base.clone();
        change(&mut held);
        assert_ne!(before, Fingerprint::of(&wanted, &held));
    };
    for kind in base.keys() {
        differs(&|held| _ = held.remove(kind));
        differs(&|held| held.get_mut(kind).unwrap().rotate = Some(String::new()));
        differs(&|held| held.get_mut(kind).unwrap().rotation = Some("word".into()));
        differs(&|held| {
            let data = &mut held.get_mut(kind).unwrap().data;
            data.values_mut().next().unwrap().push(b'\n');
        });
        differs(&|held| {
            let data = &mut held.get_mut(kind).unwrap().data;
            let (name, file) = data.pop_first().unwrap();
            data.insert(format!("{name}x"), file);
        });
    }
}
