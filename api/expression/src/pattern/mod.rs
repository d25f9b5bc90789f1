//! Regular expressions of clients: the one place where they are compiled.
//!
//! Owns the prices of compiling ([`price`]) and matching, and the bounds of both ([`PatternLimits`]); the syntax is that of
//! RE2 ([`re2`] for the text, [`syntax`] for the tree).
//! A pattern becomes an automaton without captures, literal search or cached states, which would cost more to make than
//! selectors gain: matching takes time for each byte of the text and, at worst, for each state. A pattern that stands in
//! an expression is compiled with it.
//!
//! Invariant: a pattern's steps are charged before each stage of compiling it, and a pattern that would take more than
//! [`PatternLimits::steps`] is not compiled.

mod kept;
mod letters;
mod price;
mod re2;
mod syntax;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_syntax::hir::translate::Translator;

use crate::allowance::{Allowance, Charge, Exhausted};

pub use self::letters::letters_and_signs;

use self::kept::KeptStates;

/// Bytes of an automaton that are looked at in one step, for each byte of the text: each state has some thirty and takes
/// up to twenty nanoseconds.
const AUTOMATON_BYTES_PER_STEP: u64 = 128;
/// Steps of beginning to match, mostly allocations.
const BEGIN_STEPS: u64 = 10;
/// Bytes of an automaton from which on a pattern that meets many texts keeps its states.
const KEPT_BYTES_MIN: usize = 16 << 10;
/// Bytes of a pattern beside its automaton.
const OWN_BYTES: usize = 1024;

/// Bounds of a pattern, by where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct PatternLimits {
    /// Bytes of its text.
    text_bytes: usize,
    /// Bytes of its automaton.
    automaton_bytes: usize,
    /// Steps of compiling it.
    steps: u64,
}

impl PatternLimits {
    /// For patterns that stand in an expression of a client. The reference has no bound of its own for the text; a class of
    /// characters takes a few bytes to write. The steps, a fiftieth of a second, are those of the largest automaton and of
    /// one class that is folded over all characters.
    pub const STANDING: PatternLimits =
        PatternLimits { text_bytes: 1024, automaton_bytes: 256 << 10, steps: 200_000 };
    /// For patterns that stand in the schema of a definition, compiled when it is written and when a value first needs them. The
    /// longest public one has 1119 bytes, and the largest repeats all letters and signs of Unicode 62 times. The steps are a fifth of a
    /// second.
    pub const SCHEMA: PatternLimits =
        PatternLimits { text_bytes: 4 << 10, automaton_bytes: 4 << 20, steps: 2_000_000 };
    /// For patterns that stand in the operator's configuration, compiled when it is read: eight to ten times as much. The
    /// text may be as long as an expression of a configuration. The steps are a fifth of a second.
    pub const CONFIGURED: PatternLimits =
        PatternLimits { text_bytes: 8 << 10, automaton_bytes: 2 << 20, steps: 2_000_000 };
    /// For patterns that are known in an evaluation only, and compiled in each.
    const UNKNOWN: PatternLimits =
        PatternLimits { text_bytes: 128, automaton_bytes: 32 << 10, steps: 10_000 };
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    automaton: PikeVM,
    /// Bytes of its longest match; `None` if there is no bound.
    match_bytes_max: Option<usize>,
}

/// A compiled pattern that meets many texts, such as one of a schema.
#[derive(Debug)]
pub struct MetPattern {
    pattern: Pattern,
    /// Of a large pattern alone.
    states: Option<KeptStates>,
}

impl MetPattern {
    /// `pattern`, for many texts.
    pub fn new(pattern: Pattern) -> MetPattern {
        let automaton = pattern.automaton.get_nfa();
        let is_large = automaton.memory_usage() >= KEPT_BYTES_MIN;
        let states = if is_large { KeptStates::of(automaton) } else { None };
        MetPattern { pattern, states }
    }

