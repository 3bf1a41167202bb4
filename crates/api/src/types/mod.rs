//! Values that have been checked: holding one is the proof that it is right.
//!
//! Custom resources carry raw text and numbers; `validate` of a controller turns them into these types
//! once, and nothing below it checks again. Every error says what was wrong and what would be right.

pub mod address_range;
pub mod cidr;
pub mod kube_version;
pub mod names;
pub mod quantity;

pub use address_range::AddressRange;
pub use cidr::Cidr;
pub use kube_version::KubeVersion;
pub use names::{ClusterName, TeamName};
pub use quantity::Quantity;
