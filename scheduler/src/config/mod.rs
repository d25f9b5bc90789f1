//! The command line and the configuration file.
//!
//! Owns every flag ([`flags`]), the configuration file with its strict decoding, defaults and rules, and the texts of
//! errors, which are the reference's. The parts, in the order in which they are used:
//!
//! ```text
//! flags -> check_logging_format -> check_flags -> settle (file | deprecated flags, defaults, rules)
//!       -> check_source -> check_lock -> Settled::complete (profiles are set up) -> Configuration
//! ```
//!
//! It opens the configuration file and no other, and no socket. Invariant: a [`Configuration`] has passed every rule of
//! fields. Rules that need more than the fields are checked where their subject is made, once: the times of the election
//! ([`crate::election::Timing::new`]), addresses and certificates ([`crate::client`]), arguments of plugins.

pub mod arguments;
mod checks;
mod defaults;
mod document;
mod faults;
mod features;
mod file;
pub mod flags;
mod names;
mod node_affinity;
pub mod notation;
pub mod profile;
mod qualified_name;
mod settle;
mod source;
pub mod types;
mod validate;
pub mod wire;

pub use checks::{PREVIOUS_MINOR, check_flags, check_lock, check_logging_format};
pub(crate) use defaults::PARALLELISM;
pub use features::{Feature, Features, Stage};
pub(crate) use file::{system_text, unreadable};
pub use names::component;
#[cfg(test)]
pub(crate) use names::group_version;
pub use settle::{Configuration, Settled, ignored_flags, settle};
pub use source::check_source;

#[cfg(test)]
mod tests;
