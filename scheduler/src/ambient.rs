//! Randomness and wall time, the only facts that the process takes from outside of its inputs.
//!
//! Owns the only places where the program reads them. A simulation may give its thread a source
//! of its own, from which the same seed draws the same run; a release has no such source, and no branch for it. The monotonic
//! clock is Tokio's, which tests stop and move.

use std::time::SystemTime;

use time::{Duration, OffsetDateTime};

/// The process's randomness.
#[cfg(not(any(test, feature = "simulation")))]
#[expect(clippy::disallowed_methods, reason = "this module is the source of randomness")]
pub(crate) fn rng() -> rand::rngs::ThreadRng {
    rand::rng()
}

/// Microseconds since 1970.
#[cfg(not(any(test, feature = "simulation")))]
pub(crate) fn wall_micros() -> i64 {
    system_micros()
}

/// The time of day as a date, in UTC.
pub(crate) fn utc() -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::microseconds(wall_micros()))
}

/// The time of day in the form of files and certificates.
pub(crate) fn system_time() -> SystemTime {
    utc().into()
}

#[expect(clippy::disallowed_methods, reason = "this module is the source of the time of day")]
fn system_micros() -> i64 {
    let micros = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000;
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(any(test, feature = "simulation"))]
pub use replaced::{replace_rng, replace_wall};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use replaced::{rng, wall_micros};

#[cfg(any(test, feature = "simulation"))]
#[expect(clippy::disallowed_methods, reason = "this module is the source of randomness")]
mod replaced {
    use std::cell::{Cell, RefCell};

    use rand::rngs::StdRng;
    use rand::{RngCore, SeedableRng};

    thread_local! {
        static RNG: RefCell<Option<StdRng>> = const { RefCell::new(None) };
        static WALL: Cell<Option<i64>> = const { Cell::new(None) };
    }

    /// Randomness of the thread's seed, or the system's where it has none.
    pub(crate) struct Drawn;

    impl RngCore for Drawn {
        fn next_u32(&mut self) -> u32 {
            RNG.with_borrow_mut(|rng| rng.as_mut().map_or_else(|| rand::rng().next_u32(), RngCore::next_u32))
        }

        fn next_u64(&mut self) -> u64 {
            RNG.with_borrow_mut(|rng| rng.as_mut().map_or_else(|| rand::rng().next_u64(), RngCore::next_u64))
        }

        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            RNG.with_borrow_mut(|rng| match rng {
                Some(rng) => rng.fill_bytes(bytes),
                None => rand::rng().fill_bytes(bytes),
            });
        }
    }

    pub(crate) fn rng() -> Drawn {
        Drawn
    }

    pub(crate) fn wall_micros() -> i64 {
        WALL.get().unwrap_or_else(super::system_micros)
    }

    /// From now on this thread draws from `seed`; `None`: from the system again.
    pub fn replace_rng(seed: Option<u64>) {
        RNG.set(seed.map(StdRng::seed_from_u64));
    }

    /// From now on the time of day is `micros` on this thread; `None`: the system's again.
    pub fn replace_wall(micros: Option<i64>) {
        WALL.set(micros);
    }
}
