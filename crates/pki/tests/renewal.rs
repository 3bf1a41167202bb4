//! What leads to a new certificate or kubeconfig, and what does not.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use butler_pki::{
    Action, Algorithm, Consumer, Contents, Fresh, Item, Kubeconfig, Lifetime, SecretKind, Servers,
    carry_out,
};
use jiff::SignedDuration;
use support::{
    authority, changes, day, hours, issued, pass, put, replan, start, tenant, text, wanted,
};

#[test]
fn a_new_control_plane_gets_everything_and_then_rests() {
    let wanted = wanted();
    let (first, held) = pass(&wanted, &Contents::new(), start());
    assert_eq!(first.steps.len(), 12);
    assert!(changes(&first).iter().all(|(_, code)| *code == "Missing"));
    assert_eq!(held.len(), SecretKind::ALL.len());
    let (second, again) = pass(&wanted, &held, hours(start(), 1));
    assert!(second.is_settled(), "{:?}", changes(&second));
    assert_eq!(again, held);
}

#[test]
fn every_secret_has_the_files_that_tools_look_for() {
    let held = issued(&wanted());
    for (kind, content) in &held {
        let mut files: Vec<&str> = kind.files().to_vec();
        files.sort_unstable();
        assert_eq!(content.data.keys().collect::<Vec<_>>(), files, "{kind:?}");
    }
}

#[test]
fn leaves_are_renewed_together_after_two_thirds_of_their_life() {
    let wanted = wanted();
    let held = issued(&wanted);
    assert!(replan(&wanted, &held, day(243)).is_settled());
    let due = replan(&wanted, &held, day(244));
    let codes = changes(&due);
    assert_eq!(codes.len(), 9);
    assert!(codes.iter().all(|(_, code)| *code == "Due"), "{codes:?}");
    let after = carry_out(&due, &wanted, &held, &mut Fresh, day(244)).unwrap();
    assert!(replan(&wanted, &after, day(244)).is_settled());
    assert_ne!(after[&SecretKind::ApiServer], held[&SecretKind::ApiServer]);
    assert_eq!(after[&SecretKind::Ca], held[&SecretKind::Ca]);
}

#[test]
fn the_plan_says_when_to_look_again() {
    let wanted = wanted();
    let held = issued(&wanted);
    let next = replan(&wanted, &held, day(1)).next_renewal().unwrap();
    assert!(replan(&wanted, &held, hours(next, -1)).is_settled());
    assert!(!replan(&wanted, &held, next).is_settled());
}

#[test]
fn a_shorter_lifetime_counts_for_certificates_that_are_there() {
    let mut wanted = wanted();
    let held = issued(&wanted);
    wanted.lifetimes.leaf = Lifetime::try_from(SignedDuration::from_hours(24 * 30)).unwrap();
    assert!(replan(&wanted, &held, day(19)).is_settled());
    assert_eq!(changes(&replan(&wanted, &held, day(21))).len(), 9);
}

#[test]
fn other_names_change_the_serving_certificate_only() {
    let mut wanted = wanted();
    let held = issued(&wanted);
    wanted
        .server_names
        .insert("new.example.com".parse().unwrap());
    wanted
        .server_names
        .remove(&"tenant.example.com".parse().unwrap());
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(changes(&plan), [(Item::ApiServer, "Names")]);
    let Action::Issue { reason } = &plan.steps[&Item::ApiServer].action else {
        panic!("kept")
    };
    assert_eq!(
        reason.to_string(),
        "names to add: new.example.com; names to remove: tenant.example.com"
    );
    assert_eq!(
        plan.consumers().into_iter().collect::<Vec<_>>(),
        [Consumer::ApiServer]
    );
    assert!(replan(&wanted, &after, day(1)).is_settled());
}

#[test]
fn a_moved_endpoint_keeps_the_keys_of_administrators() {
    let mut wanted = wanted();
    let held = issued(&wanted);
    wanted.servers = Servers::new(&tenant(), 6443, "tenant.example.com", 443);
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(
        changes(&plan),
        [(Item::Admin, "Server"), (Item::SuperAdmin, "Server")]
    );
    let read = |contents: &Contents| {
        Kubeconfig::from_yaml(&text(contents, SecretKind::AdminKubeconfig, "admin.conf")).unwrap()
    };
    let (old, new) = (read(&held), read(&after));
    assert_eq!(new.server, "https://tenant.example.com:443");
    assert_eq!((new.certificate, new.key), (old.certificate, old.key));
    let inside = text(&after, SecretKind::AdminKubeconfig, "admin.svc");
    assert_eq!(
        Kubeconfig::from_yaml(&inside).unwrap().server,
        "https://blue.team-a.svc:6443"
    );
    assert!(replan(&wanted, &after, day(1)).is_settled());
}

