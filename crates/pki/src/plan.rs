//! What is kept and what is made anew for one control plane, why, when next, and whom it touches.
//!
//! A plan is data without secrets: it can be printed, compared and stored. It takes no keys and no clock.
//! Authorities and the keys of service accounts are never replaced because they look damaged: every node
//! would have to join again, and a Secret that was edited by mistake can be restored. They are blocked with
//! the reason instead; deleting the Secret, or asking for rotation on it, is the permission to replace.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    authority::Authority,
    item::kubeconfigs,
    judge::{self, Dates, File, Leaf, Signer, garbage},
    key::PrivateKey,
    layout::{Content, Contents, SecretKind},
    profile::{Profile, Purpose},
    reason::Reason,
    validity::Jitter,
    wanted::{Store, Wanted},
};

pub use crate::item::{Consumer, Item};

/// The cluster's authority signs servers and clients.
const BOTH: [Purpose; 2] = [Purpose::ServerAuth, Purpose::ClientAuth];

/// What is done about an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// It stays, byte for byte.
    Keep,
    /// It is written anew around the same private key.
    Rewrite {
        /// Why.
        #[serde(flatten)]
        reason: Reason,
    },
    /// It is made anew, with a new private key.
    Issue {
        /// Why.
        #[serde(flatten)]
        reason: Reason,
    },
    /// It should be made anew and cannot, or must not without being asked: it stays as it is.
    Blocked {
        /// Why.
        #[serde(flatten)]
        reason: Reason,
    },
}

impl Action {
    /// Whether the Secret changes.
    pub fn changes(&self) -> bool {
        match self {
            Self::Keep | Self::Blocked { .. } => false,
            Self::Rewrite { .. } | Self::Issue { .. } => true,
        }
    }
}

/// The verdict on one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// Until when what stays is valid.
    pub not_after: Option<Timestamp>,
    /// When what stays is renewed.
    pub renew_at: Option<Timestamp>,
}

/// The verdicts on everything a control plane should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// By item.
    pub steps: BTreeMap<Item, Step>,
}

impl Plan {
    /// Whether nothing changes.
    pub fn is_settled(&self) -> bool {
        !self.steps.values().any(|step| step.action.changes())
    }

    /// When the next item is due. Carrying the plan out moves it: plan again afterwards.
    pub fn next_renewal(&self) -> Option<Timestamp> {
        self.steps.values().filter_map(|step| step.renew_at).min()
    }

    /// Whoever uses something that changes, and has to be rolled or told.
    pub fn consumers(&self) -> BTreeSet<Consumer> {
        let changed = self.steps.iter().filter(|(_, step)| step.action.changes());
        changed
            .flat_map(|(item, _)| item.consumers().iter().copied())
            .collect()
    }

    /// What cannot be done until somebody acts.
    pub fn blocked(&self) -> impl Iterator<Item = (Item, &Reason)> {
        self.steps
            .iter()
            .filter_map(|(item, step)| match &step.action {
                Action::Blocked { reason } => Some((*item, reason)),
                Action::Keep | Action::Rewrite { .. } | Action::Issue { .. } => None,
            })
    }
}

