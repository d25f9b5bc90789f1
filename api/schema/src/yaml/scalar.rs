//! The style of a text, in which reading it gives the text again.
//!
//! Owns the choice of quotes. A text that would be read as another value (a number, a time, `yes`) gets double quotes,
//! a text with indicators single quotes, a text of several lines is a literal block where it can be.

use super::plain;
use crate::value::Value;

/// The styles of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Properties of a text that rule out styles.
#[derive(Debug, Default)]
struct Traits {
    indicators: bool,
    special: bool,
    space_at_edge: bool,
    trailing_space: bool,
    space_before_break: bool,
}

/// The style of `text`; a key stands in one line.
pub(super) fn style(text: &str, is_key: bool) -> Style {
    let traits = traits(text);
    let literal_allowed =
        !text.is_empty() && !traits.trailing_space && !traits.space_before_break && !traits.special;
    if text.contains('\n') {
        return if literal_allowed && !is_key { Style::Literal } else { Style::Double };
    }
    if traits.special || !reads_as_text(text) {
        return Style::Double;
    }
    if traits.indicators || traits.space_at_edge { Style::Single } else { Style::Plain }
}

fn traits(text: &str) -> Traits {
    let mut traits = Traits {
        indicators: text.starts_with("---") || text.starts_with("..."),
        trailing_space: text.ends_with(' '),
        ..Traits::default()
    };
    let mut before = None;
    for (at, char) in text.char_indices() {
        let next = text[at + char.len_utf8()..].chars().next();
        traits.indicators |= is_indicator(char, before, next);
        traits.special |= !is_printable(char);
        traits.space_at_edge |= char == ' ' && (at == 0 || next.is_none());
        traits.space_before_break |= char == '\n' && before == Some(' ');
        before = Some(char);
    }
    traits
}

/// Whether a character is an indicator in unquoted text, given its neighbours.
fn is_indicator(char: char, before: Option<char>, next: Option<char>) -> bool {
    let ends = next.is_none_or(|next| matches!(next, ' ' | '\t'));
    match (char, before) {
        (
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
            None,
        ) => true,
        ('?' | '-', None) | (':', _) => ends,
        ('#', Some(before)) => matches!(before, ' ' | '\t' | '\n'),
        _ => false,
    }
}

/// Whether the character is written unescaped. The reference escapes tabs and everything beyond 16 bits; this writer
/// also escapes the two separators that only some readers take for the end of a line.
pub(super) fn is_printable(char: char) -> bool {
    let is_separator = matches!(char, '\u{2028}' | '\u{2029}');
    !is_separator
        && matches!(char, '\n' | ' '..='~' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}')
}

/// Whether a reader takes the unquoted text for a string.
fn reads_as_text(text: &str) -> bool {
    let is_text = |text| matches!(plain(text), Ok(Value::String(_)));
    if text == "<<" || !is_text(text) {
        return false;
    }
    let starts_number = text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-'));
    !starts_number || !(is_time(text) || is_base_60(text) || is_large_integer(text))
}

/// Whether the text is a number in base 60, which some readers know: `190:20:30`.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|first: char| first.is_ascii_digit()) || !is_digits(first) {
        return false;
    }
    let mut rest: Vec<&str> = parts.collect();
    if let Some((whole, fraction)) = rest.last().and_then(|last| last.split_once('.')) {
        if !is_digits(fraction) {
            return false;
        }
        rest.pop();
        rest.push(whole);
    }
    let is_sixtieth = |part: &&str| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
        _ => false,
    };
    !rest.is_empty() && rest.iter().all(is_sixtieth)
}

/// Whether the text is an integer with a prefix that fits in 64 bits without sign.
fn is_large_integer(text: &str) -> bool {
    let digits = text.replace('_', "");
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        _ => return false,
    };
    !digits.starts_with(['+', '-']) && u64::from_str_radix(digits, base).is_ok()
}

/// Whether the text is a day or a time: `2001-1-2`, `2001-01-02T03:04:05.6Z`, `2001-01-02 03:04:05`.
fn is_time(text: &str) -> bool {
    let (day, clock) = match text.split_once(['T', 't', ' ']) {
        Some((day, clock)) => (day, Some(clock)),
        None => (text, None),
    };
    if !is_day(day) {
        return false;
    }
    match clock {
        None => true,
        Some(clock) if text.contains(' ') => is_clock(clock),
        Some(clock) => match clock.strip_suffix('Z') {
            Some(clock) => is_clock(clock),
            None => clock.rsplit_once(['+', '-']).is_some_and(|(clock, zone)| {
                is_clock(clock) && zone.len() == 5 && numbers(zone, ':') == Some(2)
            }),
        },
    }
}

fn is_day(day: &str) -> bool {
    let mut parts = day.splitn(3, '-');
    let year = parts.next().filter(|year| year.len() == 4).and_then(|year| year.parse::<i32>().ok());
    let mut short = || parts.next().filter(|part| part.len() <= 2).and_then(|part| part.parse::<u8>().ok());
    let (Some(year), Some(month), Some(day)) = (year, short(), short()) else { return false };
    let month = time::Month::try_from(month);
    month.is_ok_and(|month| time::Date::from_calendar_date(year, month, day).is_ok())
}

fn is_clock(clock: &str) -> bool {
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let in_range =
        whole.split(':').zip([24, 60, 60]).all(|(part, end)| part.parse().is_ok_and(|n: u8| n < end));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    numbers(whole, ':') == Some(3) && in_range && is_fraction
}

/// The number of parts between separators, if each has one or two digits.
fn numbers(text: &str, separator: char) -> Option<usize> {
    let is_short =
        |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split(separator).all(is_short).then(|| text.split(separator).count())
}
