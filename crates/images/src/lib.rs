//! Images without an image builder: programs become OCI images in a folder, and registries are filled from it.
//!
//! A [`Recipe`] says what is in an image and the [`Layout`] is a folder in the OCI image layout, so every tool that
//! reads such folders can use it. The same recipe gives the same bytes. [`catalog`] knows which images the platform
//! needs and which programs they are made of; [`Registry`] sends them anywhere. Nothing here runs an image.

pub mod addons;
pub mod catalog;
pub mod closure;
mod layer;
mod layout;
mod mirror;
mod recipe;
mod reference;
mod registry;

pub use layout::{Entry, Error, Layout};
pub use mirror::{MirrorError, Sent, mirror, parse_list};
pub use recipe::{File, Recipe};
pub use reference::{InvalidReference, Reference};
pub use registry::{Registry, RegistryError};
