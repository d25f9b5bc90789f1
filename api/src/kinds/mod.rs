//! One small file for each kind whose rules only code can state; the rest of a kind is its message in `proto/`.
//!
//! Owns the table from kind to strategy. A strategy is pure: see `strategy`.

pub mod strategy;

pub use strategy::{Cell, Context, NameRule, Plain, Strategy};
