//! A limit on the rate at which a stream is read.
//!
//! Owns the waits. The stream's sender is slowed down by the connection, which fills while nothing is read.

use std::io::{self, Read};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of one read under a limit: a hundredth of a second at 10 MiB/s, so that the rate is even.
const READ_BYTES_MAX: u64 = 64 << 10;

/// A stream that is read at a limited rate.
pub(super) struct Paced<R> {
    source: R,
    /// Bytes a second; `None` without a limit.
    limit: Option<u64>,
    /// From this time on the next bytes may be read.
    next: Instant,
}

impl<R> Paced<R> {
    pub(super) fn new(source: R, limit: Option<u64>) -> Self {
        Paced { source, limit, next: Instant::now() }
    }
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(limit) = self.limit else { return self.source.read(buffer) };
        let now = Instant::now();
        sleep(self.next.saturating_duration_since(now));
        let most = usize::try_from(READ_BYTES_MAX).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.source.read(&mut buffer[..most])?;
        // Time in which nothing came is not made up for.
        self.next = self.next.max(now) + cost(read, limit);
        Ok(read)
    }
}

/// The time that `bytes` take at `limit` bytes a second.
fn cost(bytes: usize, limit: u64) -> Duration {
    let nanoseconds = u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(1_000_000_000);
    Duration::from_nanos(u64::try_from(nanoseconds / u128::from(limit.max(1))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_time_that_the_limit_gives_them() {
        assert_eq!(cost(1 << 20, 1 << 20), Duration::from_secs(1));
        assert_eq!(cost(0, 1), Duration::ZERO);
        let began = Instant::now();
        let mut read = Vec::new();
        let source = vec![7; 300 << 10];
        Paced::new(&source[..], Some(1 << 20)).read_to_end(&mut read).unwrap();
        assert_eq!(read, source);
        // The last piece's time is not waited for.
        assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    }
}
