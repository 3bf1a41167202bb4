//! One kubeconfig of one control plane: read what it is made from, issue what is due, write what differs.

use std::{collections::HashMap, sync::Arc};

use butler_api::steward::TenantControlPlane;
use butler_pki::{Action, Content, Fresh, IssueError, Jitter, SecretKind, Subject, Tenant};
use butler_runtime::{
    apply::{Applier, Outcome},
    error::ApiError,
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, Resource, ResourceExt};

use super::plan::{self, Obstacle, SubjectError};
use crate::names;

/// Why a control plane has no kubeconfig that is up to date.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("nobody to make a kubeconfig for")]
    Subject(#[from] SubjectError),
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error("could not issue the kubeconfig")]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("the control plane was not read from an API server")]
    Identity,
}

impl Trouble {
    /// Whether a Secret that is there stays. It names somebody who is no longer meant if nobody can be named.
    pub(super) fn keeps(&self) -> bool {
        match self {
            Self::Subject(_) => false,
            Self::Obstacle(_) | Self::Issue(_) | Self::Api(_) | Self::Identity => true,
        }
    }
}

/// Versions of Secrets by namespace and name.
pub(super) type Versions = HashMap<(String, String), Option<String>>;

/// A kubeconfig that was found up to date, and everything that was so at the time.
#[derive(Clone)]
pub(super) struct Settled {
    seen: Seen,
    renew_at: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Eq)]
struct Seen {
    plane: String,
    subject: Subject,
    endpoint_from: String,
    authority: Option<String>,
    admin: Option<String>,
    own: Option<String>,
}

/// What became of a kubeconfig.
pub(super) struct Standing {
    /// When it is due.
    pub(super) renew_at: Option<Timestamp>,
    /// What to remember of it; nothing after a write, whose version is not known yet.
    pub(super) settled: Option<Settled>,
}

/// What all kubeconfigs of one pass of a generator have in common.
pub(super) struct Pass<'a> {
    pub(super) applier: &'a Applier,
    pub(super) generator: &'a str,
    pub(super) endpoint_from: &'a str,
    pub(super) now: Timestamp,
    /// All Secrets that matter, as they are now.
    pub(super) versions: Versions,
}

/// The Secrets that a kubeconfig is made from, and itself.
struct Sources {
    authority: Secret,
    admin: Secret,
    own: Option<Secret>,
}

