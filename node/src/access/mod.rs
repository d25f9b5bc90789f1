//! Configuration files of authentication, authorization and admission.
//!
//! Owns the files' forms, those of the reference, what is wrong with one, and the objects of `orch_api` that are made of
//! them. It decides nothing about requests. Invariant: a file that is refused changes nothing; the one before stays in
//! force.

pub mod admission;
pub mod authentication;
pub mod authorization;
mod faults;
mod follow;
pub mod issuers;

pub use faults::{ConfigFileError, Faults};
pub(crate) use faults::{parse, read_text};
pub use follow::follow;
