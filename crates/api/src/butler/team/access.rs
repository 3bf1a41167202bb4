//! Who belongs to a team, and in which role.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::schema;

/// Who has access, and in which role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Single people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub users: Vec<UserAccess>,
    /// Groups of an identity provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["name", "identityProvider"]
        )
    )]
    pub groups: Vec<GroupAccess>,
}

/// Someone who has access to one environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentAccess {
    /// Single people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub users: Vec<UserAccess>,
    /// Groups of an identity provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["name", "identityProvider"]
        )
    )]
    pub groups: Vec<GroupAccess>,
}

/// One person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserAccess {
    /// The e-mail address the person signs in with.
    #[schemars(schema_with = "subject")]
    pub name: String,
    /// admin manages clusters and people, operator manages clusters, viewer reads without secrets;
    /// member is another word for operator. Default: viewer.
    #[serde(default)]
    pub role: TeamRole,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupAccess {
    /// Name of the group, as the identity provider gives it.
    #[schemars(schema_with = "subject")]
    pub name: String,
    /// IdentityProvider the group is of. Empty, the default, means any.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub identity_provider: String,
    /// admin manages clusters and people, operator manages clusters, viewer reads without secrets;
    /// member is another word for operator. Default: viewer.
    #[serde(default)]
    pub role: TeamRole,
}

fn subject(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        254,
        r"self.size() > 0 && !self.matches('^\\s|\\s$')",
        "must not be empty, and must not begin or end with a space",
    )
}

/// What someone may do in a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TeamRole {
    /// Manages clusters and the people of the team.
    Admin,
    /// Manages clusters.
    Operator,
    /// Reads, without secrets.
    #[default]
    Viewer,
    /// Another word for operator.
    Member,
}
