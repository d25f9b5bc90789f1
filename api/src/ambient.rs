//! Time and randomness, which the pipeline gets through the trait [`Ambient`].
//!
//! Owns the formats in which time appears in objects. Simulations pass a seeded implementation, a process the system's
//! clock and generator. Nothing else in this crate reads the time of day or draws a random number; only spans
//! (`orch_spans`) do, and no decision depends on them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orch_bounded::ExpiryClock;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Microseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// Largest distance between readings of tasks that run beside each other. A time that is further ahead was read before the
/// clock was set back.
const CLOCK_SLACK_MICROS: u64 = 5_000_000;

/// The source of time and randomness.
pub trait Ambient: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// 128 random bits.
    fn random(&self) -> u128;
}

/// The system's clock and random generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemAmbient;

impl Ambient for SystemAmbient {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn random(&self) -> u128 {
        rand::random()
    }
}

impl Timestamp {
    /// Whether the clock was set back between this time and `now`. How long ago this time was is then unknown, and nothing that
    /// was to last for a span may go on counting.
    pub fn is_before_set_back(self, now: Timestamp) -> bool {
        self.0.saturating_sub(now.0) > CLOCK_SLACK_MICROS
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> u64 {
        self.0 / 1000
    }

    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// RFC 3339 with second precision, as `Time` fields hold it.
    pub fn seconds_text(self) -> String {
        let seconds = i64::try_from(self.seconds()).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(seconds)
            .ok()
            .and_then(|time| time.format(&Rfc3339).ok())
            .unwrap_or_else(|| "9999-12-31T23:59:59Z".to_owned())
    }

    /// RFC 3339 with microseconds, as `MicroTime` fields hold it.
    pub fn micros_text(self) -> String {
        let mut text = self.seconds_text();
        text.pop();
        text.push_str(&format!(".{:06}Z", self.0 % 1_000_000));
        text
    }
}

impl ExpiryClock for Timestamp {
    fn after(self, span: Duration) -> Self {
        Timestamp(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    fn is_before_set_back(self, now: Self) -> bool {
        Timestamp::is_before_set_back(self, now)
    }
}

/// A random (version 4) UUID from `random`.
pub fn uuid_text(random: u128) -> String {
    uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid().to_string()
}

/// Alphabet of generated names: no vowels, so that no word arises, and no characters that look alike.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Number of random characters appended to `generateName`.
pub const SUFFIX_LENGTH: usize = 5;

/// The random suffix of a generated name: [`SUFFIX_LENGTH`] characters.
pub fn suffix_text(mut random: u128) -> String {
    let mut suffix = String::with_capacity(SUFFIX_LENGTH);
    for _ in 0..SUFFIX_LENGTH {
        let at = usize::try_from(random % 27).expect("below 27");
        suffix.push(char::from(SUFFIX_ALPHABET[at]));
        random /= 27;
    }
    suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ids_have_the_interface_forms() {
        assert_eq!(Timestamp(1_767_322_145_123_456).seconds_text(), "2026-01-02T02:49:05Z");
        assert_eq!(Timestamp(1_767_322_145_000_456).micros_text(), "2026-01-02T02:49:05.000456Z");
        assert_eq!(uuid_text(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(suffix_text(0), "bbbbb");
        assert_eq!(suffix_text(u128::MAX).len(), SUFFIX_LENGTH);
    }
}
