//! Duplicate members of a JSON text, reported by their lines in the words of the reference's YAML reader.
//!
//! Owns the bound of reported duplicates, their lines, and the wording. The reference reads a server-side apply, and a
//! body that is sent as YAML, with its YAML reader even where it is JSON; here it is read once, as JSON.

use memchr::memchr2_iter;

use crate::excerpt::quoted;

/// Duplicate members that are reported: as many as strict errors of other bodies.
pub(crate) const DUPLICATES_MAX: usize = 100;

/// A member whose name occurred before in the same object.
pub(super) struct DuplicateMember {
    /// The name.
    pub(super) key: String,
    /// Offset of its value in the text, in bytes.
    pub(super) offset: usize,
}

/// The reference's message for a duplicate member.
pub(crate) fn already_set(line: usize, key: &str) -> String {
    format!("line {line}: key {} already set in map", quoted(key))
}

/// The messages for `duplicates`, in the same order. `text` is scanned once.
pub(super) fn duplicate_messages(duplicates: &[DuplicateMember], text: &str) -> Vec<String> {
    let mut by_offset: Vec<(usize, usize)> = duplicates.iter().map(|member| member.offset).zip(0..).collect();
    by_offset.sort_unstable();
    let mut lines = vec![0; duplicates.len()];
    let (mut line, mut done) = (1, 0);
    for (offset, at) in by_offset {
        line += line_breaks(&text.as_bytes()[done..offset]);
        (lines[at], done) = (line, offset);
    }
    duplicates.iter().zip(lines).map(|(member, line)| already_set(line, &member.key)).collect()
}

/// The number of line breaks. CR LF is one. No value begins between the two.
fn line_breaks(bytes: &[u8]) -> usize {
    memchr2_iter(b'\n', b'\r', bytes)
        .filter(|&at| bytes[at] == b'\n' || bytes.get(at + 1) != Some(&b'\n'))
        .count()
}
