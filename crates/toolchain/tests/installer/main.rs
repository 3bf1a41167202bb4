//! Installations in temporary folders, with fake programs and a file server on the loopback address: no test builds
//! anything real, nor sees the user's own cache.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "all of this is test code, also what is outside of a test function"
)]

mod download;
mod install;
mod killed;
mod server;
mod support;
