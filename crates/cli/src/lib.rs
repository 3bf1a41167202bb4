//! `butlerctl`, for people who use clusters: its commands as a library, so that its reference can be written from
//! them. `butleradm` is a program of its own beside it.

pub mod butlerctl;
