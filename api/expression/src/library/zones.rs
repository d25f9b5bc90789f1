//! Time zones: names such as `Europe/Berlin`, whose data is compiled in, and offsets such as `-08:00`.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use time::{OffsetDateTime, UtcOffset};

use crate::error::{Failure, fault};

/// The zones that this program was built with: a bare machine may have none.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The time in the zone `name`.
pub(super) fn in_zone(time: OffsetDateTime, name: &str) -> Result<OffsetDateTime, Failure> {
    let offset = offset(time, name).ok_or_else(|| fault(format!("unknown time zone {name}")))?;
    time.checked_to_offset(offset).ok_or_else(|| fault("timestamp overflow"))
}

fn offset(time: OffsetDateTime, name: &str) -> Option<UtcOffset> {
    if matches!(name, "" | "UTC" | "Z") {
        return Some(UtcOffset::UTC);
    }
    if let Some((hours, minutes)) = name.split_once(':') {
        let sign: i8 = if hours.starts_with('-') { -1 } else { 1 };
        let hours: i8 = hours.parse().ok()?;
        let minutes: i8 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
        return UtcOffset::from_hms(hours, minutes * sign, 0).ok();
    }
    let zone = ZONES.get(name).ok()?;
    let seconds = zone.to_offset(Timestamp::from_second(time.unix_timestamp()).ok()?).seconds();
    UtcOffset::from_whole_seconds(seconds).ok()
}
