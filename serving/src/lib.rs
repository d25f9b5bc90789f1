//! The rim that the `orch` and the `scheduler` program have in common: files, TLS, and lines of the log.
//!
//! Owns what a program does at its sockets and files, whatever it serves behind them. Knows no object, no store and no request
//! of the API, and decides neither who is let in nor what is answered.

pub mod files;
pub mod kubeconfig;
pub mod logging;
pub mod process;
mod report;
pub mod secrecy;
mod secret;
pub mod stamps;
pub mod tls;
pub mod zpages;

pub use report::Causes;
pub use secret::Secret;
