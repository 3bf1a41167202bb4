//! From a team's raw access list to who has which role. Pure.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::butler::team::{Access, TeamRole};

/// What a member of a team may do; the later, the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Makes and changes clusters.
    Operator,
    /// Also keeps credentials and providers.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The `RoleBinding` in the team's namespace, and the `ClusterRole` it binds.
    pub fn binding_name(self) -> &'static str {
        match self {
            Self::Viewer => "butler-team-viewer",
            Self::Operator => "butler-team-operator",
            Self::Admin => "butler-team-admin",
        }
    }
}

impl From<TeamRole> for Role {
    fn from(role: TeamRole) -> Self {
        match role {
            TeamRole::Admin => Self::Admin,
            TeamRole::Operator | TeamRole::Member => Self::Operator,
            TeamRole::Viewer => Self::Viewer,
        }
    }
}

/// Somebody who belongs to a team.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum Member {
    /// One person, by e-mail address.
    User(String),
    /// Everybody of a group of the identity provider.
    Group(String),
}

/// Who has which role; nobody twice, the highest role wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(BTreeMap<Member, Role>);

impl Members {
    /// Reads the access list of a team.
    pub fn of(access: &Access) -> Self {
        let users = access
            .users
            .iter()
            .map(|user| (Member::User(user.name.clone()), Role::from(user.role)));
        let groups = access
            .groups
            .iter()
            .map(|group| (Member::Group(group.name.clone()), Role::from(group.role)));
        let mut members = BTreeMap::new();
        for (member, role) in users.chain(groups) {
            members
                .entry(member)
                .and_modify(|held| *held = role.max(*held))
                .or_insert(role);
        }
        Self(members)
    }

    /// The members that have exactly this role.
    pub fn with(&self, role: Role) -> BTreeSet<&Member> {
        self.0
            .iter()
            .filter(|(_, held)| **held == role)
            .map(|(member, _)| member)
            .collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}
