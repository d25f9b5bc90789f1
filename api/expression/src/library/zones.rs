//! Time zones: names such as `Europe/Berlin`, whose data is compiled in, and offsets such as `-08:00`.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use time::{Duration, OffsetDateTime, UtcOffset};

use crate::error::{Failure, fault};

/// The zones that this program was built with: a bare machine may have none.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The time in the zone `name`, as a clock there shows it.
pub(super) fn in_zone(time: OffsetDateTime, name: &str) -> Result<OffsetDateTime, Failure> {
    let time = time.checked_to_offset(UtcOffset::UTC).ok_or_else(|| fault("timestamp overflow"))?;
    let there = match name.split_once(':') {
        Some((hours, minutes)) => {
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let minutes = if name.starts_with('-') { -minutes } else { minutes };
            hours.checked_mul(60).and_then(|offset| offset.checked_add(minutes)).and_then(|minutes| {
                let offset = Duration::seconds(minutes.checked_mul(60)?);
                // An offset may be longer than a day, which no offset of the library is.
                time.checked_add(offset)
            })
        }
        None => {
            let offset = offset(time, name).ok_or_else(|| fault(format!("unknown time zone {name}")))?;
            time.checked_to_offset(offset)
        }
    };
    there.ok_or_else(|| fault("timestamp overflow"))
}

/// A number of an offset.
fn number(text: &str) -> Result<i64, Failure> {
    text.parse().map_err(|_| {
        fault(format!("strconv.Atoi: parsing {}: invalid syntax", orch_schema::excerpt::quoted(text)))
    })
}

/// The offset of a zone that has a name. Names have their own case.
fn offset(time: OffsetDateTime, name: &str) -> Option<UtcOffset> {
    if matches!(name, "" | "UTC") {
        return Some(UtcOffset::UTC);
    }
    let zone = ZONES.get(name).ok().filter(|zone| zone.iana_name() == Some(name))?;
    let seconds = zone.to_offset(Timestamp::from_second(time.unix_timestamp()).ok()?).seconds();
    UtcOffset::from_whole_seconds(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_named_as_the_database_names_them_or_are_offsets() {
        let hour = |name: &str| in_zone(OffsetDateTime::UNIX_EPOCH, name).map(|time| time.hour());
        for (name, expected) in
            [("", 0), ("UTC", 0), ("Asia/Tokyo", 9), ("-08:30", 15), ("30:75", 7), ("+05:30", 5)]
        {
            assert_eq!(hour(name).unwrap(), expected, "{name}");
        }
        for (name, reason) in [
            ("Z", "unknown time zone Z"),
            ("asia/tokyo", "unknown time zone asia/tokyo"),
            ("ab:00", "strconv.Atoi: parsing \"ab\": invalid syntax"),
            ("01:", "strconv.Atoi: parsing \"\": invalid syntax"),
        ] {
            assert_eq!(hour(name).unwrap_err().to_string(), reason);
        }
    }
}
