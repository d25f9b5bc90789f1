//! Expressions in the Common Expression Language: parsing, types, cost, and evaluation over borrowed values.
//!
//! Owns the language as the reference's libraries have it. A text becomes an [`Ast`] by [`Ast::check`] against a
//! [`Scope`], and a [`Program`] by [`Ast::program`]; a program is evaluated over [`Val`]s, which borrow documents. The
//! grammar is a library's; types, costs and values are this crate's. It knows no kind, store, clock, user or HTTP.
//!
//! Invariants: compiling has a price, which is charged before each stage ([`Charge`]); an evaluation ends within its
//! [`Limits`], in time and memory; the table of functions is the only list of them; reading a member of a document and
//! comparing it allocates nothing. The reference's rules are in decision 0044.

mod allowance;
mod bound;
mod check;
mod compile;
mod cost;
pub mod environments;
mod error;
mod evaluate;
mod functions;
mod group;
mod library;
mod macros;
mod nesting;
#[cfg(test)]
mod oracle;
mod parse;
mod pattern;
mod program;
mod reads;
pub mod schema;
mod scope;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod value;

pub use cel::IdedExpr;

pub use self::allowance::{Allowance, Charge, Exhausted, charge_request};
pub use self::bound::{DeviceBounds, device_selector_steps};
pub use self::cost::{Estimate, Range, Sizes};
pub use self::error::{CompileError, EvaluationError};
pub use self::evaluate::{Budget, Limits};
pub use self::group::{Group, LazyVariables};
pub use self::library::access_checks::{Check, Decision, Decisions, Question, ResourceTarget, Target};
pub use self::library::locators::Url;
pub use self::library::names::NamedFormat;
pub use self::parse::{NESTING_MAX, Parsed, parse};
pub use self::pattern::{MetPattern, Pattern, PatternError, PatternLimits, letters_and_signs};
pub use self::program::{Ast, Program};
pub use self::scope::{Libraries, ObjectTable, Objects, Scope};
pub use self::types::Type;
pub use self::value::{Blob, Key, List, MadeMap, Map, Members, Text, Val};

/// A length as a number of steps or bytes.
pub(crate) fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
