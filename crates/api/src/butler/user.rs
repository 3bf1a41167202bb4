//! `User`: a person who may sign in to Butler.
//!
//! Passwords and invitations are never stored here, only hashes and references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, common::SecretRef};

/// A person who may sign in to Butler.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "User",
    plural = "users",
    shortname = "usr",
    category = "butler",
    status = "UserStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A person who may sign in to Butler.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Email", type_ = "string", json_path = ".spec.email"),
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Auth", type_ = "string", json_path = ".spec.authType"),
    printcolumn(
        name = "Platform Admin",
        type_ = "boolean",
        json_path = ".spec.isPlatformAdmin"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Last Login",
        type_ = "date",
        json_path = ".status.lastLoginTime"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(crates(kube_core = "::kube_core"), validation = cel::immutable("email"))]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// E-mail address, which is the identity of the person in teams and audit logs. It cannot be changed.
    #[schemars(schema_with = "crate::schema::email")]
    pub email: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub display_name: Option<String>,
    /// Address of a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub avatar: Option<String>,
    /// How the person signs in: `internal` with a password of Butler's own, `sso` through an IdentityProvider.
    /// Defaults to `internal`.
    #[serde(default)]
    pub auth_type: AuthType,
    /// Name of the IdentityProvider, for `sso`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub sso_provider: Option<String>,
    /// How the IdentityProvider calls the person (the `sub` claim), for `sso`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub sso_subject: Option<String>,
    /// Keeps the person out while true. Defaults to false.
    #[serde(default)]
    pub disabled: bool,
    /// Whether the person may do everything on the platform. Defaults to false. The same as the role `admin`.
    #[serde(default)]
    pub is_platform_admin: bool,
    /// Role on the whole platform: `admin`, `viewer`, or none when empty or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_role: Option<PlatformRole>,
    /// Public keys for SSH into workspaces, told apart by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub ssh_keys: Vec<SshKey>,
}

/// How a person signs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// Through an identity provider.
    Sso,
    /// With a password of Butler's own.
    #[default]
    Internal,
}

/// What a person may do on the whole platform, beside the roles in teams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlatformRole {
    /// Everything.
    Admin,
    /// See everything.
    Viewer,
    /// Nothing beyond teams.
    #[default]
    #[serde(rename = "")]
    None,
}

/// A public key for SSH.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SshKey {
    /// Name of the key, such as `laptop`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The key as OpenSSH writes it: `ssh-ed25519 AAAAC3... ada@laptop`.
    #[schemars(schema_with = "crate::schema::ssh_public_key")]
    pub public_key: String,
    /// SHA-256 fingerprint of the key, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub fingerprint: Option<String>,
    /// When the key was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub added_at: Option<Time>,
}

/// What Butler knows about a person's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, InvitePending and InviteExpired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The state of the account, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<UserPhase>,
    /// The teams the person belongs to, directly or through groups, with the highest role in each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 4096),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub teams: Vec<TeamMembership>,
    /// When the teams were last worked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub teams_resolved_at: Option<Time>,
    /// Groups that the identity provider reported at the last sign-in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), inner(length(max = 512)))]
    pub last_seen_groups: Vec<String>,
    /// When the person last signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_login_time: Option<Time>,
    /// How often the person signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_count: Option<i64>,
    /// Failed sign-ins since the last one that worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_login_attempts: Option<i32>,
    /// Until when sign-ins are refused after too many failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub locked_until: Option<Time>,
    /// When the invitation was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub invite_sent_at: Option<Time>,
    /// When the invitation stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub invite_expires_at: Option<Time>,
    /// Hash of the invitation; the invitation itself is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub invite_token_hash: Option<String>,
    /// The Secret with the hash of the password, for `internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret_ref: Option<SecretRef>,
    /// When the password was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub password_changed_at: Option<Time>,
}

/// The states of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UserPhase {
    /// Invited, not signed in yet.
    #[default]
    Pending,
    /// May sign in.
    Active,
    /// Kept out by an administrator.
    Disabled,
    /// Kept out for a while after too many failed sign-ins.
    Locked,
}

/// A team and the role a person has in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMembership {
    /// Name of the Team.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Highest role in the team: admin, operator or viewer.
    #[schemars(length(max = 32))]
    pub role: String,
}
