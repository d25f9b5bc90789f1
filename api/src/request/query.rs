//! Query parameters, decoded once.
//!
//! Owns how booleans and integers are parsed. Validation decides which values are allowed together.

use std::num::{IntErrorKind, ParseIntError};

use orch_schema::excerpt::quoted;
use percent_encoding::percent_decode_str;

use crate::error::ApiError;

/// The decoded parameters, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

/// Characters of a refused value that the response repeats.
const ECHOED_CHARS_MAX: usize = 64;

/// A refused value as the response repeats it: quoted, and cut after [`ECHOED_CHARS_MAX`] characters.
pub(crate) fn quote_shortened(text: &str) -> String {
    let shown: String = text.chars().take(ECHOED_CHARS_MAX).collect();
    quoted(&shown)
}

impl Query {
    /// Decodes `text` (without the `?`). A pair with a semicolon or a malformed escape is left out, as the reference
    /// does; escapes that are not UTF-8 are replaced.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && is_well_formed(pair)).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Query { pairs: pairs.collect() }
    }

    /// All parameters, decoded, in their order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Bytes of memory that the parameters hold.
    pub fn held_bytes(&self) -> usize {
        self.pairs.iter().map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len()).sum()
    }

    /// The first value of the parameter `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value of the parameter `name`; empty where it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.value(name).unwrap_or("")
    }

    /// All values of the parameter `name`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean as the reference parses it: present and neither `false` nor `0`.
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// A boolean parameter; `None` where it is absent.
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        let value = self.value(name)?;
        Some(!(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// An integer parameter; `None` where it is absent.
    ///
    /// # Errors
    /// `BadRequest` for anything that is not a 64-bit integer, the empty text included.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.value(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let reason = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            ApiError::BadRequest(format!("strconv.ParseInt: parsing {}: {reason}", quote_shortened(text)))
        })
    }
}

/// Whether every `%` starts an escape of two hexadecimal digits, and the pair has no semicolon (an obsolete separator).
fn is_well_formed(pair: &str) -> bool {
    let mut escapes = pair.split('%').skip(1);
    let is_escape = |escape: &str| matches!(escape.as_bytes(), [first, second, ..] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit());
    !pair.contains(';') && escapes.all(is_escape)
}

fn decoded(text: &str) -> String {
    if text.contains(['+', '%']) {
        let spaced = text.replace('+', " ");
        return percent_decode_str(&spaced).decode_utf8_lossy().into_owned();
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_typed() {
        let query =
            Query::parse("watch=1&limit=abc&limit2=5&labelSelector=a+in+%28b%29&dryRun&x=false&empty=");
        assert!(query.flag("watch"));
        assert!(!query.flag("x"));
        assert!(query.flag("dryRun"), "a flag without a value is set");
        assert!(!query.flag("absent"));
        assert!(query.integer("limit").is_err());
        assert_eq!(query.integer("limit2").unwrap(), Some(5));
        assert!(query.integer("empty").is_err());
        assert_eq!(query.integer("absent").unwrap(), None);
        assert_eq!(query.text("labelSelector"), "a in (b)");
        assert_eq!(query.values("dryRun").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn malformed_pairs_are_left_out_and_the_others_count() {
        let query = Query::parse("limit=%zz&limit=%4&limit=%&a;b=1&watch=1;x&%zz=1&limit=7&y=%41%ff");
        assert_eq!(query.values("limit").collect::<Vec<_>>(), ["7"]);
        assert_eq!((query.value("watch"), query.value("a;b"), query.value("%zz")), (None, None, None));
        assert_eq!(query.text("y"), "A\u{fffd}");
    }
}
