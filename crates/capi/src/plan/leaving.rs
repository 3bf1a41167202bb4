//! A cluster that goes: who it is, and the objects that its end asks to go.

use butler_api::butler::TenantCluster;

use crate::{
    core::{CONTROL_PLANE, GROUP},
    names::Identity,
    object::ObjectId,
    spec::TenantSpec,
};

/// A cluster that goes, whatever its spec and its provider say by now: who it is, and whether it may go. What it was made
/// into is known by what stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Who it is.
    pub identity: Identity,
    /// Whether nothing of it may be removed.
    pub protected: bool,
}

impl Leaving {
    /// Nothing where no cluster could ever be made, because it has no name for one.
    pub fn of(raw: &TenantCluster) -> Option<Self> {
        let name = raw.metadata.name.as_deref()?.parse().ok()?;
        Some(Self {
            identity: Identity::new(name, raw),
            protected: raw.spec.deletion_protection,
        })
    }

    pub(super) fn cluster(&self) -> ObjectId {
        self.named(&format!("{GROUP}/v1beta2"), "Cluster")
    }

    pub(super) fn control_plane(&self) -> ObjectId {
        self.named(&format!("{CONTROL_PLANE}/v1alpha1"), "StewardControlPlane")
    }

    pub(super) fn namespace(&self) -> ObjectId {
        ObjectId {
            name: self.identity.tenant_namespace(),
            ..self.named("v1", "Namespace")
        }
    }

    fn named(&self, api_version: &str, kind: &str) -> ObjectId {
        ObjectId {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: self.identity.cluster().to_owned(),
        }
    }
}

impl From<&TenantSpec> for Leaving {
    fn from(spec: &TenantSpec) -> Self {
        Self {
            identity: spec.identity.clone(),
            protected: spec.protected,
        }
    }
}
