//! The rules of objects: defaults, preparation and validation of each kind, rules that kinds share, and selectors.
//!
//! Owns judgement over decoded objects, as pure functions: no function reads a store, a clock or a request. It knows no
//! HTTP, and no user but by name. Rules over several objects are admission plugins of the API.

pub mod action;
pub mod certificates;
pub mod disruption;
pub mod expression;
pub mod json_path;
pub mod kinds;
pub mod pod_security;
pub mod quota;
pub mod selector;
pub mod validate;

#[cfg(test)]
mod stages;

pub use action::Action;
