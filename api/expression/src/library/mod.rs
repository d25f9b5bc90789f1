//! The code of functions and operators.
//!
//! Owns one function of code for each name in the table ([`crate::functions`]). Each looks at the values it gets; values
//! that it does not take are `no such overload`. What a call reads or makes beyond its arguments is taken from the run
//! before it is done.

pub(crate) mod access;
pub(crate) mod access_checks;
mod address_faults;
pub(crate) mod clauses;
pub(crate) mod collections;
pub(crate) mod conversions;
pub(crate) mod devices;
pub(crate) mod doubles;
mod escapes;
pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod locators;
pub(crate) mod logic;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod numbers;
pub(crate) mod optionals;
pub(crate) mod order;
pub(crate) mod patches;
pub(crate) mod quantities;
pub(crate) mod sets;
pub(crate) mod strings;
pub(crate) mod times;
pub(crate) mod urls;
pub(crate) mod versions;
mod zones;
