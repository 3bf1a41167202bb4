//! Carries a plan out: draws keys, signs, and lays everything into Secrets. Decides nothing.

use jiff::Timestamp;
use thiserror::Error;

use crate::{
    authority::{Authority, SignError},
    files::Files,
    item::{Item, kubeconfigs},
    judge::garbage,
    key::{Algorithm, KeyError, PrivateKey, encode},
    layout::{Content, Contents, SecretKind},
    plan::{Action, Plan, public_keys},
    profile::Profile,
    reason::Reason,
    source::KeySource,
    validity::{Lifetime, Validity},
    wanted::Wanted,
};

/// Why a plan could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IssueError {
    /// No key was to be had.
    #[error("could not get a new key or serial number")]
    Key(#[source] KeyError),
    /// Nothing was signed.
    #[error("could not sign a certificate")]
    Sign(#[source] SignError),
    /// The plan was made for other Secrets.
    #[error("the plan for {file} does not fit what is held ({problem}): plan again")]
    Stale {
        /// What it was about.
        file: String,
        /// What does not fit.
        problem: Reason,
    },
}

/// Every Secret as it should be: changed where the plan says so, and byte for byte as held otherwise.
///
/// Each Secret is complete in itself, so that one write both renews and notes the request that led to it.
/// A Secret that is blocked stays as it is; one that is blocked and missing is not there.
pub fn carry_out(
    plan: &Plan,
    wanted: &Wanted,
    held: &Contents,
    source: &mut dyn KeySource,
    now: Timestamp,
) -> Result<Contents, IssueError> {
    let mut work = Work {
        plan,
        wanted,
        maker: Maker::new(wanted, source, now),
        contents: ours(wanted, held),
    };
    let cluster = work.authority(
        Item::Ca,
        &Profile::cluster_authority(),
        wanted.authority.as_ref(),
    )?;
    let front_proxy =
        work.authority(Item::FrontProxyCa, &Profile::front_proxy_authority(), None)?;
    work.service_account()?;
    let names = wanted.server_names.clone();
    work.pair(
        Item::ApiServer,
        &Profile::api_server(names),
        cluster.as_ref(),
    )?;
    work.pair(
        Item::KubeletClient,
        &Profile::kubelet_client(),
        cluster.as_ref(),
    )?;
    work.pair(
        Item::FrontProxyClient,
        &Profile::front_proxy_client(),
        front_proxy.as_ref(),
    )?;
    if let Some(store) = &wanted.store {
        work.pair(
            Item::StoreClient,
            &Profile::store_client(&store.user),
            Some(&store.authority),
        )?;
        if work.changes(Item::StoreClient) {
            work.content(Item::StoreClient)
                .put("ca.crt", store.authority.bundle());
        }
    }
    for config in kubeconfigs(wanted) {
        work.kubeconfig(
            config.item,
            &config.profile(),
            &config.files(wanted),
            cluster.as_ref(),
        )?;
    }
    work.note_requests();
    Ok(work.contents)
}

/// What is held of the Secrets and files that are wanted.
fn ours(wanted: &Wanted, held: &Contents) -> Contents {
    let is_wanted = |kind: SecretKind| match kind {
        SecretKind::DataStore => wanted.store.is_some(),
        SecretKind::KonnectivityKubeconfig => wanted.tunnel,
        _ => true,
    };
    let kinds = held.iter().filter(|(kind, _)| is_wanted(**kind));
    let known = |kind: SecretKind, content: &Content| {
        let mut content = content.clone();
        content
            .data
            .retain(|key, _| kind.files().contains(&key.as_str()));
        content
    };
    kinds
        .map(|(kind, content)| (*kind, known(*kind, content)))
        .collect()
}

/// Makes keys and certificates of one kind and lifetime.
pub(crate) struct Maker<'a> {
    algorithm: Algorithm,
    leaf: Lifetime,
    authority: Lifetime,
    source: &'a mut dyn KeySource,
    now: Timestamp,
}

impl<'a> Maker<'a> {
    fn new(wanted: &Wanted, source: &'a mut dyn KeySource, now: Timestamp) -> Self {
        let (algorithm, lifetimes) = (wanted.algorithm, wanted.lifetimes);
        Self {
            algorithm,
            leaf: lifetimes.leaf,
            authority: lifetimes.authority,
            source,
            now,
        }
    }

    /// For leaves only.
    pub(crate) fn leaves(
        algorithm: Algorithm,
        leaf: Lifetime,
        source: &'a mut dyn KeySource,
        now: Timestamp,
    ) -> Self {
        Self {
            algorithm,
            leaf,
            authority: leaf,
            source,
            now,
        }
    }

    fn key(&mut self) -> Result<PrivateKey, IssueError> {
        self.source.key(self.algorithm).map_err(IssueError::Key)
    }

    fn serial(&mut self) -> Result<[u8; 16], IssueError> {
        self.source.serial().map_err(IssueError::Key)
    }

    fn new_authority(
        &mut self,
        profile: &Profile,
        key: PrivateKey,
    ) -> Result<Authority, IssueError> {
        let validity = Validity::starting(self.now, self.authority);
        Authority::create(profile, key, self.serial()?, validity).map_err(IssueError::Sign)
    }

    /// A certificate and its new key, both PEM.
    pub(crate) fn pair(
        &mut self,
        profile: &Profile,
        authority: &Authority,
    ) -> Result<(String, PrivateKey), IssueError> {
        let key = self.key()?;
        let validity = Validity::starting(self.now, self.leaf);
        let certificate = authority
            .sign(profile, key.public_der(), self.serial()?, validity)
            .map_err(IssueError::Sign)?;
        Ok((certificate.to_pem(), key))
    }
}

