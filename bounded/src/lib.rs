//! Bounds for effects that clients, peers and other servers cause: the rate of a warning, the size and age of cached answers,
//! and the attempts at a request.
//!
//! Owns [`WarningLimit`], [`ExpiringMap`] and [`Attempts`]. Knows no object, request, socket or log; every crate of the workspace may use
//! it.

mod attempts;
mod expiring_map;
mod warning_limit;

pub use attempts::{Attempts, jittered};
pub use expiring_map::{ExpiringMap, ExpiryClock};
pub use warning_limit::WarningLimit;