impl Pass<'_> {
    /// Brings the kubeconfig of one control plane up to date.
    pub(super) async fn tend(
        &self,
        plane: &Arc<TenantControlPlane>,
        subject: Result<Subject, SubjectError>,
        before: Option<&Settled>,
    ) -> Result<Standing, Trouble> {
        let subject = subject?;
        let owner = plane.controller_owner_ref(&()).ok_or(Trouble::Identity)?;
        let tenant = Tenant {
            name: plane.name_any(),
            namespace: plane.namespace().unwrap_or_default(),
        };
        if let Some(before) = before
            && before.renew_at.is_none_or(|due| self.now < due)
            && before.seen == self.seen(&owner.uid, &tenant, &subject)
        {
            return Ok(Standing {
                renew_at: before.renew_at,
                settled: Some(before.clone()),
            });
        }
        let mut sources = self.read(&tenant).await?;
        self.clear(&owner, &mut sources).await?;
        self.ensure(&owner, tenant, subject, &sources).await
    }

    fn version(&self, tenant: &Tenant, name: String) -> Option<String> {
        let found = self.versions.get(&(tenant.namespace.clone(), name));
        found.cloned().flatten()
    }

    fn seen(&self, plane: &str, tenant: &Tenant, subject: &Subject) -> Seen {
        let name = &tenant.name;
        Seen {
            plane: plane.to_owned(),
            subject: subject.clone(),
            endpoint_from: self.endpoint_from.to_owned(),
            authority: self.version(tenant, SecretKind::Ca.name(name)),
            admin: self.version(tenant, SecretKind::AdminKubeconfig.name(name)),
            own: self.version(tenant, names::generated_kubeconfig(name, self.generator)),
        }
    }

    async fn read(&self, tenant: &Tenant) -> Result<Sources, Trouble> {
        let secrets: Api<Secret> =
            Api::namespaced(self.applier.client().clone(), &tenant.namespace);
        let get = async |name: String| {
            let found = secrets.get_opt(&name).await;
            found.map_err(ApiError::of("get", "Secret", &name))
        };
        let must = async |kind: SecretKind| {
            let secret = kind.name(&tenant.name);
            // Not asked for while it cannot be there: a control plane that waits costs nothing.
            if self.version(tenant, secret.clone()).is_none() {
                return Err(Trouble::Obstacle(Obstacle::Waiting { secret }));
            }
            let found = get(secret.clone()).await?;
            found.ok_or(Trouble::Obstacle(Obstacle::Waiting { secret }))
        };
        let authority = must(SecretKind::Ca).await?;
        let admin = must(SecretKind::AdminKubeconfig).await?;
        let name = names::generated_kubeconfig(&tenant.name, self.generator);
        let own = get(name.clone()).await?;
        let is_foreign = |own: &Secret| {
            let plane = own.labels().get(names::MANAGED_FOR);
            !plan::is_made_by(self.generator, &own.metadata) || plane != Some(&tenant.name)
        };
        if own.as_ref().is_some_and(is_foreign) {
            return Err(Obstacle::Foreign { secret: name }.into());
        }
        Ok(Sources {
            authority,
            admin,
            own,
        })
    }

    /// Removes a kubeconfig for an earlier control plane of the same name: its authority is gone with it.
    async fn clear(&self, owner: &OwnerReference, sources: &mut Sources) -> Result<(), ApiError> {
        let is_other = |own: &Secret| {
            let mut owners = own.owner_references().iter();
            owners.any(|held| held.controller == Some(true) && held.uid != owner.uid)
        };
        if let Some(own) = sources.own.take_if(|own| is_other(own)) {
            self.applier.delete(&own).await?;
        }
        Ok(())
    }

    async fn ensure(
        &self,
        owner: &OwnerReference,
        tenant: Tenant,
        subject: Subject,
        sources: &Sources,
    ) -> Result<Standing, Trouble> {
        let (wanted, authority) = plan::wanted(
            self.generator,
            self.endpoint_from,
            tenant,
            subject.clone(),
            &Content::from_secret(&sources.authority),
            &Content::from_secret(&sources.admin),
        )?;
        let jitter = Jitter::of(&owner.uid);
        let held = sources.own.as_ref().map(Content::from_secret);
        let step = wanted.plan(held.as_ref(), &authority, self.now, jitter);
        if let Action::Blocked { reason } = step.action {
            return Err(Obstacle::Blocked { reason }.into());
        }
        let content = wanted.issue(&step, held.as_ref(), &authority, &mut Fresh, self.now)?;
        let renew_at = wanted
            .plan(Some(&content), &authority, self.now, jitter)
            .renew_at;
        let mut secret = wanted.to_secret(&content);
        secret.metadata.owner_references = Some(vec![owner.clone()]);
        let outcome = if let Some(own) = &sources.own {
            self.applier.apply_over(&secret, own).await?
        } else {
            // Never over a Secret that somebody else makes at this moment.
            self.applier.create(&secret).await?;
            Outcome::Written
        };
        let seen = Seen {
            plane: owner.uid.clone(),
            subject,
            endpoint_from: self.endpoint_from.to_owned(),
            authority: sources.authority.resource_version(),
            admin: sources.admin.resource_version(),
            own: sources.own.as_ref().and_then(ResourceExt::resource_version),
        };
        let settled = (outcome == Outcome::Unchanged).then_some(Settled { seen, renew_at });
        Ok(Standing { renew_at, settled })
    }
}
