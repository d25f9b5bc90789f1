//! The rules of objects: what kinds default, prepare and refuse, what they share, and what selectors select.
//!
//! Owns judgement over decoded objects, as pure functions: nothing here reads a store, a clock or a request. It knows no
//! HTTP, and no user but by name. What needs several objects is admission, which is the API's.

pub mod action;
pub mod kinds;
pub mod selector;
pub mod validate;

#[cfg(test)]
mod stages;

pub use action::Action;
