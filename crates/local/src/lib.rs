//! The one-machine platform: a real Butler on one Linux machine, without Docker, virtual machines or a cloud account.
//!
//! [`Platform`] brings it up in phases that can each be run again, and takes it down so that nothing is left. The
//! [`agent`] keeps it going meanwhile. The network is `butler-fabric`'s, the images are `butler-images`'.

mod access;
mod addons;
pub mod agent;
mod audit;
mod cgroup;
mod chart;
mod cluster_api;
mod command;
mod controllers;
mod error;
mod kubeadm;
pub mod ledger;
mod limits;
pub mod machines;
mod management;
mod node;
mod platform;
mod pools;
pub mod preflight;
mod program;
mod progress;
mod sample;
pub mod settings;
mod status;
mod store;
mod wait;

pub use controllers::Controllers;
pub use error::Error;
pub use platform::Platform;
pub use progress::Progress;
pub use status::Status;
