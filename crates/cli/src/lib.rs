//! The command lines of both programs as a library, so that their references can be written from them: `butlerctl` for
//! people who use clusters, `butleradm` for people who run the platform.

mod addon_plan;
pub mod butleradm;
pub mod butlerctl;
mod connection;
mod documents;
mod failure;
mod output;
mod table;