    /// Whether the pattern matches a part of `text`. `charge` is asked for the steps of what is about to be done, in parts. `None`: it
    /// refused.
    pub fn is_match(&self, text: &str, charge: &mut dyn FnMut(u64) -> bool) -> Option<bool> {
        let of_byte = self.pattern.steps_of_byte();
        if !charge(BEGIN_STEPS) {
            return None;
        }
        if let Some(states) = &self.states {
            let mut is_refused = false;
            let mut ask = |steps: u64| {
                let may = charge(steps);
                is_refused |= !may;
                may
            };
            match states.is_match(text, of_byte, &mut ask) {
                Some(found) => return Some(found),
                None if is_refused => return None,
                // Its states cannot decide: it is simulated.
                None => {}
            }
        }
        // Its state is as large as the automaton: of a large one a thousand empty texts take as long as a long text.
        let looks = u64::try_from(text.len()).unwrap_or(u64::MAX).saturating_add(1);
        charge(of_byte.saturating_mul(looks)).then(|| self.pattern.is_match(text))
    }

    /// Bytes of memory that it holds, with the states that it may keep.
    pub fn bytes(&self) -> usize {
        let states = self.states.as_ref().map_or(0, KeptStates::bytes_max);
        self.pattern.bytes().saturating_add(states)
    }
}

/// The reason why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is longer or larger than patterns may be, or takes longer to compile.
    #[error("the regular expression is too large")]
    TooLarge,
    /// It is no pattern, for this reason, which repeats a part of it.
    #[error("error parsing regexp: {0}")]
    Invalid(Arc<str>),
}

impl Pattern {
    /// Compiles a pattern that stands in an expression within `limits`, and charges for it.
    ///
    /// # Errors
    /// The outer one: the steps are not left. The inner one: it is no pattern, or too large.
    pub fn compile(
        pattern: &str,
        limits: PatternLimits,
        charge: &mut dyn Charge,
    ) -> Result<Result<Pattern, PatternError>, Exhausted> {
        Self::compile_with(pattern, limits, WhichCaptures::None, charge)
    }

    /// Compiles a pattern that stands in an expression and whose places are asked for, and charges for it. It is no larger than one that
    /// is known in an evaluation only.
    ///
    /// # Errors
    /// As of [`Pattern::compile`].
    pub(crate) fn compile_to_find(
        pattern: &str,
        charge: &mut dyn Charge,
    ) -> Result<Result<Pattern, PatternError>, Exhausted> {
        Self::compile_with(pattern, PatternLimits::UNKNOWN, WhichCaptures::Implicit, charge)
    }

    fn compile_with(
        pattern: &str,
        limits: PatternLimits,
        captures: WhichCaptures,
        charge: &mut dyn Charge,
    ) -> Result<Result<Pattern, PatternError>, Exhausted> {
        if pattern.len() > limits.text_bytes {
            return Ok(Err(PatternError::TooLarge));
        }
        charge.charge(price::of_text(pattern))?;
        let translated = match re2::translated(pattern) {
            Ok(translated) => translated,
            Err(reason) => return Ok(Err(PatternError::Invalid(reason))),
        };
        let pattern = &*translated;
        let syntax = match syntax::parse(pattern) {
            Ok(syntax) => syntax,
            Err(reason) => return Ok(Err(PatternError::Invalid(reason))),
        };
        let steps = price::of_syntax(&syntax, limits.automaton_bytes);
        if steps > limits.steps {
            return Ok(Err(PatternError::TooLarge));
        }
        charge.charge(steps)?;
        let hir = match Translator::new().translate(pattern, &syntax) {
            Ok(hir) => hir,
            // The syntax is valid: a class has an unknown name.
            Err(error) => {
                let place = syntax::part(pattern, error.span());
                return Ok(Err(PatternError::Invalid(syntax::fault("invalid character class range", place))));
            }
        };
        let config =
            thompson::Config::new().nfa_size_limit(Some(limits.automaton_bytes)).which_captures(captures);
        let built = thompson::Compiler::new().configure(config).build_from_hir(&hir);
        // The syntax is valid: only the size is left.
        let automaton = built.and_then(|nfa| PikeVM::builder().build_from_nfa(nfa));
        let match_bytes_max = hir.properties().maximum_len();
        let pattern = automaton.map(|automaton| Pattern { automaton, match_bytes_max });
        Ok(pattern.map_err(|_| PatternError::TooLarge))
    }

