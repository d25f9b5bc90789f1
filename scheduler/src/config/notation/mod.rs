//! The reference's notation for values of flags and of the configuration file.
//!
//! Owns numbers, truth values, durations and lists as they stand on the command line and in the file, with the error
//! texts that the reference gives for bad ones: scripts and dashboards look for them. It knows no flag and no field.

use orch_schema::SignedDuration;

mod list;
mod number;
mod quote;

pub use list::{parse_fields, parse_pairs};
pub use number::{parse_bool, parse_float, parse_int, parse_unsigned};
pub use quote::quote;

/// Parses a duration.
///
/// # Errors
/// The reference's message, with the whole text.
pub fn parse_duration(text: &str) -> Result<SignedDuration, Reason> {
    SignedDuration::parse(text).map_err(|fault| Reason::new(fault.message(text, quote)))
}

/// The reason why a text is no value of its type. Its `Display` is the end of the message about a flag or a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Reason(pub String);

impl Reason {
    /// A reason from a text.
    pub fn new(text: impl Into<String>) -> Reason {
        Reason(text.into())
    }
}

#[cfg(test)]
mod tests;
