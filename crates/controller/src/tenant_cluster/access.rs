//! Who of a team may see what of its clusters.

use butler_api::butler::{Team, TenantCluster};
use butler_capi::{
    access::{self, Access, Audience},
    names::Identity,
    observe::Standing,
};
use k8s_openapi::api::rbac::v1::Subject;
use kube::ResourceExt as _;

use super::{Controller, Error, carry_out::Place, observe, seen::standing_of};
use crate::team::{Members, Role, subject};

/// From the members of a team: everybody sees, and whoever may change clusters may have their kubeconfigs.
pub(super) fn of(team: Option<&Team>) -> Audience {
    let Some(team) = team else {
        return Audience::Nobody;
    };
    let members = Members::of(&team.spec.access);
    let with = |roles: &[Role]| -> Vec<Subject> {
        let members = roles.iter().flat_map(|role| members.with(*role));
        members.map(subject).collect()
    };
    Audience::Team(Access {
        viewers: with(&Role::ALL),
        operators: with(&[Role::Operator, Role::Admin]),
    })
}

impl Controller {
    /// Keeps access true where nothing else can be done about a cluster: who leaves a team must not keep it because a
    /// provider is missing.
    pub(super) async fn keep_access(&self, raw: &TenantCluster) -> Result<(), Error> {
        let Ok(name) = raw.name_any().parse() else {
            return Ok(());
        };
        let identity = Identity::new(name, raw);
        let home = identity.tenant_namespace();
        let namespace = self.feeds.namespaces.get(None, &home);
        if standing_of(namespace.as_deref(), &identity.uid) != Standing::Ours {
            return Ok(());
        }
        let place = Place {
            applier: &self.applier,
            namespace: &home,
            home: &identity.namespace,
        };
        let audience = of(self.feeds.teams.get(None, &identity.namespace).as_deref());
        let mut standing = self.children.objects(&home);
        standing.retain(|object| observe::is_of(object, &identity.uid));
        let standing = super::carry_out::index(standing);
        let wanted = access::objects(&identity, &audience);
        for object in &wanted {
            place.apply(object, standing.get(&object.id())).await?;
        }
        for (id, live) in &standing {
            let is_wanted = wanted.iter().any(|object| object.id() == *id);
            if !is_wanted && audience.revokes(id, observe::hash(live).as_ref()) {
                place.delete(id, Some(live)).await?;
            }
        }
        Ok(())
    }
}