struct Work<'a> {
    plan: &'a Plan,
    wanted: &'a Wanted,
    maker: Maker<'a>,
    contents: Contents,
}

impl Work<'_> {
    fn action(&self, item: Item) -> Action {
        let step = self.plan.steps.get(&item);
        step.map_or(Action::Keep, |step| step.action.clone())
    }

    fn changes(&self, item: Item) -> bool {
        self.action(item).changes()
    }

    fn content(&mut self, item: Item) -> &mut Content {
        self.contents.entry(item.secret()).or_default()
    }

    /// The authority as it stands after this pass; none while it is blocked.
    fn authority(
        &mut self,
        item: Item,
        profile: &Profile,
        provided: Option<&Authority>,
    ) -> Result<Option<Authority>, IssueError> {
        let action = self.action(item);
        let authority = match (&action, provided) {
            // One that is blocked only from being replaced goes on signing.
            (Action::Blocked { .. }, _) => {
                let held = self.contents.get(&item.secret());
                return Ok(held.and_then(|content| item.authority(content).ok()));
            }
            (_, Some(provided)) => provided.clone(),
            (Action::Issue { .. }, None) => {
                let key = self.maker.key()?;
                self.maker.new_authority(profile, key)?
            }
            (
                Action::Keep
                | Action::Rewrite {
                    reason: Reason::Layout,
                },
                None,
            ) => self.held(item)?,
            (Action::Rewrite { .. }, None) => {
                let key = self.held(item)?.key().clone();
                self.maker.new_authority(profile, key)?
            }
        };
        if action.changes() {
            let (bundle, key) = (authority.bundle(), authority.key().to_pem());
            for (certificate, private) in item.pairs() {
                self.content(item).put(certificate, bundle.as_str());
                self.content(item).put(private, key.as_str());
            }
        }
        Ok(Some(authority))
    }

    fn held(&mut self, item: Item) -> Result<Authority, IssueError> {
        let file = item.secret().suffix();
        item.authority(self.content(item))
            .map_err(|error| stale(item, garbage(file, &error)))
    }

    /// A new key signs from now on; tokens of the one before stay valid until the next rotation.
    fn service_account(&mut self) -> Result<(), IssueError> {
        let item = Item::ServiceAccount;
        let action = self.action(item);
        if !action.changes() {
            return Ok(());
        }
        let held = self.content(item).file("sa.key").map(PrivateKey::from_pem);
        let before = public_keys(self.content(item));
        let (key, before) = match (action, held) {
            (Action::Issue { .. }, held) => {
                let before = held
                    .and_then(Result::ok)
                    .map(|held| held.public_der().to_vec());
                (self.maker.key()?, before.into_iter().collect())
            }
            (_, Some(Ok(held))) => (held, before),
            (_, Some(Err(_)) | None) => {
                return Err(stale(item, Reason::Missing));
            }
        };
        let before = before
            .iter()
            .filter(|old| old.as_slice() != key.public_der());
        let public: String = [key.public_pem()]
            .into_iter()
            .chain(before.map(|old| encode("PUBLIC KEY", old)))
            .collect();
        self.content(item).put("sa.pub", public);
        self.content(item).put("sa.key", key.to_pem().as_str());
        Ok(())
    }

    fn pair(
        &mut self,
        item: Item,
        profile: &Profile,
        authority: Option<&Authority>,
    ) -> Result<(), IssueError> {
        if !matches!(self.action(item), Action::Issue { .. }) {
            return Ok(());
        }
        let (text, key) = self.maker.pair(profile, usable(item, authority)?)?;
        for (certificate, private) in item.pairs() {
            self.content(item).put(certificate, text.as_str());
            self.content(item).put(private, key.to_pem().as_str());
        }
        Ok(())
    }

    fn kubeconfig(
        &mut self,
        item: Item,
        profile: &Profile,
        files: &Files,
        authority: Option<&Authority>,
    ) -> Result<(), IssueError> {
        let action = self.action(item);
        if !action.changes() {
            return Ok(());
        }
        let authority = usable(item, authority)?;
        let content = self.contents.entry(item.secret()).or_default();
        files.make(&action, content, profile, authority, &mut self.maker)
    }

    /// One request leads to one renewal: it is answered in the same write.
    fn note_requests(&mut self) {
        let steps = &self.plan.steps;
        let of = |kind| steps.iter().filter(move |(item, _)| item.secret() == kind);
        for (kind, content) in &mut self.contents {
            let blocked = of(*kind).any(|(_, step)| matches!(step.action, Action::Blocked { .. }));
            if content.is_asked_to_rotate() && of(*kind).any(|(_, step)| step.action.changes()) {
                content.rotate = Some(second(self.maker.now));
            }
            if !blocked && kind.lifecycle().is_some() && self.wanted.rotation.is_some() {
                content.rotation.clone_from(&self.wanted.rotation);
            }
        }
    }
}

fn usable(item: Item, authority: Option<&Authority>) -> Result<&Authority, IssueError> {
    authority.ok_or_else(|| stale(item, Reason::AuthorityUnusable))
}

fn stale(item: Item, problem: Reason) -> IssueError {
    IssueError::Stale {
        file: item.secret().suffix().to_owned(),
        problem,
    }
}

/// A moment as people write it into annotations, without fractions of a second.
pub(crate) fn second(moment: Timestamp) -> String {
    Timestamp::from_second(moment.as_second())
        .unwrap_or(moment)
        .to_string()
}
