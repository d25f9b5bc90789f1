//! Looking for the few bytes of a text that mean something, and reading bytes as text.
//!
//! Owns the pace at which strings are passed: strings are most of an object, and most have no byte to stop at.

use std::borrow::Cow;

/// Bytes that are tested at once.
const BLOCK: usize = 32;

/// The place of the first byte that `is_wanted`. Blocks without one are passed by a test of all their bytes, which the compiler makes of
/// instructions for sixteen bytes where `is_wanted` only compares: no table, no branch.
pub(super) fn find(bytes: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let has_none = |block: &&[u8; BLOCK]| !block.iter().fold(false, |found, byte| found | is_wanted(*byte));
    // once: the caller goes on behind what is found.
    let passed = blocks.iter().take_while(has_none).count() * BLOCK;
    // once: a block at most.
    bytes[passed..].iter().position(|byte| is_wanted(*byte)).map(|at| passed + at)
}

/// `bytes` as text, with U+FFFD for what is no UTF-8. Nearly all is, which is seen at a byte's fraction of the other's price.
pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wanted_byte_is_found_at_any_place_of_any_length() {
        for length in 0..3 * BLOCK {
            let mut bytes = vec![b'x'; length];
            assert_eq!(find(&bytes, |byte| byte == b'"'), None);
            for at in (0..length).rev() {
                bytes[at] = b'"';
                assert_eq!(find(&bytes, |byte| byte == b'"'), Some(at), "{length}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert!(matches!(text_of("é".as_bytes()), Cow::Borrowed("é")));
        assert_eq!(text_of(b"a\xffb"), "a\u{fffd}b");
    }
}
