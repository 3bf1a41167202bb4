//! What machines are told so that they become nodes, per operating system.
//!
//! Rocky Linux is told by a template of the kubeadm bootstrap provider, which also makes the tokens. The others
//! are told by a Secret that Butler writes: its name is a hash of all it says but the token, so that a new token
//! renews the Secret in place, and anything else is new content and replaces the machines.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use butler_api::types::KubeVersion;
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    core::KubeadmSpec,
    secret::Hidden,
    spec::{Faults, NodeSettings, Os, Pool, TenantSpec},
};

mod bottlerocket;
mod files;
mod flatcar;
mod join;
mod kairos;
mod keep;
mod rocky;
mod talos;
mod token;

pub use join::{JoinError, JoinTicket};
pub use keep::{kept_token, kept_trust};
pub(crate) use keep::{token_kept, trust_kept};
pub use token::{
    BootstrapToken, TOKEN_LIFE, Ticket, TokenError, is_known, look_after, renew, token_secret,
};

/// What Talos machines trust: the authority that signs their certificates, and the token they show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TalosTrust {
    /// The authority, as PEM.
    pub authority: String,
    /// Its key, as PEM; machines are never told it.
    pub key: Hidden,
    /// The token.
    pub token: Hidden,
}

/// What machines of one pool are told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// By a template.
    Kubeadm(Box<KubeadmSpec>),
    /// By a Secret.
    Data(Data),
}

/// Bootstrap data in the format of an operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The text.
    pub text: Hidden,
    /// Its format, as infrastructure providers know it.
    pub format: &'static str,
    /// All it says but the token, for its name.
    pub identity: Value,
}

/// Why machines cannot be told anything yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Early {
    /// The control plane has no address, authority or token yet.
    #[error("the control plane has not said yet how machines join it")]
    Join,
    /// There is no authority for Talos machines.
    #[error("the control plane has no trust service for Talos machines yet")]
    Trust,
    /// What the control plane says cannot be used.
    #[error("what the control plane says about joining cannot be used")]
    Unusable(#[source] JoinError),
}

/// What a pool's machines need to be told, in one place.
pub(crate) struct Context<'a> {
    pub(crate) spec: &'a TenantSpec,
    pub(crate) pool: &'a Pool,
    pub(crate) version: KubeVersion,
}

/// Whether some machines of a cluster are told by Butler itself how they join.
pub fn needs_ticket(spec: &TenantSpec) -> bool {
    spec.pools.iter().any(|pool| pool.os != Os::Rocky)
}

/// Whether some machines of a cluster are Talos.
pub fn needs_trust(spec: &TenantSpec) -> bool {
    let mut pools = spec.pools.iter();
    pools.any(|pool| matches!(pool.os, Os::Talos(_)))
}

/// What the machines of a pool are told.
pub fn tell(
    spec: &TenantSpec,
    pool: &Pool,
    version: KubeVersion,
    join: Option<&JoinTicket>,
    trust: Option<&TalosTrust>,
) -> Result<Told, Early> {
    let context = Context {
        spec,
        pool,
        version,
    };
    let join = || join.ok_or(Early::Join);
    match &pool.os {
        Os::Rocky => Ok(Told::Kubeadm(Box::new(rocky::spec(&context)))),
        Os::Flatcar => told("ignition", join()?, |join| {
            flatcar::ignition(&context, join)
        }),
        Os::Kairos => told("cloud-config", join()?, |join| {
            kairos::cloud_config(&context, join)
        }),
        Os::Bottlerocket => told("toml", join()?, |join| {
            bottlerocket::settings(&context, join)
        }),
        Os::Talos(talos) => {
            let trust = trust.ok_or(Early::Trust)?;
            let settings = talos::Settings {
                talos,
                disk: talos_disk(spec, talos),
                trust,
            };
            told("talos", join()?, |join| {
                talos::machine_config(&context, &settings, join)
            })
        }
    }
}

/// The disk Talos is installed to: as asked for, else the first disk the provider gives a machine.
fn talos_disk(spec: &TenantSpec, talos: &crate::spec::Talos) -> String {
    let first = spec.infrastructure.first_disk();
    talos.disk.clone().unwrap_or_else(|| first.to_owned())
}

/// The data, and the same with another token as its identity.
fn told(
    format: &'static str,
    join: &JoinTicket,
    write: impl Fn(&JoinTicket) -> Result<String, JoinError>,
) -> Result<Told, Early> {
    let text = write(join).map_err(Early::Unusable)?;
    let nameless = write(&join.without_token()).map_err(Early::Unusable)?;
    Ok(Told::Data(Data {
        text: Hidden::new(text),
        format,
        identity: json!([format, nameless]),
    }))
}

/// What cannot be said to machines of this operating system.
pub(crate) fn check(pool: &Pool, nodes: &NodeSettings, faults: &mut Faults) {
    if pool.os == Os::Bottlerocket {
        bottlerocket::check(pool, nodes, faults);
    }
}

/// Text as base64.
pub(crate) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}