#[test]
fn leaves_that_were_edited_to_garbage_are_made_anew_with_the_reason_in_words() {
    let wanted = wanted();
    let mut held = issued(&wanted);
    put(
        &mut held,
        SecretKind::ApiServer,
        "apiserver.crt",
        b"garbage",
    );
    put(
        &mut held,
        SecretKind::SchedulerKubeconfig,
        "scheduler.conf",
        b"\xff\x00",
    );
    let other = text(&held, SecretKind::ApiServer, "apiserver.key");
    put(
        &mut held,
        SecretKind::KubeletClient,
        "apiserver-kubelet-client.key",
        &other,
    );
    held.get_mut(&SecretKind::FrontProxyClient)
        .unwrap()
        .data
        .clear();
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(
        changes(&plan),
        [
            (Item::ApiServer, "Garbage"),
            (Item::KubeletClient, "WrongKey"),
            (Item::FrontProxyClient, "Missing"),
            (Item::Scheduler, "Garbage"),
        ]
    );
    let Action::Issue { reason } = &plan.steps[&Item::ApiServer].action else {
        panic!("kept")
    };
    assert_eq!(
        reason.to_string(),
        "apiserver.crt is unusable: there is no certificate in it: write a PEM block CERTIFICATE"
    );
    assert!(replan(&wanted, &after, day(1)).is_settled());
}

#[test]
fn a_request_on_a_secret_leads_to_one_renewal() {
    let wanted = wanted();
    let mut held = issued(&wanted);
    held.get_mut(&SecretKind::AdminKubeconfig).unwrap().rotate = Some(String::new());
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(
        changes(&plan),
        [(Item::Admin, "Requested"), (Item::SuperAdmin, "Requested")]
    );
    let answered = after[&SecretKind::AdminKubeconfig].rotate.as_deref();
    assert_eq!(answered, Some("2026-11-16T12:00:00Z"));
    let (plan, again) = pass(&wanted, &after, day(2));
    assert!(plan.is_settled());
    assert_eq!(again, after);
}

#[test]
fn a_request_for_all_spares_authorities_and_token_keys_and_is_followed_once() {
    let mut wanted = wanted();
    let held = issued(&wanted);
    wanted.rotation = Some("after the incident".into());
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(changes(&plan).len(), 9);
    assert!(changes(&plan).iter().all(|(_, code)| *code == "Requested"));
    assert!(replan(&wanted, &after, day(2)).is_settled());
    wanted.rotation = None;
    assert!(replan(&wanted, &after, day(2)).is_settled());
}

#[test]
fn another_algorithm_waits_for_renewal_unless_it_is_asked_for() {
    let mut wanted = wanted();
    let held = issued(&wanted);
    wanted.algorithm = Algorithm::Rsa2048;
    assert!(replan(&wanted, &held, day(1)).is_settled());
    wanted.replace_other_algorithms = true;
    let plan = replan(&wanted, &held, day(1));
    assert_eq!(changes(&plan).len(), 9);
    assert!(changes(&plan).iter().all(|(_, code)| *code == "Algorithm"));
}

#[test]
fn a_certificate_from_the_future_is_made_anew() {
    let wanted = wanted();
    let held = issued(&wanted);
    let (_, mut later) = pass(&wanted, &held, day(300));
    later.insert(SecretKind::Ca, held[&SecretKind::Ca].clone());
    let plan = replan(&wanted, &later, day(1));
    assert!(changes(&plan).contains(&(Item::ApiServer, "NotYetValid")));
}

#[test]
fn a_store_that_trusts_another_authority_gets_another_client() {
    let mut wanted = wanted();
    let held = issued(&wanted);
    wanted.store.as_mut().unwrap().authority = authority("etcd-ca");
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(changes(&plan), [(Item::StoreClient, "ForeignAuthority")]);
    let bundle = wanted.store.as_ref().unwrap().authority.bundle();
    assert_eq!(
        text(&after, SecretKind::DataStore, "ca.crt"),
        bundle.as_bytes()
    );
    wanted.store = None;
    let (plan, after) = pass(&wanted, &after, day(1));
    assert!(plan.is_settled());
    assert!(!after.contains_key(&SecretKind::DataStore));
}

#[test]
fn a_plan_prints_without_secrets_and_says_why() {
    let wanted = wanted();
    let mut held = issued(&wanted);
    held.remove(&SecretKind::ApiServer);
    let plan = replan(&wanted, &held, day(1));
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(
        json["steps"]["ApiServer"]["action"]["Issue"]["reason"],
        "Missing"
    );
    let shown = format!("{held:?} {wanted:?} {plan:?} {json}");
    assert!(!shown.contains("PRIVATE KEY"));
    assert!(shown.contains("redacted"));
    // The first bytes of the key's text, as a list of numbers.
    assert!(!shown.contains("45, 45, 45, 45, 45"), "{shown}");
}
