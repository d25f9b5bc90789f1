//! Durations of documents: those of the language, and texts such as `2 days`, as the format `duration` takes them.
//!
//! Owns the reference's grammar of the latter: each number stands before a unit, and what is between such pairs does not count.

use orch_schema::excerpt::{part, quoted};

use crate::library::times;

/// Nanoseconds of units, by names: each stands for itself, and the last one of a line for longer words that begin with it.
const UNITS: [(i64, &[&str]); 8] = [
    (1, &["ns", "nano"]),
    (1_000, &["us", "\u{b5}s", "micro"]),
    (1_000_000, &["ms", "milli"]),
    (1_000_000_000, &["s", "sec"]),
    (60_000_000_000, &["m", "min"]),
    (3_600_000_000_000, &["h", "hr", "hour"]),
    (86_400_000_000_000, &["d", "day"]),
    (604_800_000_000_000, &["w", "wk", "week"]),
];

/// The nanoseconds of a duration's text; `None` if it is none. Sums beyond 64 bits wrap, as in the reference.
pub fn parse_duration(text: &str) -> Option<i64> {
    times::parse_duration(text).or_else(|| of_words(text).ok())
}

/// Why `text`, which is no duration, is none.
pub(super) fn duration_refusal(text: &str) -> String {
    match of_words(text) {
        Err(NoWords::Beyond(number)) => {
            format!("strconv.Atoi: parsing {}: value out of range", quoted(number))
        }
        _ => format!("unable to parse {} as duration", part(text)),
    }
}

/// Why a text has no pair of a number and a unit.
enum NoWords<'t> {
    None,
    /// This number has more than 64 bits.
    Beyond(&'t str),
}

fn of_words(text: &str) -> Result<i64, NoWords<'_>> {
    let mut sum = None;
    let mut rest = text;
    // once: each part of the text is passed once.
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let behind = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &rest[at..rest.len() - behind.len()];
        let words = behind.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let after = words.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '\u{b5}');
        let word = words[..words.len() - after.len()].to_lowercase();
        if word.is_empty() {
            rest = behind;
            continue;
        }
        let number: i64 = number.parse().map_err(|_| NoWords::Beyond(number))?;
        // few: the units.
        if let Some((unit, _)) = UNITS.iter().find(|(_, names)| is_named(&word, names)) {
            sum = Some(sum.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(*unit)));
        }
        rest = after;
    }
    sum.ok_or(NoWords::None)
}

fn is_named(word: &str, names: &[&str]) -> bool {
    names.contains(&word) || names.last().is_some_and(|name| word.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_words() {
        for (text, seconds) in [
            ("1h30m", Some(5400)),
            ("2 days", Some(172_800)),
            ("1 hour and 5 minutes", Some(3900)),
            ("1w", Some(604_800)),
            ("5 parsecs", None),
            ("7 of 3 seconds", Some(3)),
            ("99999999999999999999 s", None),
            ("", None),
        ] {
            assert_eq!(parse_duration(text), seconds.map(|seconds: i64| seconds * 1_000_000_000), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_duration_is_told_as_in_the_reference() {
        for (text, reason) in [
            ("", "unable to parse  as duration"),
            ("5 parsecs", "unable to parse 5 parsecs as duration"),
            (
                "1h 99999999999999999999 s",
                "strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
        ] {
            assert_eq!(duration_refusal(text), reason);
        }
    }
}
