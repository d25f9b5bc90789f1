//! Named formats of texts: `format.dns1123Label().validate(text)`.
//!
//! Owns the list of formats. The grammar of names and the words of its breaches are the schema crate's.

use orch_schema::{NameRule, names};
use time::{Date, Month};

use super::locators::Url;
use crate::error::no_overload;
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// A format that texts may have.
#[derive(Debug)]
pub struct NamedFormat {
    name: &'static str,
    /// Characters of the pattern that the reference's costs assume.
    pub(crate) pattern: u64,
    breaches: fn(&str) -> Vec<String>,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &NamedFormat) -> bool {
        self.name == other.name
    }
}

macro_rules! formats {
    ($($at:literal $function:ident $name:literal $pattern:literal $breaches:expr;)*) => {
        /// All formats.
        static FORMATS: &[NamedFormat] =
            &[$(NamedFormat { name: $name, pattern: $pattern, breaches: $breaches }),*];
        $(
            pub(crate) fn $function<'v>(_run: &mut Run<'v>, _arguments: &[Val<'v>]) -> Outcome<'v> {
                Ok(Val::Format(&FORMATS[$at]))
            }
        )*
    };
}

formats! {
    0 dns1123_label "dns1123Label" 30 |text| names::check_name(NameRule::Dns1123Label, text, false);
    1 dns1123_label_prefix "dns1123LabelPrefix" 30 |text| names::check_name(NameRule::Dns1123Label, text, true);
    2 dns1123_subdomain "dns1123Subdomain" 60 |text| names::check_name(NameRule::Dns1123Subdomain, text, false);
    3 dns1123_subdomain_prefix "dns1123SubdomainPrefix" 60
        |text| names::check_name(NameRule::Dns1123Subdomain, text, true);
    4 dns1035_label "dns1035Label" 30 |text| names::check_name(NameRule::Dns1035Label, text, false);
    5 dns1035_label_prefix "dns1035LabelPrefix" 30 |text| names::check_name(NameRule::Dns1035Label, text, true);
    6 qualified_name "qualifiedName" 60 names::qualified_name;
    7 label_value "labelValue" 40 names::label_value;
    8 uri "uri" 1103 |text| Url::parse(text).err().into_iter().collect();
    9 uuid "uuid" 70 |text| breach(is_uuid(text), "does not match the UUID format");
    10 byte "byte" 84 |text| breach(is_base64(text), "invalid base64");
    11 date "date" 71 |text| breach(is_date(text), "invalid date");
    12 datetime "datetime" 71 |text| breach(is_datetime(text), "invalid datetime");
}

fn breach(holds: bool, reason: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![reason.to_owned()] }
}

/// Thirty-two hexadecimal digits; dashes may stand behind the eighth, twelfth, sixteenth and twentieth.
fn is_uuid(text: &str) -> bool {
    let mut digits = 0;
    let mut before = b'0';
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits, 8 | 12 | 16 | 20) && before != b'-' => {}
            byte if byte.is_ascii_hexdigit() => digits += 1,
            _ => return false,
        }
        before = byte;
    }
    digits == 32 && before != b'-'
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(is_digit)
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let date = || {
        let month = Month::try_from(number::<u8>(month)?).ok()?;
        Date::from_calendar_date(number(year)?, month, number(day)?).ok()
    };
    (year.len(), month.len(), day.len()) == (4, 2, 2) && date().is_some()
}

fn is_datetime(text: &str) -> bool {
    let Some((date, clock)) = text.split_once(['t', 'T']) else { return false };
    let (Some(hours_to_seconds), Some(rest)) = (clock.get(..8), clock.get(8..)) else { return false };
    let parts: Vec<&str> = hours_to_seconds.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else { return false };
    let below = |text: &str, bound: u8| text.len() == 2 && number::<u8>(text).is_some_and(|it| it < bound);
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let is_zone = match rest.strip_prefix(['+', '-']) {
        Some(offset) => offset.split_once(':').is_some_and(|(hours, minutes)| {
            hours.len() == 2
                && minutes.len() == 2
                && number::<u8>(hours).is_some()
                && number::<u8>(minutes).is_some()
        }),
        None => rest == "z" || rest == "Z",
    };
    is_date(date) && below(hours, 24) && below(minutes, 60) && below(seconds, 60) && is_zone
}

pub(crate) fn named<'v>(_run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(name)] = arguments else { return Err(no_overload()) };
    // few: the formats.
    let found = FORMATS.iter().find(|format| *format.name == **name);
    Ok(found.map_or(Val::NONE, |format| Val::some(Val::Format(format))))
}

/// The breaches of a text; none of one that has the format.
pub(crate) fn validate<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Format(format), Val::Text(text)] = arguments else { return Err(no_overload()) };
    // Read a few times, and repeated in a fault of a locator.
    run.make_bytes(text.len().saturating_mul(4))?;
    let breaches = (format.breaches)(text);
    if breaches.is_empty() {
        return Ok(Val::NONE);
    }
    run.make_values(breaches.len())?;
    Ok(Val::some(Val::list(breaches.into_iter().map(Val::text).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hold_for_their_texts() {
        let holds = |name: &str, text: &str| {
            let format = FORMATS.iter().find(|format| format.name == name).unwrap();
            (format.breaches)(text).is_empty()
        };
        for (name, good, bad) in [
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400"),
            ("uuid", "123e4567e89b12d3a456426614174000", "123e4567--e89b12d3a456426614174000"),
            ("byte", "aGk=", "aG="),
            ("byte", "aGkh", "!"),
            ("date", "2026-02-28", "2026-02-30"),
            ("datetime", "2026-01-01T00:00:00Z", "2026-01-01T24:00:00Z"),
            ("datetime", "2026-01-01t00:00:00.5+01:00", "2026-01-01T00:00:00."),
            ("uri", "https://ex.com", "not a uri"),
            ("dns1123LabelPrefix", "pre-", "-x"),
            ("labelValue", "", "-bad"),
            ("qualifiedName", "example.com/Name", "a/b/c"),
        ] {
            assert!(holds(name, good), "{name} {good}");
            assert!(!holds(name, bad), "{name} {bad}");
        }
    }
}