/// Decides about every item, from what the Secrets hold and what is wanted.
pub fn plan(wanted: &Wanted, held: &Contents, now: Timestamp, jitter: Jitter) -> Plan {
    let look = Look {
        wanted,
        held,
        now,
        jitter,
    };
    let mut steps = BTreeMap::new();
    let mut add = |item, (action, dates): (Action, Dates)| {
        let Dates {
            not_after,
            renew_at,
        } = dates;
        steps.insert(
            item,
            Step {
                action,
                not_after,
                renew_at,
            },
        );
    };
    let (action, dates, cluster) = match &wanted.authority {
        Some(provided) => look.provided(provided),
        None => look.authority(Item::Ca, &Profile::cluster_authority(), &BOTH),
    };
    add(Item::Ca, (action, dates));
    let profile = Profile::front_proxy_authority();
    let (action, dates, front_proxy) =
        look.authority(Item::FrontProxyCa, &profile, &[Purpose::ClientAuth]);
    add(Item::FrontProxyCa, (action, dates));
    add(
        Item::ServiceAccount,
        (look.service_account(), Dates::default()),
    );
    let names = wanted.server_names.clone();
    let certificates = [
        (Item::ApiServer, Profile::api_server(names), &cluster),
        (Item::KubeletClient, Profile::kubelet_client(), &cluster),
        (
            Item::FrontProxyClient,
            Profile::front_proxy_client(),
            &front_proxy,
        ),
    ];
    for (item, profile, signer) in certificates {
        add(item, look.pair(item, &profile, signer));
    }
    if let Some(store) = &wanted.store {
        add(Item::StoreClient, look.store(store));
    }
    for config in kubeconfigs(wanted) {
        let profile = config.profile();
        let leaf = look.leaf(config.item, &profile, &cluster);
        let content = held.get(&config.item.secret());
        add(
            config.item,
            config
                .files(wanted)
                .judge(&leaf, |name| content?.file(name)),
        );
    }
    Plan { steps }
}

struct Look<'a> {
    wanted: &'a Wanted,
    held: &'a Contents,
    now: Timestamp,
    jitter: Jitter,
}

