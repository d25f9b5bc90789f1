//! Patterns of schemas, compiled when a value first needs them.
//!
//! Owns the patterns that are kept compiled, by their text, for all kinds together: definitions repeat a few patterns thousands of
//! times, and most are never met by a value. It decides no answer: a pattern that is not kept is compiled again.
//!
//! Invariant: the patterns of a generation hold at most [`GENERATION_BYTES_MAX`] bytes, the last one of them excepted.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use orch_schema::budget::count_steps;
use orch_schema::value::SmolStr;
use parking_lot::Mutex;

use crate::expression::{Allowance, MetPattern, Pattern, PatternError, PatternLimits};

/// Bytes of compiled patterns in each of two generations. The 502 patterns of the corpus hold some 4 MB.
const GENERATION_BYTES_MAX: usize = 4 << 20;
/// Steps of compiling one pattern: more than any of [`PatternLimits::SCHEMA`] takes.
const COMPILE_STEPS: u64 = 4_000_000;
/// Steps of a request's budget for each step of matching.
const REQUEST_STEPS_PER_STEP: u64 = 3;

/// Whether `pattern` matches a part of `text`.
///
/// # Errors
/// The pattern cannot be compiled.
pub(super) fn matches(pattern: &SmolStr, text: &str) -> Result<bool, PatternError> {
    let compiled = compiled(pattern)?;
    let mut charge = |steps: u64| count_steps(steps.saturating_mul(REQUEST_STEPS_PER_STEP));
    // Where the request was stopped, nothing that is found out now is answered or stored.
    Ok(compiled.is_match(text, &mut charge).unwrap_or(false))
}

type Entry = Result<Arc<MetPattern>, PatternError>;

#[derive(Default)]
struct Kept {
    young: HashMap<SmolStr, Entry>,
    young_bytes: usize,
    old: HashMap<SmolStr, Entry>,
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

impl Kept {
    fn find(&mut self, pattern: &SmolStr) -> Option<Entry> {
        if let Some(found) = self.young.get(pattern) {
            return Some(found.clone());
        }
        let found = self.old.remove(pattern)?;
        self.keep(pattern, found.clone());
        Some(found)
    }

    fn keep(&mut self, pattern: &SmolStr, entry: Entry) {
        let bytes = pattern.len() + size_of::<(SmolStr, Entry)>();
        self.young_bytes += bytes + entry.as_ref().map_or(0, |compiled| compiled.bytes());
        self.young.insert(pattern.clone(), entry);
        if self.young_bytes > GENERATION_BYTES_MAX {
            self.young_bytes = 0;
            self.old = std::mem::take(&mut self.young);
        }
    }
}

fn compiled(pattern: &SmolStr) -> Entry {
    let kept = KEPT.lock().find(pattern);
    kept.unwrap_or_else(|| {
        let mut allowance = Allowance::of(COMPILE_STEPS);
        let Ok(compiled) = Pattern::compile(pattern, PatternLimits::SCHEMA, &mut allowance) else {
            // The request was stopped, which says nothing about the pattern.
            return Err(PatternError::TooLarge);
        };
        let entry = compiled.map(|pattern| Arc::new(MetPattern::new(pattern)));
        KEPT.lock().keep(pattern, entry.clone());
        entry
    })
}

#[cfg(test)]
mod tests {
    use orch_schema::budget::{Budget, count_step};

    use super::*;

    #[test]
    fn a_new_state_is_charged_for_the_size_of_its_pattern() {
        let large = SmolStr::new(r"^(\pL{1,30})?$");
        assert_eq!(matches(&large, ""), Ok(true));
        let is_left = |pattern: &SmolStr, text: &str| {
            std::sync::Arc::new(Budget::of(1_000)).enter(|| {
                let matched = matches(pattern, text);
                (matched, count_step())
            })
        };
        assert_eq!(is_left(&large, ""), (Ok(true), true), "its states are there");
        assert_eq!(is_left(&large, "b"), (Ok(false), false), "the request was stopped");
        assert_eq!(is_left(&SmolStr::new("^a?$"), ""), (Ok(true), true));
    }

    #[test]
    fn patterns_are_kept_within_their_bytes() {
        for number in 0..2000 {
            let pattern = SmolStr::from(format!("^[a-z]{{1,{}}}x{number}$", number % 60 + 1));
            assert_eq!(matches(&pattern, &format!("ax{number}")), Ok(true));
        }
        let kept = KEPT.lock();
        let bytes = |map: &HashMap<SmolStr, Entry>| -> usize {
            map.values().flatten().map(|compiled| compiled.bytes()).sum()
        };
        let last = 4 << 20;
        assert!(bytes(&kept.young) + bytes(&kept.old) <= 2 * (GENERATION_BYTES_MAX + last));
        drop(kept);
        assert!(matches(&SmolStr::new("("), "").is_err());
        assert_eq!(matches(&SmolStr::new(r"^[\w-_./]+$"), "a-_./"), Ok(true));
    }
}
