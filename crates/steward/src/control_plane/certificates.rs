//! Keys, certificates and kubeconfigs of a control plane: read, plan, write what differs.

use butler_api::steward::TenantControlPlane;
use butler_pki::{
    Algorithm, AltName, AltNames, Contents, Fresh, IssueError, Item, Jitter, Lifetimes, Plan,
    SecretKind, Servers, Tenant, Wanted, carry_out, layout, plan, wanted,
};
use butler_runtime::{apply::Applier, error::ApiError};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, ResourceExt, api::ListParams};

use crate::{
    data_store::Store,
    endpoint::Endpoint,
    names,
    spec::{ControlPlane, San},
};

/// Why certificates could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Nothing could be issued.
    #[error("could not issue certificates")]
    Issue(#[from] IssueError),
}

/// Certificates that are in place.
pub(super) struct Certificates {
    /// What the Secrets hold.
    pub(super) contents: Contents,
    /// What cannot be renewed until somebody acts, in words.
    pub(super) blocked: Vec<String>,
    /// When the next one is due.
    pub(super) next_renewal: Option<Timestamp>,
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
) -> Wanted {
    Wanted {
        tenant: tenant(spec),
        algorithm: Algorithm::EcdsaP256,
        replace_other_algorithms: false,
        lifetimes: Lifetimes::default(),
        authority: None,
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

/// Reads the control plane's Secrets: one request for all of them.
pub(super) async fn read(applier: &Applier, spec: &ControlPlane) -> Result<Vec<Secret>, ApiError> {
    let identity = &spec.identity;
    let ours = ListParams::default().labels(&format!("{}={}", names::NAME, identity.name));
    let api: Api<Secret> = Api::namespaced(applier.client().clone(), &identity.namespace);
    let list = api.list(&ours).await;
    Ok(list
        .map_err(ApiError::of("list", "Secrets of", &identity.name))?
        .items)
}

/// Issues what is due and writes the Secrets that differ.
pub(super) async fn ensure(
    applier: &Applier,
    wanted: &Wanted,
    held: &[Secret],
    owner: &OwnerReference,
    now: Timestamp,
) -> Result<Certificates, CertificateError> {
    let jitter = Jitter::of(&owner.uid);
    let contents = layout::read(&wanted.tenant, held);
    let decided = plan(wanted, &contents, now, jitter);
    let blocked = blocked(&decided);
    let contents = if decided.is_settled() {
        contents
    } else {
        carry_out(&decided, wanted, &contents, &mut Fresh, now)?
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
    let next_renewal = plan(wanted, &contents, now, jitter).next_renewal();
    Ok(Certificates {
        contents,
        blocked,
        next_renewal,
    })
}

fn blocked(plan: &Plan) -> Vec<String> {
    let words = |(item, reason): (Item, &butler_pki::Reason)| {
        format!("{}: {reason}", item.secret().suffix())
    };
    plan.blocked().map(words).collect()
}
