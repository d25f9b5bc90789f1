//! A write as policies and webhooks match it and see it.
//!
//! Owns which writes rules and selectors are about ([`rules`]), the names of a write and the document that describes it
//! ([`asked`]), its objects in the versions that are asked for ([`versions`]), their form after a change ([`target`]), and
//! evaluations of expressions over them ([`write`], [`rights`]), with the series of match conditions ([`condition_series`]). It knows
//! neither policies nor webhooks.

mod asked;
mod condition_series;
mod rights;
mod rules;
mod target;
mod versions;
mod write;

pub(super) use self::asked::{Asked, Requests};
pub(super) use self::condition_series::{
    ConditionLabels, condition_labels, count_excluded, observe_unmet, operation_name,
};
pub(super) use self::rules::{Match, Version, labels_of};
pub(super) use self::target::Target;
pub(super) use self::versions::{Converted, Names, back, converted, shown_in, stored_in};
pub(super) use self::write::{Objects, Param, Write};
