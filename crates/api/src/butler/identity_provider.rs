//! `IdentityProvider`: where people sign in with an account that is not Butler's.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::SecretRef;

/// Where people sign in with an account that is not Butler's.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "IdentityProvider",
    plural = "identityproviders",
    shortname = "idp",
    category = "butler",
    status = "IdentityProviderStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Where people sign in with an account that is not Butler's: an OpenID Connect provider.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Issuer", type_ = "string", json_path = ".spec.oidc.issuerURL"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.type != 'oidc' || has(self.oidc)")
        .message("type oidc needs the oidc block: issuerURL, clientID, clientSecretRef and redirectURL")
        .field_path(".oidc")
)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProviderSpec {
    /// The protocol. Only `oidc`.
    #[serde(rename = "type")]
    pub type_: IdentityProviderType,
    /// Name on the sign-in button.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub display_name: Option<String>,
    /// The OpenID Connect client. Needed for type `oidc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcClient>,
    /// Groups of the provider whose members get a role on the whole platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub platform_role_groups: Vec<PlatformRoleGroup>,
}

/// The protocols people can sign in with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdentityProviderType {
    /// OpenID Connect.
    #[default]
    Oidc,
}

/// How Butler presents itself to an OpenID Connect provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.scopes) || self.scopes.size() == 0 || 'openid' in self.scopes")
        .message("scopes must contain openid, or be left out")
        .field_path(".scopes")
)]
#[serde(rename_all = "camelCase")]
pub struct OidcClient {
    /// Address of the provider, such as `https://login.example.com/realms/main`, exactly as it calls itself.
    #[serde(rename = "issuerURL")]
    #[schemars(schema_with = "issuer_url")]
    pub issuer_url: String,
    /// Name of Butler at the provider.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1, max = 512))]
    pub client_id: String,
    /// The Secret with Butler's password at the provider. The namespace defaults to `butler-system`, the key
    /// to `client-secret`.
    pub client_secret_ref: SecretRef,
    /// Where the provider sends people back to, such as `https://butler.example.com/api/auth/callback`.
    #[serde(rename = "redirectURL")]
    #[schemars(schema_with = "crate::schema::url")]
    pub redirect_url: String,
    /// What to ask the provider for. Defaults to openid, email, profile and groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 1, max = 128)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub scopes: Vec<String>,
    /// The claim with the e-mail address. Defaults to `email`.
    #[serde(default = "email_claim")]
    #[schemars(length(min = 1, max = 128))]
    pub email_claim: String,
    /// The claim with the groups. Defaults to `groups`.
    #[serde(default = "groups_claim")]
    #[schemars(length(min = 1, max = 128))]
    pub groups_claim: String,
    /// Only people of this Google Workspace domain may sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hosted_domain: Option<String>,
    /// Reads groups from Google Workspace, which does not put them into tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub google_workspace: Option<GoogleWorkspace>,
    /// Accepts any certificate of the provider: for trials only. Defaults to false.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

fn issuer_url(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::schema::text(
        2048,
        "self.matches('^https://[^ ?#]+$')",
        "must be an https:// address without a query, such as https://login.example.com",
    )
}

fn email_claim() -> String {
    "email".into()
}

fn groups_claim() -> String {
    "groups".into()
}

/// How groups are read from Google Workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoogleWorkspace {
    /// E-mail address of the administrator on whose behalf groups are read.
    #[schemars(schema_with = "crate::schema::email")]
    pub admin_email: String,
    /// The Secret with the key of the service account. The namespace defaults to `butler-system`.
    pub service_account_secret_ref: SecretRef,
}

/// A group of the provider and the role its members get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlatformRoleGroup {
    /// Name of the group as the provider writes it.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Role on the whole platform.
    pub role: GroupRole,
}

/// What a group may be given on the whole platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupRole {
    /// Everything.
    Admin,
    /// See everything.
    #[default]
    Viewer,
}

/// What Butler found out about the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProviderStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Discovered and SecretValid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether people can sign in, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<IdentityProviderPhase>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the provider last answered as it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_validated_time: Option<Time>,
    /// What the provider says about itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovered_endpoints: Option<DiscoveredEndpoints>,
}

/// Whether people can sign in through a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IdentityProviderPhase {
    /// Not looked at yet.
    #[default]
    Pending,
    /// They can.
    Ready,
    /// They cannot; the message says why.
    Failed,
}

/// Addresses from the provider's discovery document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredEndpoints {
    /// Where people are sent to sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// Where codes are exchanged for tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// Where the claims of a person are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_info_endpoint: Option<String>,
    /// Where the signing keys are.
    #[serde(default, rename = "jwksURI", skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
}
