//! The bound on how far the YAML scanner may look ahead of the events it returns.
//!
//! Owns the count of looks. A collection in braces or brackets may turn out to be a key when a colon follows it, so the
//! scanner keeps all tokens of a collection until its end: a hundred bytes for two bytes of text, `[a,a,a,...`. The
//! reference looks 1024 characters ahead and reads such a key as an error. Here a collection in braces is read up to a
//! bound, and refused as too large beyond it.
//!
//! Invariant: a scalar counts as one or two looks however long it is.

use std::cell::Cell;

use saphyr_parser::input::SkipTabs;
use saphyr_parser::{Input, StrInput};

use crate::budget::{OverBudget, count_step};

/// Looks at possible tokens between two events, of which the scanner takes two for each token: about 15 MB of tokens. A
/// mapping has four tokens for each entry; text in block style, and JSON, which is read by another reader, have no
/// bound here.
const LOOKS_MAX: u32 = 200_000;

/// Counts the scanner's looks since the last event.
pub(super) struct LookAhead {
    left: Cell<u32>,
}

impl Default for LookAhead {
    fn default() -> Self {
        LookAhead { left: Cell::new(LOOKS_MAX) }
    }
}

impl LookAhead {
    /// Starts the count again: the scanner returned an event.
    ///
    /// # Errors
    /// The scanner was stopped before.
    pub(super) fn settle(&self) -> Result<(), OverBudget> {
        if self.left.replace(LOOKS_MAX) == 0 { Err(OverBudget) } else { Ok(()) }
    }

    /// Counts a look. Returns whether the scanner may go on.
    fn more(&self) -> bool {
        let left = if count_step() { self.left.get().saturating_sub(1) } else { 0 };
        self.left.set(left);
        left > 0
    }
}

/// An input that pretends to end once the scanner has looked too far ahead.
pub(super) struct Counted<'a> {
    text: StrInput<'a>,
    ahead: &'a LookAhead,
}

impl<'a> Counted<'a> {
    pub(super) fn new(text: &'a str, ahead: &'a LookAhead) -> Self {
        Counted { text: StrInput::new(text), ahead }
    }
}

/// Delegates methods that only read to the text.
macro_rules! handed_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(#[inline]
        fn $name(&self $(, $argument: $type)*) -> $result {
            self.text.$name($($argument),*)
        })*
    };
}

/// Delegates methods that consume text.
macro_rules! taken {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(#[inline]
        fn $name(&mut self $(, $argument: $type)*) -> $result {
            self.text.$name($($argument),*)
        })*
    };
}

impl Input for Counted<'_> {
    /// Looks at the next character. The scanner does so in front of every token, and within scalars at spaces alone.
    #[inline]
    fn look_ch(&mut self) -> char {
        let next = self.text.look_ch();
        if !matches!(next, ' ' | '\t' | '\n' | '\r' | '\0') && !self.ahead.more() {
            self.text = StrInput::new("");
            return self.text.look_ch();
        }
        next
    }

    handed_on! {
        buflen() -> usize;
        bufmaxlen() -> usize;
        buf_is_empty() -> bool;
        peek() -> char;
        peek_nth(n: usize) -> char;
        peek_opt() -> Option<char>;
        next_char_is(c: char) -> bool;
        nth_char_is(n: usize, c: char) -> bool;
        next_2_are(c1: char, c2: char) -> bool;
        next_3_are(c1: char, c2: char, c3: char) -> bool;
        next_is_document_indicator() -> bool;
        next_is_document_start() -> bool;
        next_is_document_end() -> bool;
        next_can_be_plain_scalar(in_flow: bool) -> bool;
        next_is_blank_or_break() -> bool;
        next_is_blank_or_breakz() -> bool;
        next_is_blank() -> bool;
        next_is_break() -> bool;
        next_is_breakz() -> bool;
        next_is_z() -> bool;
        next_is_flow() -> bool;
        next_is_digit() -> bool;
        next_is_alpha() -> bool;
    }

    taken! {
        lookahead(count: usize) -> ();
        raw_read_ch() -> char;
        raw_read_non_breakz_ch() -> Option<char>;
        skip() -> ();
        skip_n(count: usize) -> ();
        skip_ws_to_eol(skip_tabs: SkipTabs) -> (usize, Result<SkipTabs, &'static str>);
        skip_while_non_breakz() -> usize;
        skip_while_blank() -> usize;
        fetch_while_is_alpha(out: &mut String) -> usize;
        fetch_while_is_yaml_non_space(out: &mut String) -> usize;
    }
}

#[cfg(test)]
mod tests {
    use saphyr_parser::Parser;

    use super::*;

    /// Whether the scanner reads `text` to its end.
    fn gets_through(text: &str) -> bool {
        let ahead = LookAhead::default();
        let mut events = Parser::new(Counted::new(text, &ahead));
        events.all(|event| ahead.settle().is_ok() && event.is_ok())
    }

    #[test]
    fn collections_that_may_be_keys_are_bounded_and_nothing_else_is() {
        let entries = |count: usize| "a: b, ".repeat(count);
        assert!(gets_through(&format!("{{{}}}", entries(20_000))));
        assert!(!gets_through(&format!("{{{}}}", entries(40_000))));
        assert!(!gets_through(&format!("- [{}]", "a,".repeat(150_000))));
        assert!(!gets_through(&format!("k:\n  {{{}}}", entries(40_000))));
        assert!(!gets_through(&format!("? {{{}}}\n: a", entries(40_000))));
        // Each collection is below the bound, or in block style, whose tokens are returned as they come.
        assert!(gets_through(&format!("- {{{}}}\n", entries(1_000)).repeat(100)));
        assert!(gets_through(&"a: b\n".replace('a', "- a").repeat(100_000)));
    }

    #[test]
    fn long_scalars_are_no_tokens() {
        let words = "word, {word}: [word] # ".repeat(100_000);
        for text in [
            format!("\"{words}\""),
            format!("'{words}'"),
            format!("a: |\n{}", "  { a: [b, c] }\n".repeat(200_000)),
            format!("a: >\n{}", "  1\n".repeat(200_000)),
            "plain words ".repeat(200_000),
            "# comment, comment: {}\n".repeat(50_000),
        ] {
            assert!(gets_through(&text), "{}", &text[..30]);
        }
    }

    #[test]
    fn a_scanner_ends_with_its_request() {
        let text = format!("{{{}}}", "a: b, ".repeat(10_000));
        crate::budget::stopping::check_stops("YAML scanner", 20_000, || gets_through(&text));
    }
}
