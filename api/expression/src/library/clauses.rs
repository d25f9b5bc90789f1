//! Texts with clauses such as `%s` and `%.2f`, as `format` reads them.
//!
//! Owns their grammar and the reference's words for breaches of it, for the checker, which reads those that stand in an expression, as
//! for the evaluation. Never looks at values.

use orch_schema::excerpt::quoted;

/// Decimal places at most.
const PLACES_MAX: usize = 100;
/// How each fault of a clause begins.
const NO_CLAUSE: &str = "could not parse formatting clause";

/// The next part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// A part that stands as it is.
    Plain(&'t str),
    /// The sign before a clause.
    Sign,
}

/// A clause: one of `s d f e b x X o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) letter: char,
    /// The number behind a point, at most [`PLACES_MAX`].
    pub(crate) places: Option<usize>,
}

/// A text that is being read.
#[derive(Debug)]
pub(crate) struct Clauses<'t> {
    rest: &'t str,
}

impl<'t> Clauses<'t> {
    pub(crate) fn of(text: &'t str) -> Clauses<'t> {
        Clauses { rest: text }
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The clause behind a sign. Something is left.
    ///
    /// # Errors
    /// It is none: the reason.
    pub(crate) fn clause(&mut self) -> Result<Clause, String> {
        let places = self.places()?;
        // The reference reads a byte, also where a letter has more of them.
        let letter = char::from(self.rest.as_bytes().first().copied().unwrap_or_default());
        if !matches!(letter, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
            return Err(format!("{NO_CLAUSE}: unrecognized formatting clause \"{letter}\""));
        }
        self.rest = &self.rest[1..];
        Ok(Clause { letter, places })
    }

    fn places(&mut self) -> Result<Option<usize>, String> {
        let Some(behind) = self.rest.strip_prefix('.') else { return Ok(None) };
        let refused = |reason: &str| Err(format!("{NO_CLAUSE}: error while parsing precision: {reason}"));
        let Some(end) = behind.find(|c: char| !c.is_ascii_digit()) else {
            return refused("could not find end of precision specifier");
        };
        let (digits, rest) = behind.split_at(end);
        let reason = match digits.parse::<i64>() {
            Ok(places) => {
                self.rest = rest;
                return Ok(Some(usize::try_from(places).unwrap_or(PLACES_MAX).min(PLACES_MAX)));
            }
            Err(_) if digits.is_empty() => "invalid syntax",
            Err(_) => "value out of range",
        };
        let number = quoted(digits);
        refused(&format!(
            "error while converting precision to integer: strconv.Atoi: parsing {number}: {reason}"
        ))
    }
}

impl<'t> Iterator for Clauses<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.rest;
        let (piece, rest) = match rest.find('%') {
            _ if rest.is_empty() => return None,
            None => (Piece::Plain(rest), ""),
            Some(0) if rest[1..].starts_with('%') => (Piece::Plain("%"), &rest[2..]),
            Some(0) => (Piece::Sign, &rest[1..]),
            Some(at) => (Piece::Plain(&rest[..at]), &rest[at..]),
        };
        self.rest = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_read_and_refused_as_in_the_reference() {
        let read = |text: &str| Clauses::of(text).clause();
        assert_eq!(read("s and"), Ok(Clause { letter: 's', places: None }));
        assert_eq!(read(".3f"), Ok(Clause { letter: 'f', places: Some(3) }));
        let of_precision = "could not parse formatting clause: error while parsing precision: ";
        let of_number =
            format!("{of_precision}error while converting precision to integer: strconv.Atoi: parsing ");
        for (text, reason) in [
            ("a", "could not parse formatting clause: unrecognized formatting clause \"a\"".to_owned()),
            ("é", "could not parse formatting clause: unrecognized formatting clause \"Ã\"".to_owned()),
            (".3", format!("{of_precision}could not find end of precision specifier")),
            (".f", format!("{of_number}\"\": invalid syntax")),
            (".99999999999999999999f", format!("{of_number}\"99999999999999999999\": value out of range")),
        ] {
            assert_eq!(read(text), Err(reason), "{text}");
        }
    }

    #[test]
    fn doubled_signs_stand_for_one() {
        let pieces: Vec<Piece<'_>> = Clauses::of("a%%é%").collect();
        assert_eq!(pieces, [Piece::Plain("a"), Piece::Plain("%"), Piece::Plain("é"), Piece::Sign]);
    }
}
