//! Keys, certificates and kubeconfigs of a control plane: read, plan, write what differs.

use std::sync::Arc;

use butler_api::steward::{TenantControlPlane, tenant_control_plane::security::KeyAlgorithm};
use butler_pki::{
    Algorithm, AltName, AltNames, Authority, Contents, Fingerprint, Fresh, IssueError, Item,
    Jitter, Lifetimes, Plan, SecretKind, Servers, Tenant, Wanted, carry_out, layout, plan, wanted,
};
use butler_runtime::{apply::Applier, error::ApiError, packed::Packed, watch::Feed};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, ResourceExt};

use super::{
    judgements::{Judgement, Judgements},
    owning,
};
use crate::{
    data_store::Store,
    endpoint::Endpoint,
    names,
    spec::{ControlPlane, Identity, San},
};

/// Why certificates could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A Secret of somebody else has the name of one of ours.
    #[error("the Secret {0} is not the control plane's")]
    Taken(String),
    /// Nothing could be issued.
    #[error("could not issue certificates")]
    Issue(#[from] IssueError),
}

/// Certificates that are in place.
pub(super) struct Certificates {
    /// What the Secrets hold.
    pub(super) contents: Arc<Contents>,
    /// What cannot be renewed until somebody acts, in words.
    pub(super) blocked: Vec<String>,
    /// When the next one is due.
    pub(super) next_renewal: Option<Timestamp>,
    /// When the first of them expires, authorities aside.
    pub(super) first_expiry: Option<Timestamp>,
}

impl Certificates {
    /// One file of one Secret.
    pub(super) fn file(&self, kind: SecretKind, name: &str) -> Option<&[u8]> {
        self.contents.get(&kind)?.data.get(name).map(Vec::as_slice)
    }
}

/// What a control plane should have.
pub(super) fn wanted(
    raw: &TenantControlPlane,
    spec: &ControlPlane,
    endpoint: &Endpoint,
    store: &Store,
    user: &str,
    authority: Option<Authority>,
) -> Wanted {
    Wanted {
        tenant: tenant(spec),
        algorithm: match spec.certificates.key_algorithm {
            KeyAlgorithm::EcdsaP256 => Algorithm::EcdsaP256,
            KeyAlgorithm::Rsa2048 => Algorithm::Rsa2048,
        },
        replace_other_algorithms: false,
        lifetimes: Lifetimes::default(),
        authority,
        server_names: server_names(endpoint),
        servers: Servers {
            external: endpoint.url(),
            service: endpoint.service_url(),
            local: endpoint.local_url(),
        },
        store: Some(wanted::Store {
            authority: store.authority.clone(),
            user: user.to_owned(),
        }),
        tunnel: spec.konnectivity.is_some(),
        rotation: raw
            .annotations()
            .get(names::ROTATE)
            .filter(|word| !word.is_empty())
            .cloned(),
    }
}

fn tenant(spec: &ControlPlane) -> Tenant {
    let identity = &spec.identity;
    Tenant {
        name: identity.name.clone(),
        namespace: identity.namespace.clone(),
    }
}

fn server_names(endpoint: &Endpoint) -> AltNames {
    let names = endpoint.sans.iter().filter_map(|name| match name {
        San::Ip(address) => Some(AltName::from(*address)),
        San::Dns(name) => name.parse().ok(),
    });
    names.collect()
}

/// The control plane's Secrets as they are watched.
pub(super) fn watched(feed: &Feed<Packed<Secret>>, identity: &Identity) -> Vec<Arc<Secret>> {
    let names = SecretKind::ALL.map(|kind| kind.name(&identity.name));
    let found = names
        .iter()
        .filter_map(|name| feed.open(Some(&identity.namespace), name));
    found.collect()
}

/// The control plane's Secrets as they are now. By name: a namespace may hold those of a thousand others.
async fn read(applier: &Applier, tenant: &Tenant) -> Result<Vec<Arc<Secret>>, ApiError> {
    let api: Api<Secret> = Api::namespaced(applier.client().clone(), &tenant.namespace);
    let get = async |kind: SecretKind| {
        let name = kind.name(&tenant.name);
        let found = api.get_opt(&name).await;
        found.map_err(ApiError::of("get", "Secret", &name))
    };
    let found = try_join_all(SecretKind::ALL.map(get)).await?;
    Ok(found.into_iter().flatten().map(Arc::new).collect())
}

/// What is known of a control plane's Secrets before anything is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// There are none: the control plane is new. Creating them fails if that is wrong.
    Nothing,
    /// What is watched, which may be behind.
    Watched,
}

/// Issues what is due and writes the Secrets that differ.
pub(super) async fn ensure(
    applier: &Applier,
    judgements: &Judgements,
    wanted: &Wanted,
    mut held: Vec<Arc<Secret>>,
    known: Known,
    owner: &OwnerReference,
    now: Timestamp,
) -> Result<Certificates, CertificateError> {
    let foreign = |held: &[Arc<Secret>]| {
        let ours = |held: &&Arc<Secret>| owning::is_of(&***held, &wanted.tenant.name, &owner.uid);
        let found = held.iter().find(|held| !ours(held));
        found.map_or(Ok(()), |found| {
            Err(CertificateError::Taken(found.name_any()))
        })
    };
    foreign(&held)?;
    let mut contents = contents(wanted, &held);
    let of = Fingerprint::of(wanted, &contents);
    let (blocked, judgement) = if let Some(judgement) = judgements.get(&owner.uid, of, now) {
        (Vec::new(), judgement)
    } else {
        let jitter = Jitter::of(&owner.uid);
        let mut decided = plan(wanted, &contents, now, jitter);
        if !decided.is_settled() && known == Known::Watched {
            // Nothing is issued because a watch is behind.
            held = read(applier, &wanted.tenant).await?;
            foreign(&held)?;
            contents = self::contents(wanted, &held);
            decided = plan(wanted, &contents, now, jitter);
        }
        let blocked = blocked(&decided);
        if !decided.is_settled() {
            contents = carry_out(&decided, wanted, &contents, &mut Fresh, now)?;
            decided = plan(wanted, &contents, now, jitter);
        }
        let judgement = Judgement::new(Fingerprint::of(wanted, &contents), &decided, now);
        judgements.put(&owner.uid, judgement);
        (blocked, judgement)
    };
    for (kind, content) in &contents {
        let mut secret = content.to_secret(*kind, &wanted.tenant);
        secret.metadata.owner_references = Some(vec![owner.clone()]);
        let name = secret.name_any();
        let live = held.iter().find(|held| held.name_any() == name);
        if let Some(live) = live {
            // The type of a Secret can never be changed; that of one which was adopted may be another.
            secret.type_.clone_from(&live.type_);
        }
        // Keys are made from what was read: an old view must not replace an authority that is in use.
        match live {
            None => applier.create(&secret).await?,
            Some(live) => {
                applier.apply_over(&secret, live).await?;
            }
        }
    }
    Ok(Certificates {
        contents: Arc::new(contents),
        blocked,
        next_renewal: judgement.next_renewal,
        first_expiry: judgement.first_expiry,
    })
}

fn contents(wanted: &Wanted, held: &[Arc<Secret>]) -> Contents {
    layout::read(&wanted.tenant, held.iter().map(Arc::as_ref))
}

fn blocked(plan: &Plan) -> Vec<String> {
    let words = |(item, reason): (Item, &butler_pki::Reason)| {
        format!("{}: {reason}", item.secret().suffix())
    };
    plan.blocked().map(words).collect()
}
