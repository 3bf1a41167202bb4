//! A connection to one store that is kept: several members, and a deadline for each call.
//!
//! It knows how to reach a store; what is asked there is the caller's business.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::uri::PathAndQuery;
use prost::Message;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};
use tonic::{
    Request, Status,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    auth::AuthChanges,
    credentials::Credentials,
    error::{Cause, Error, Trouble},
    handshake,
    identity::hex,
    wire::{self, path},
};

/// Time for one request to one member.
const CALL: Duration = Duration::from_secs(5);
/// Time to reach a member; shorter, so that a dead one leaves time for the next.
const CONNECT: Duration = Duration::from_secs(2);
/// No further member is tried after this time.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often a request is repeated because users or roles changed under it.
const STALE_TRIES: u32 = 20;
/// Finds dead connections that no packet ever reports.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Larger than any single value that etcd takes, so a page of one key always fits.
const LARGEST_ANSWER: usize = 8 << 20;

/// How a store is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the `DataStore`.
    pub store: String,
    /// Addresses of its members, as `host:port`.
    pub endpoints: Vec<String>,
    /// How to sign in.
    pub credentials: Credentials,
}

impl Settings {
    /// A text that changes when a connection made from older settings must not be used any more.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for part in std::iter::once(&self.store).chain(&self.endpoints) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        self.credentials.hash_into(&mut hash);
        hex(&hash.finalize())
    }
}

/// A connection to a store, shared by everyone who uses it; it closes with the last of them.
pub struct Session {
    settings: Settings,
    /// One per address; connects when it is first used, and again when it broke.
    members: Vec<Channel>,
    /// The member that answered last: asked first, so that a dead one costs one call and not every second.
    current: AtomicUsize,
    auth_changes: Arc<AuthChanges>,
    authenticates: Mutex<Option<Instant>>,
    token: AsyncMutex<Option<MetadataValue<Ascii>>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.debug_struct("Session")
            .field("store", &self.settings.store)
            .field("endpoints", &self.settings.endpoints)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session that connects when it is first used. `auth_changes` is shared by all sessions to one store.
    pub(crate) fn new(settings: Settings, auth_changes: Arc<AuthChanges>) -> Result<Self, Error> {
        let members: Result<_, Error> = settings
            .endpoints
            .iter()
            .map(|endpoint| channel(&settings, endpoint))
            .collect();
        Ok(Self {
            members: members?,
            settings,
            current: AtomicUsize::new(0),
            auth_changes,
            authenticates: Mutex::new(None),
            token: AsyncMutex::new(None),
        })
    }

    /// Name of the store.
    pub fn store(&self) -> &str {
        &self.settings.store
    }

    /// Addresses of the members.
    pub fn endpoints(&self) -> &[String] {
        &self.settings.endpoints
    }

    /// Why a member and we cannot agree on TLS, where that is what keeps us apart.
    pub(crate) async fn tls_refusal(&self, at: usize) -> Option<rustls::Error> {
        let endpoint = self.endpoints().get(at)?;
        handshake::refusal(endpoint, &self.settings.credentials).await
    }

    /// What all sessions to this store share.
    pub(crate) fn auth_changes(&self) -> &AuthChanges {
        &self.auth_changes
    }

    /// When the store was last seen to authenticate its users.
    pub(crate) fn believed(&self) -> Option<Instant> {
        *self
            .authenticates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers whether the store authenticates its users, and since when that is known.
    pub(crate) fn believe(&self, seen: Option<Instant>) {
        *self
            .authenticates
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Makes a request, at the next member where one does not answer.
    ///
    /// The request may be made more than once, also after it took effect: it must be one that can be repeated.
    pub(crate) async fn call<Q, A>(
        &self,
        action: &'static str,
        path: &'static str,
        request: &Q,
    ) -> Result<A, Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let begun = Instant::now();
        let (mut failures, mut stale) = (0, 0);
        loop {
            let at = self.current.load(Ordering::Relaxed);
            let result = self.call_member(at, action, path, request).await;
            match result.as_ref().err().and_then(Error::trouble) {
                Some(Trouble::Stale) if stale < STALE_TRIES => stale += 1,
                Some(trouble)
                    if trouble.is_about_one_member()
                        && failures < self.further_tries(trouble)
                        && begun.elapsed() < PATIENCE =>
                {
                    failures += 1;
                    self.move_on_from(at);
                }
                _ => {
                    if path::changes_auth(path) {
                        self.auth_changes.count(&result, failures > 0);
                    }
                    return result;
                }
            }
        }
    }

    /// Makes a request at one member, once.
    pub(crate) async fn call_member<Q, A>(
        &self,
        at: usize,
        action: &'static str,
        path: &'static str,
        request: &Q,
    ) -> Result<A, Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let (trouble, source) = match self.members.get(at) {
            None => (
                Trouble::Unreachable,
                Cause::Refused(Box::new(Status::unavailable("it has no endpoints"))),
            ),
            Some(member) => match timeout(CALL, self.signed_in(member, path, request)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => (Trouble::of(&status), Cause::Refused(Box::new(status))),
                Err(_) => (Trouble::TimedOut, Cause::Silence(CALL)),
            },
        };
        Err(Error::Request {
            action,
            store: self.store().to_owned(),
            endpoint: self.endpoints().get(at).cloned().unwrap_or_default(),
            trouble,
            source,
        })
    }

