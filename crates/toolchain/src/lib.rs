//! The real components Butler runs on and is tested with, at pinned versions, in a cache folder of the user.
//!
//! `toolchain/versions.toml` says what is pinned; [`Toolchain::ensure`] makes it available from the first source
//! that has it: the cache, PATH, the official release or a mirror of it, or a build from source. [`plan`] decides, the
//! rest carries out. It knows nothing of what the components are used for.

mod cache;
pub mod cli;
mod install;
mod lock;
pub mod manifest;
mod modules;
pub mod plan;
pub mod progress;
mod receipt;
mod selection;
mod settings;
mod source;
mod status;
mod toolchain;
mod version;

pub use cache::CacheError;
pub use install::InstallError;
pub use lock::LockError;
pub use manifest::{Group, Manifest};
pub use modules::GoModule;
pub use progress::Progress;
pub use receipt::Origin;
pub use selection::{Name, Selection};
pub use settings::{NoCacheFolder, Settings};
pub use status::{ArtifactStatus, Installed, InstalledArtifact, State};
pub use toolchain::{Error, Toolchain};
pub use version::{InvalidVersion, Version};
