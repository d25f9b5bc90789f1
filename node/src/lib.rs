//! The parts of the `orch` binary: configuration, certificates, TLS, listeners, start and stop.
//!
//! Owns the process: the files it reads before it starts, the ports it opens, and how it stops. It decides nothing
//! about the API or the store; it builds them from settings and serves them.

pub mod access;
pub mod admin;
pub mod audit;
pub mod built;
pub mod certs;
pub mod cli;
pub mod connect;
pub mod doctor;
pub mod egress;
pub mod encryption;
#[cfg(test)]
mod error_texts;
pub mod kubeconfig;
pub mod log_check;
pub mod logging;
pub mod metrics;
pub mod moving;
pub mod object_store;
mod operator;
pub mod policy;
pub mod recovery;
pub mod reset;
pub mod run;
pub mod server;
pub mod snapshot;
pub mod tls;
pub mod token_keys;
pub mod traces;