    /// Makes a request with the token of the user, where a password is used, and a new one when it expired.
    async fn signed_in<Q, A>(
        &self,
        member: &Channel,
        path: &'static str,
        request: &Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let Some((name, password)) = self.settings.credentials.basic() else {
            return unary(member, path, request, None).await;
        };
        let sign_in = wire::AuthenticateRequest {
            name: name.to_owned(),
            password: password.to_owned(),
        };
        let mut refreshed = false;
        loop {
            let token = {
                let mut held = self.token.lock().await;
                if held.is_none() {
                    refreshed = true;
                    *held = token(member, &sign_in).await?;
                }
                held.clone()
            };
            match unary(member, path, request, token.as_ref()).await {
                Err(status)
                    if !refreshed && Trouble::of(&status) == Trouble::CredentialsRefused =>
                {
                    let mut held = self.token.lock().await;
                    // Another request may have a new one already.
                    if *held == token {
                        *held = None;
                    }
                }
                result => return result,
            }
        }
    }

    /// How many tries may follow the first one that ended so.
    fn further_tries(&self, trouble: Trouble) -> usize {
        let others = self.members.len().saturating_sub(1);
        match trouble {
            // A connection that broke while idle fails its first call; the next makes a new one.
            Trouble::Unreachable => others + 1,
            _ => others,
        }
    }

    fn move_on_from(&self, at: usize) {
        let next = (at + 1) % self.members.len().max(1);
        // Somebody else may have moved on already: then theirs is as good.
        let _ = self
            .current
            .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn channel(settings: &Settings, endpoint: &str) -> Result<Channel, Error> {
    let build = || {
        let endpoint = Endpoint::from_shared(format!("https://{endpoint}"))?
            .tls_config(settings.credentials.tls().timeout(CONNECT))?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(CALL);
        Ok(endpoint.connect_lazy())
    };
    build().map_err(|source| Error::Endpoint {
        store: settings.store.clone(),
        endpoint: endpoint.to_owned(),
        source: Box::new(source),
    })
}

/// A token for later requests; none from a store that does not authenticate.
async fn token(
    member: &Channel,
    sign_in: &wire::AuthenticateRequest,
) -> Result<Option<MetadataValue<Ascii>>, Status> {
    let answer = unary(member, path::AUTHENTICATE, sign_in, None).await;
    let answer: wire::AuthenticateResponse = match answer {
        Err(status) if Trouble::of(&status) == Trouble::AuthDisabled => return Ok(None),
        answer => answer?,
    };
    let token = answer.token.parse();
    token
        .map(Some)
        .map_err(|_| Status::internal("the token is not text"))
}

async fn unary<Q, A>(
    member: &Channel,
    path: &'static str,
    request: &Q,
    token: Option<&MetadataValue<Ascii>>,
) -> Result<A, Status>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = Grpc::new(member.clone()).max_decoding_message_size(LARGEST_ANSWER);
    grpc.ready()
        .await
        .map_err(|error| Status::from_error(Box::new(error)))?;
    let mut request = Request::new(request.clone());
    let metadata = request.metadata_mut();
    // A member that lost the others must say so instead of waiting for them.
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token.clone());
    }
    let path = PathAndQuery::from_static(path);
    let answer = grpc.unary(request, path, ProstCodec::default()).await?;
    Ok(answer.into_inner())
}
