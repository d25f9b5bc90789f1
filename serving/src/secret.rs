//! A text that must not reach a log: bearer tokens, passwords, private keys.
//!
//! Owns only the rule that `Debug` and `Display` never show it. Whoever needs the text says so by calling
//! [`Secret::expose`], which is easy to search for.

use std::fmt;

use serde::Deserialize;

/// A secret text. `Debug` shows that it is there, never what it is.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the header or the key that it is part of.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_text() {
        assert_eq!(format!("{:?}", Secret::new("abc")), "<hidden>");
        assert_eq!(format!("{:?}", Some(Secret::new("abc"))), "Some(<hidden>)");
    }
}
