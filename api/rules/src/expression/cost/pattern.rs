//! Regular expressions of selectors, bounded in size.
//!
//! Owns compiling them and what matching costs. Matching takes time for each byte of the text and, at worst, for each
//! state of the compiled pattern; counted repetitions make a short pattern large, so that its compiled size is bounded,
//! and measured by trying smaller bounds first.

use regex::{Regex, RegexBuilder};

/// Bytes of a pattern. A class of characters takes a few bytes to write and kilobytes to parse.
const PATTERN_BYTES_MAX: usize = 1024;
/// Bytes that a pattern may take when it is compiled, tried in this order.
const COMPILED_BYTES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Bytes of what a pattern remembers of the texts that it saw; beyond it, matching forgets and stays correct.
const REMEMBERED_BYTES_MAX: usize = 64 << 10;
/// Bytes of compiled pattern that are looked at in one step, for each byte of the text.
const COMPILED_BYTES_PER_STEP: u64 = 4 << 10;
/// Bytes of a pattern that is not known before the evaluation, and is compiled in each.
const UNKNOWN_PATTERN_BYTES_MAX: usize = 128;
/// Steps of compiling such a pattern.
const UNKNOWN_PATTERN_STEPS: u64 = 20_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// A bound of its compiled size.
    bytes: usize,
}

/// The reason why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is longer, or would be larger, than patterns may be.
    #[error("the regular expression is too large")]
    TooLarge,
    /// It is no pattern.
    #[error("error parsing regexp")]
    Invalid,
}

impl Pattern {
    /// Compiles `pattern`.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn compile(pattern: &str) -> Result<Pattern, PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLarge);
        }
        for bytes in COMPILED_BYTES {
            let mut builder = RegexBuilder::new(pattern);
            match builder.size_limit(bytes).dfa_size_limit(REMEMBERED_BYTES_MAX).build() {
                Ok(regex) => return Ok(Pattern { regex, bytes }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => return Err(PatternError::Invalid),
            }
        }
        Err(PatternError::TooLarge)
    }

    /// Compiles a pattern that was not known before the evaluation.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn compile_unknown(pattern: &str) -> Result<Pattern, PatternError> {
        if pattern.len() > UNKNOWN_PATTERN_BYTES_MAX {
            return Err(PatternError::TooLarge);
        }
        Pattern::compile(pattern)
    }

    /// Whether the pattern matches a part of `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Bytes of memory that the pattern holds at most.
    pub fn bytes(&self) -> usize {
        self.bytes.saturating_mul(2).saturating_add(REMEMBERED_BYTES_MAX)
    }

    /// Steps of matching, for each byte of the text.
    pub fn steps_of_byte(&self) -> u64 {
        steps_of_byte(self.bytes)
    }
}

/// Steps of matching a text of `bytes` bytes.
pub(super) fn steps(of_byte: u64, bytes: u64) -> u64 {
    bytes.saturating_add(1).saturating_mul(of_byte)
}

/// Steps of compiling and matching a pattern that is not known yet.
pub(super) fn steps_of_unknown(bytes: u64) -> u64 {
    UNKNOWN_PATTERN_STEPS.saturating_add(steps(steps_of_byte(COMPILED_BYTES[3]), bytes))
}

fn steps_of_byte(compiled: usize) -> u64 {
    u64::try_from(compiled).unwrap_or(u64::MAX) / COMPILED_BYTES_PER_STEP
}
