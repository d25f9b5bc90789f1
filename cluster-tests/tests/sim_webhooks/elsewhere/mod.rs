//! Conversions by another server, and aggregated servers, over simulated clusters.
//!
//! ```text
//!   writers, readers ──HTTP──> the API of simulated members ──conversions──> a converter that lies now and then
//!   callers ──as many users──┘                              ──requests────> two aggregated servers, one of which hangs
//!                                        ledger of all changes ──> judge
//! ```
//!
//! `PLANT=trusts-answers` plants one bug only.

mod backends;
mod callers;
mod converter;
mod judge;
mod plant;
mod run;
mod writers;

pub(super) use plant::PLANTS;
pub(super) use run::run;
