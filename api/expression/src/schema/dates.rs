//! Dates of documents, `2026-01-31`, and why a text is none, in the words of the reference.

use orch_schema::excerpt::quoted;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// Midnight of a date, or the reason why the text is none.
pub(super) fn parse_date(text: &str) -> Result<OffsetDateTime, String> {
    let parsing = || format!("parsing time {}", quoted(text));
    let refused = |rest: &str, part: &str| {
        format!("{} as \"2006-01-02\": cannot parse {} as {}", parsing(), quoted(rest), quoted(part))
    };
    let (year, rest) = number(text, 4).ok_or_else(|| refused(text, "2006"))?;
    let rest = rest.strip_prefix('-').ok_or_else(|| refused(rest, "-"))?;
    let (month, rest) = number(rest, 2).ok_or_else(|| refused(rest, "01"))?;
    let month = u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok());
    let month = month.ok_or_else(|| format!("{}: month out of range", parsing()))?;
    let rest = rest.strip_prefix('-').ok_or_else(|| refused(rest, "-"))?;
    let (day, rest) = number(rest, 2).ok_or_else(|| refused(rest, "02"))?;
    if !rest.is_empty() {
        return Err(format!("{}: extra text: {}", parsing(), quoted(rest)));
    }
    let day = u8::try_from(day).ok();
    let date = day.and_then(|day| Date::from_calendar_date(i32::from(year), month, day).ok());
    let date = date.ok_or_else(|| format!("{}: day out of range", parsing()))?;
    Ok(PrimitiveDateTime::new(date, Time::MIDNIGHT).assume_utc())
}

/// A number of so many digits, and what comes behind it.
fn number(text: &str, digits: usize) -> Option<(u16, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_in_the_reference() {
        assert_eq!(parse_date("2024-02-29").unwrap(), time::macros::datetime!(2024-02-29 00:00 UTC));
        let layout = "as \"2006-01-02\": cannot parse";
        for (text, reason) in [
            ("2026-02-29", ": day out of range".to_owned()),
            ("2026-02-00", ": day out of range".to_owned()),
            ("2026-13-01", ": month out of range".to_owned()),
            ("2026-01-02T", ": extra text: \"T\"".to_owned()),
            ("", format!(" {layout} \"\" as \"2006\"")),
            ("+026-01-02", format!(" {layout} \"+026-01-02\" as \"2006\"")),
            ("2026/01-02", format!(" {layout} \"/01-02\" as \"-\"")),
            ("2026-1-02", format!(" {layout} \"1-02\" as \"01\"")),
            ("2026-+1-02", format!(" {layout} \"+1-02\" as \"01\"")),
            ("2026-01", format!(" {layout} \"\" as \"-\"")),
            ("2026-01-2", format!(" {layout} \"2\" as \"02\"")),
            ("2026-01-é", format!(" {layout} \"é\" as \"02\"")),
        ] {
            assert_eq!(parse_date(text), Err(format!("parsing time {}{reason}", quoted(text))), "{text}");
        }
    }
}
