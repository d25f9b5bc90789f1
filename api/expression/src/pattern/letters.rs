//! Letters and signs of all scripts, as patterns know them.
//!
//! Owns the table; it compiles one class of its own, and nothing of a client's.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

static LETTERS_AND_SIGNS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let parsed = regex_syntax::parse(r"[\p{S}\p{L}]");
    let ranges = parsed.as_ref().ok().and_then(|hir| match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class.ranges()),
        _ => None,
    });
    ranges.into_iter().flatten().map(|range| (range.start(), range.end())).collect()
});

/// The ranges of all letters and signs (`[\p{S}\p{L}]`), in order: the first and the last character of each.
pub fn letters_and_signs() -> &'static [(char, char)] {
    &LETTERS_AND_SIGNS
}
