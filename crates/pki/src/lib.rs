//! The keys, certificates and kubeconfigs of hosted control planes, and when each of them is made anew.
//!
//! [`plan::plan`] looks at what the Secrets hold and what is wanted, and says for each item whether it is
//! kept or made anew, why, when it is due, and who uses it. [`issue::carry_out`] does that and nothing else.
//! Subjects, names and usages are kubeadm's; Secret names and keys are in [`layout`].
//!
//! The crate knows no client and no clock; chance enters through [`source::KeySource`] only.

pub mod authority;
pub mod capi;
pub mod certificate;
mod der;
mod files;
pub mod fingerprint;
pub mod issue;
mod item;
mod judge;
pub mod key;
pub mod kubeconfig;
pub mod layout;
pub mod names;
pub mod plan;
pub mod profile;
pub mod reason;
pub mod source;
pub mod user;
pub mod validity;
pub mod wanted;

pub use authority::{Authority, AuthorityError};
pub use certificate::Certificate;
pub use fingerprint::Fingerprint;
pub use issue::{IssueError, carry_out};
pub use key::{Algorithm, PrivateKey};
pub use kubeconfig::Kubeconfig;
pub use layout::{Content, Contents, SecretKind, Tenant};
pub use names::{AltName, AltNames, ServerNames};
pub use plan::{Action, Consumer, Item, Plan, Step, plan};
pub use profile::Subject;
pub use reason::Reason;
pub use source::{Fresh, KeySource};
pub use user::UserKubeconfig;
pub use validity::{Jitter, Lifetime, Lifetimes};
pub use wanted::{Servers, Store, Wanted};
