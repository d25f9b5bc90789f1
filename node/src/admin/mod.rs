//! `orch cluster`: the administrator's side of [`crate::run`]'s cluster paths.
//!
//! A client like any other: it reads a client configuration, speaks HTTPS, and knows nothing of the store.

mod access;
mod command;
mod request;

pub use access::{Access, AccessError};
pub use command::run;
pub use request::RequestError;

#[cfg(test)]
mod tests;
