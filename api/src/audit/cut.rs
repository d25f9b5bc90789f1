//! Bounds of the texts in events that a client chooses.
//!
//! Owns the bounds and the mark. Without them a client could make its events longer than a sink takes, so that they are
//! lost. The texts are cut after credentials were removed from them.

/// Mark behind a text that was cut, as in the reference.
const MARK: &str = "...TRUNCATED";

/// Bytes of a `User-Agent`: the reference's bound.
pub(super) const USER_AGENT_BYTES_MAX: usize = 1024;

/// Bytes of a request's URI: a path with selectors of a hundred terms.
pub(super) const URI_BYTES_MAX: usize = 8192;

/// Bytes of a verb, or of a part of the reference to an object: twice a valid name.
pub(super) const NAME_BYTES_MAX: usize = 512;

/// Bytes of a Status's message in an event that is too long otherwise.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;

/// `text`, cut behind `bytes_max` bytes at most and marked if it is longer.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    match text.get(..text.floor_char_boundary(bytes_max)) {
        Some(beginning) if beginning.len() < text.len() => format!("{beginning}{MARK}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_marked() {
        for (text, bytes_max, expected) in [
            ("", 4, ""),
            ("abcd", 4, "abcd"),
            ("abcde", 4, "abcd...TRUNCATED"),
            ("abc\u{e4}", 4, "abc...TRUNCATED"),
            ("abc\u{e4}", 5, "abc\u{e4}"),
        ] {
            assert_eq!(cut(text, bytes_max), expected, "{text}");
        }
    }
}