    /// Compiles a pattern in an evaluation, which has taken [`UNKNOWN_COMPILE_STEPS`].
    ///
    /// # Errors
    /// It is no pattern, or larger than such patterns may be.
    pub(crate) fn compile_unknown(pattern: &str) -> Result<Pattern, PatternError> {
        // The price of reading the text comes on top of that of the automaton.
        let mut allowance = Allowance::of(UNKNOWN_COMPILE_STEPS);
        Self::compile(pattern, PatternLimits::UNKNOWN, &mut allowance).unwrap_or(Err(PatternError::TooLarge))
    }

    /// The same for a pattern whose places are asked for.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn compile_unknown_to_find(pattern: &str) -> Result<Pattern, PatternError> {
        let mut allowance = Allowance::of(UNKNOWN_COMPILE_STEPS);
        Self::compile_with(pattern, PatternLimits::UNKNOWN, WhichCaptures::Implicit, &mut allowance)
            .unwrap_or(Err(PatternError::TooLarge))
    }

    /// Start and end of the first match in `text` at or behind `from`, in bytes. Only of a pattern that was compiled to
    /// find.
    pub(crate) fn find_at(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let input = regex_automata::Input::new(text).range(from..);
        let found = self.automaton.find_iter(&mut self.automaton.create_cache(), input).next();
        found.map(|found| (found.start(), found.end()))
    }

    /// Bytes behind `from` that were looked at to find the match `found` in a text of `bytes` bytes.
    pub(crate) fn looked_at(&self, from: usize, found: Option<(usize, usize)>, bytes: usize) -> usize {
        let end = found.zip(self.match_bytes_max).map_or(bytes, |((_, end), most)| end.saturating_add(most));
        end.min(bytes).saturating_sub(from)
    }

    /// Whether the pattern matches a part of `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.automaton.is_match(&mut self.automaton.create_cache(), text)
    }

    /// Bytes of memory that the pattern holds.
    pub fn bytes(&self) -> usize {
        self.automaton.get_nfa().memory_usage().saturating_add(OWN_BYTES)
    }

    /// Steps of matching, for each byte of the text.
    pub fn steps_of_byte(&self) -> u64 {
        steps_of_byte(self.automaton.get_nfa().memory_usage())
    }
}

/// Steps of compiling a pattern in an evaluation.
pub(crate) const UNKNOWN_COMPILE_STEPS: u64 =
    PatternLimits::UNKNOWN.steps + PatternLimits::UNKNOWN.text_bytes as u64 * price::STEPS_OF_TEXT_BYTE;

/// Steps of matching a text of `bytes` bytes.
pub(crate) fn steps(of_byte: u64, bytes: u64) -> u64 {
    bytes.saturating_add(1).saturating_mul(of_byte).saturating_add(BEGIN_STEPS)
}

/// Steps of compiling and matching a pattern that is not known yet.
pub(crate) fn steps_of_unknown(bytes: u64) -> u64 {
    UNKNOWN_COMPILE_STEPS.saturating_add(steps(steps_of_byte(PatternLimits::UNKNOWN.automaton_bytes), bytes))
}

fn steps_of_byte(automaton_bytes: usize) -> u64 {
    u64::try_from(automaton_bytes).unwrap_or(u64::MAX) / AUTOMATON_BYTES_PER_STEP + 1
}
