//! Patterns of schemas: whether they are regular expressions, within a bound for the whole definition.
//!
//! Owns the bound on compiling all patterns of a definition. A pattern that stands several times is compiled once. The limits of one
//! pattern are those under which values are matched later (`kinds::defined`).

use std::collections::HashMap;

use crate::expression::{Allowance, Pattern, PatternError, PatternLimits};

/// Steps of compiling the patterns of a definition: four tenths of a second on one core, and twice what one pattern may take.
const STEPS_MAX: u64 = 4_000_000;

/// The patterns of a definition that were compiled so far, with their faults.
#[derive(Debug)]
pub(super) struct Patterns {
    allowance: Allowance,
    known: HashMap<String, Option<PatternError>>,
}

impl Patterns {
    /// None so far.
    pub(super) fn new() -> Patterns {
        Patterns { allowance: Allowance::of(STEPS_MAX), known: HashMap::new() }
    }

    /// The reason why `pattern` cannot be used.
    pub(super) fn fault(&mut self, pattern: &str) -> Option<PatternError> {
        if let Some(fault) = self.known.get(pattern) {
            return fault.clone();
        }
        let compiled = Pattern::compile(pattern, PatternLimits::SCHEMA, &mut self.allowance);
        let fault = compiled.unwrap_or(Err(PatternError::TooLarge)).err();
        self.known.insert(pattern.to_owned(), fault.clone());
        fault
    }
}