impl<'a> Look<'a> {
    fn content(&self, kind: SecretKind) -> Option<&'a Content> {
        self.held.get(&kind)
    }

    fn file(&self, kind: SecretKind, name: &'a str) -> File<'a> {
        File {
            name,
            text: self.content(kind).and_then(|content| content.file(name)),
        }
    }

    /// An authority that people bring is taken as it is, if it can be used.
    fn provided(&self, provided: &Authority) -> (Action, Dates, Signer) {
        let file = SecretKind::Ca.suffix();
        if let Err(error) = provided.check(&BOTH, self.now) {
            let reason = garbage(file, &error);
            return (
                Action::Blocked { reason },
                Dates::default(),
                Signer::Unusable,
            );
        }
        let dates = Dates {
            not_after: Some(provided.certificate().not_after()),
            renew_at: None,
        };
        let held = self.content(SecretKind::Ca);
        // Nodes trust the one that they joined with. A certificate around the same key is a renewal.
        let other = held
            .filter(|content| !content.is_asked_to_rotate())
            .and_then(|content| Item::Ca.authority(content).ok())
            .filter(|held| held.key() != provided.key());
        if let Some(other) = other {
            let reason = Reason::OtherAuthority;
            let dates = Dates {
                not_after: Some(other.certificate().not_after()),
                renew_at: None,
            };
            return (Action::Blocked { reason }, dates, Signer::Stands(other));
        }
        let stands = held.is_some_and(|content| {
            Item::Ca
                .authority(content)
                .is_ok_and(|held| held == *provided)
                && !content.is_asked_to_rotate()
                && is_laid_out(content)
        });
        let signer = Signer::Stands(provided.clone());
        let reason = if held.is_some() {
            Reason::Provided
        } else {
            Reason::Missing
        };
        (
            if stands {
                Action::Keep
            } else {
                Action::Issue { reason }
            },
            dates,
            signer,
        )
    }

    fn authority(
        &self,
        item: Item,
        profile: &Profile,
        purposes: &[Purpose],
    ) -> (Action, Dates, Signer) {
        let replaced = |reason| (Action::Issue { reason }, Dates::default(), Signer::Replaced);
        let kind = item.secret();
        let Some(content) = self.content(kind) else {
            return replaced(Reason::Missing);
        };
        if content.is_asked_to_rotate() {
            return replaced(Reason::Requested);
        }
        let when = (self.wanted.lifetimes.authority, self.now, self.jitter);
        let file = item
            .pairs()
            .first()
            .map_or("", |(certificate, _)| certificate);
        let verdict = judge::authority(item.authority(content), file, profile, purposes, when);
        match verdict {
            (Action::Keep, dates, Signer::Stands(authority))
                if item == Item::Ca && !is_laid_out(content) =>
            {
                (
                    Action::Rewrite {
                        reason: Reason::Layout,
                    },
                    dates,
                    Signer::Stands(authority),
                )
            }
            other => other,
        }
    }

    fn service_account(&self) -> Action {
        let Some(content) = self.content(SecretKind::ServiceAccount) else {
            return Action::Issue {
                reason: Reason::Missing,
            };
        };
        if content.is_asked_to_rotate() {
            return Action::Issue {
                reason: Reason::Requested,
            };
        }
        match PrivateKey::from_pem(content.file("sa.key").unwrap_or_default()) {
            Err(error) => Action::Blocked {
                reason: garbage("sa.key", &error),
            },
            Ok(key)
                if public_keys(content)
                    .iter()
                    .any(|one| one == key.public_der()) =>
            {
                Action::Keep
            }
            Ok(_) => Action::Rewrite {
                reason: Reason::Layout,
            },
        }
    }

    fn pair(&self, item: Item, profile: &Profile, signer: &Signer) -> (Action, Dates) {
        let leaf = self.leaf(item, profile, signer);
        let file = |name| self.file(item.secret(), name);
        let verdict = item
            .pairs()
            .first()
            .map_or(Err(Reason::Missing), |(certificate, key)| {
                leaf.judge(file(certificate), file(key))
            });
        match verdict {
            Ok(dates) => (Action::Keep, dates),
            Err(reason) => (leaf.answer(reason), Dates::default()),
        }
    }

    /// The store's authority stands beside the certificate, and may change without it.
    fn store(&self, store: &Store) -> (Action, Dates) {
        let profile = Profile::store_client(&store.user);
        if let Err(error) = store.authority.check(&[Purpose::ClientAuth], self.now) {
            return match self.pair(Item::StoreClient, &profile, &Signer::Unusable) {
                (Action::Keep, dates) => (Action::Keep, dates),
                (_, dates) => (
                    Action::Blocked {
                        reason: garbage("the store's authority", &error),
                    },
                    dates,
                ),
            };
        }
        let signer = Signer::Stands(store.authority.clone());
        let (action, dates) = self.pair(Item::StoreClient, &profile, &signer);
        let bundle = self.file(SecretKind::DataStore, "ca.crt").text;
        if action == Action::Keep && bundle != Some(store.authority.bundle().as_bytes()) {
            return (
                Action::Rewrite {
                    reason: Reason::AuthorityRenewed,
                },
                dates,
            );
        }
        (action, dates)
    }

    fn leaf<'b>(&self, item: Item, profile: &'b Profile, signer: &'b Signer) -> Leaf<'b> {
        let requested = self.content(item.secret()).is_some_and(|content| {
            content.is_asked_to_rotate()
                || (self.wanted.rotation.is_some() && content.rotation != self.wanted.rotation)
        });
        Leaf {
            profile,
            signer,
            lifetime: self.wanted.lifetimes.leaf,
            only: self
                .wanted
                .replace_other_algorithms
                .then_some(self.wanted.algorithm),
            requested,
            now: self.now,
            jitter: self.jitter,
        }
    }
}

/// Whether every copy of the cluster's authority in its Secret is the same.
fn is_laid_out(content: &Content) -> bool {
    let mut copies = Item::Ca
        .pairs()
        .iter()
        .map(|(certificate, key)| (content.file(certificate), content.file(key)));
    let first = copies.next();
    copies.all(|copy| Some(copy) == first)
}

/// The public keys that tokens are checked against: the one in use and those it replaced.
pub(crate) fn public_keys(content: &Content) -> Vec<Vec<u8>> {
    let blocks = pem::parse_many(content.file("sa.pub").unwrap_or_default()).unwrap_or_default();
    let keys = blocks
        .into_iter()
        .filter(|block| block.tag() == "PUBLIC KEY");
    keys.map(pem::Pem::into_contents).collect()
}
