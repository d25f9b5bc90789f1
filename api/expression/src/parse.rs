//! Parsing expressions, at a price for each of their tokens.
//!
//! Owns the price and the bound of nesting. The library's parser takes several microseconds for each token and next to
//! nothing for the bytes inside of one, so that tokens are counted first, by a scan that is never too low.

use std::sync::{Arc, LazyLock};

use cel::common::ast::SourceInfo;
use cel::{Env, IdedExpr};

use crate::allowance::{Charge, Exhausted};
use crate::error::CompileError;
use crate::macros::{self, NOT_A_NAME};
use crate::nesting::{behind_text, nesting};
use crate::scope::Libraries;

/// Levels of an expression's tree. Walks over it recurse: this many fit into the stack of a thread that serves
/// connections, several times over.
pub const NESTING_MAX: usize = 100;
/// The parser's own bound, which is never met: of the expressions that it counts, a level above has one at most.
const PARSER_LEVELS: u16 = 200;
/// Levels up to which the parser runs on the caller's stack: it takes up to 200 kB for each in a build that is not
/// optimised (calls in arguments of calls), and half of the stack of a thread is the caller's.
const SHALLOW_LEVELS: usize = 4;
/// Bytes of stack for deeper expressions, which are rare: three times what the deepest take.
const DEEP_STACK_BYTES: usize = 64 << 20;
/// Steps of parsing a token, and of the nodes that become of it.
const TOKEN_STEPS: u64 = 70;
/// Steps of [`parse`] for each step of a further check of what was parsed: the parser takes most of the time.
const PARSES_PER_CHECK: u64 = 4;
/// Bytes that are read in one step.
const BYTES_PER_STEP: u64 = 5;

/// The parser's macros, and those of this crate.
static MACROS: LazyLock<Env> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    environment.add_extension(macros::extension).expect("each macro is added once");
    environment
});
/// The same with `cel.bind`.
static MACROS_OF_DEVICES: LazyLock<Env> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    environment.add_extension(macros::extension).expect("each macro is added once");
    environment.add_extension(macros::bind_extension).expect("each macro is added once");
    environment
});

/// An expression as it is written, with its macros expanded.
#[derive(Debug)]
pub struct Parsed {
    pub(crate) expression: Arc<IdedExpr>,
    /// Places of nodes in the text.
    pub(crate) places: SourceInfo,
}

impl Parsed {
    /// Bytes of the text before the node `id`.
    pub(crate) fn offset(&self, id: u64) -> usize {
        self.places.offset_for(id).map_or(0, |(start, _)| usize::try_from(start).unwrap_or(0))
    }

    /// The text.
    pub fn source(&self) -> &str {
        &self.places.source
    }

    /// Steps of checking it once more, against another scope.
    pub fn check_steps(&self) -> u64 {
        steps(self.source()) / PARSES_PER_CHECK
    }
}

/// Parses `source` with the macros of `libraries`, and charges for it.
///
/// # Errors
/// The outer one: the steps are not left. The inner one: it is no expression, or nests too deeply.
pub fn parse(
    source: &str,
    libraries: Libraries,
    charge: &mut dyn Charge,
) -> Result<Result<Parsed, CompileError>, Exhausted> {
    charge.charge(steps(source))?;
    let Some(levels) = nesting(source).filter(|levels| *levels <= NESTING_MAX) else {
        let reason = format!("the expression nests more than {NESTING_MAX} levels deep");
        return Ok(Err(CompileError::plain(reason)));
    };
    let environment = if libraries.devices { &MACROS_OF_DEVICES } else { &MACROS };
    let parse = || environment.parser().max_recursion_depth(PARSER_LEVELS).parse_with_source_info(source);
    let parsed = if levels <= SHALLOW_LEVELS { Some(parse()) } else { with_deep_stack(parse) };
    let Some(parsed) = parsed else {
        return Ok(Err(CompileError::plain("no thread can be made to parse a deep expression")));
    };
    Ok(match parsed {
        Ok((expression, places)) => Ok(Parsed { expression: Arc::new(expression), places }),
        Err(faults) => {
            let place = |number: isize| usize::try_from(number).unwrap_or(0);
            let faults = faults.errors.into_iter();
            let faults = faults.map(|fault| {
                let (line, column) = (place(fault.pos.0), place(fault.pos.1));
                let named = (fault.msg == NOT_A_NAME).then(|| of_variable(before(source, line, column)));
                (line, column, named.flatten().unwrap_or_else(|| of_end(fault.msg)))
            });
            Err(CompileError::at_lines(source, faults.collect()))
        }
    })
}

