//! Who of a team may see what of its clusters. Pure.

use butler_api::butler::Team;
use butler_capi::access::Access;
use k8s_openapi::api::rbac::v1::Subject;

use crate::team::{Members, Role, subject};

/// From the members of a team: everybody sees, and whoever may change clusters may have their kubeconfigs.
pub(super) fn of(team: &Team) -> Access {
    let members = Members::of(&team.spec.access);
    let with = |roles: &[Role]| -> Vec<Subject> {
        let members = roles.iter().flat_map(|role| members.with(*role));
        members.map(subject).collect()
    };
    Access {
        viewers: with(&Role::ALL),
        operators: with(&[Role::Operator, Role::Admin]),
    }
}
