//! Parsing expressions, at a price for each of their tokens.
//!
//! Owns the price and the bound of nesting. The library's parser takes several microseconds for each token and next to
//! nothing for the bytes inside of one, so that tokens are counted first, by a scan that is never too low.

use cel::{Env, IdedExpr};

use super::CompileError;
use super::allowance::{Charge, Exhausted};
use super::nesting::{behind_text, nesting};

/// Levels of an expression's tree. Walks over it recurse: this many fit into the stack of a thread that serves
/// connections, several times over.
pub(super) const NESTING_MAX: usize = 100;
/// Steps of parsing a token, and of the nodes that become of it.
const TOKEN_STEPS: u64 = 70;
/// Bytes that are read in one step.
const BYTES_PER_STEP: u64 = 5;

/// Parses `source` with the functions and macros of `environment`, and charges for it.
///
/// # Errors
/// The outer one: the steps are not left. The inner one: it is no expression, or nests too deeply.
pub fn parse(
    environment: &Env,
    source: &str,
    charge: &mut dyn Charge,
) -> Result<Result<IdedExpr, CompileError>, Exhausted> {
    charge.charge(steps(source))?;
    if nesting(source).is_none_or(|levels| levels > NESTING_MAX) {
        let reason = format!("the expression nests more than {NESTING_MAX} levels deep");
        return Ok(Err(CompileError::failed(&reason)));
    }
    let parsed = environment.parser().parse(source);
    Ok(parsed.map_err(|error| CompileError::failed(&error.to_string())))
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