/// The text before a line and column, both from one.
fn before(source: &str, line: usize, column: usize) -> &str {
    let start: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let own = &source[start..];
    let end = own.char_indices().nth(column.saturating_sub(1)).map_or(own.len(), |(at, _)| at);
    &source[..start + end]
}

/// The fault of text behind a whole expression: the parser also lists what would go on with the expression, the reference's names its
/// end alone.
fn of_end(fault: String) -> String {
    match fault.split_once(" expecting {<EOF>,") {
        Some((found, _)) => format!("{found} expecting <EOF>"),
        None => fault,
    }
}

/// The reference's words for a variable that is no name, where they are those of one macro: that whose bracket is the last one open in
/// the text before the variable.
fn of_variable(before: &str) -> Option<String> {
    let mut closed = 0_usize;
    let mut backwards = before.char_indices().rev();
    // once: the text before the variable.
    let bracket = backwards.find_map(|(at, letter)| match letter {
        ')' => {
            closed += 1;
            None
        }
        '(' if closed == 0 => Some(at),
        '(' => {
            closed -= 1;
            None
        }
        _ => None,
    })?;
    let name = before[..bracket].trim_end();
    let start = name.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    match &name[start..] {
        name @ ("optMap" | "optFlatMap") => {
            Some(format!("{name}() variable name must be a simple identifier"))
        }
        "map" | "filter" | "sortBy" => Some("argument is not an identifier".to_owned()),
        _ => None,
    }
}

/// Runs `work` in a thread with [`DEEP_STACK_BYTES`] of stack; `None` if the system gives none.
fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("parse".to_owned()).stack_size(DEEP_STACK_BYTES);
        let running = thread.spawn_scoped(scope, work).ok()?;
        Some(running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Steps of parsing `source`.
fn steps(source: &str) -> u64 {
    let bytes = u64::try_from(source.len()).unwrap_or(u64::MAX);
    tokens(source).saturating_add(1).saturating_mul(TOKEN_STEPS).saturating_add(bytes / BYTES_PER_STEP)
}

/// An upper bound of the tokens of `source`: texts, words and numbers, signs.
fn tokens(source: &str) -> u64 {
    let bytes = source.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (mut tokens, mut at) = (0_u64, 0);
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        let start = at;
        at = match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b'\x0c' => {
                at += 1;
                continue;
            }
            b'/' if next == Some(b'/') => {
                // once: the end of a comment.
                at + bytes[at..].iter().position(|&c| c == b'\n').unwrap_or(bytes.len() - at)
            }
            b'"' | b'\'' => behind_text(bytes, at),
            b'|' | b'&' if next == Some(byte) => at + 2,
            b'=' | b'!' | b'<' | b'>' if next == Some(b'=') => at + 2,
            _ if is_word(byte) => {
                // once: the end of a word.
                at + bytes[at..].iter().position(|&c| !is_word(c)).unwrap_or(bytes.len() - at)
            }
            _ => at + 1,
        };
        debug_assert!(at > start, "each turn takes a byte");
        tokens += 1;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted() {
        for (source, expected) in [
            ("", 0),
            ("a.b == 'c d e' || !f(1, 2)", 13),
            ("r'a\\' + \"b\\\"c\" + '''d'e'''", 6),
            ("a // b c d\n+ e", 4),
            ("[1,1,1]", 7),
            ("a<=b&&c!=d", 7),
            ("((((", 4),
        ] {
            assert_eq!(tokens(source), expected, "{source}");
        }
        assert!(steps(&"x".repeat(10_000)) < steps(&"[1,".repeat(100)), "one token, three hundred");
    }
}
