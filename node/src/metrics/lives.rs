//! Remaining lives of client certificates: one observation for each request, as in the reference.
//!
//! Owns the counters and their text on `/metrics`. They are no histogram of the recorder, which keeps single values until somebody asks: a request
//! reads the clock and adds to two numbers.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::buckets::LIVES;
use super::head;

/// The metric.
const NAME: &str = "apiserver_client_certificate_expiration_seconds";

/// Those of this process.
static SEEN: Lives = Lives::new();

/// Observations by the bounds of [`LIVES`].
struct Lives {
    /// Between the bound before and this one; the last one: above all.
    counts: [AtomicU64; LIVES.len() + 1],
    /// Their sum, in whole seconds.
    seconds: AtomicU64,
}

impl Lives {
    const fn new() -> Self {
        Lives { counts: [const { AtomicU64::new(0) }; LIVES.len() + 1], seconds: AtomicU64::new(0) }
    }

    fn observe(&self, left: Duration) {
        let within = LIVES.partition_point(|bound| *bound < left.as_secs_f64());
        self.counts[within].fetch_add(1, Ordering::Relaxed);
        self.seconds.fetch_add(left.as_secs(), Ordering::Relaxed);
    }

    fn write(&self, text: &mut String) {
        text.push_str(&head(NAME, "histogram"));
        let (bounds, mut total) = (LIVES.iter().map(f64::to_string), 0);
        for (count, bound) in self.counts.iter().zip(bounds.chain(["+Inf".to_owned()])) {
            total += count.load(Ordering::Relaxed);
            // A string takes every write.
            let _ = writeln!(text, "{NAME}_bucket{{le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(text, "{NAME}_sum {}\n{NAME}_count {total}", self.seconds.load(Ordering::Relaxed));
    }
}

/// Appends the histogram of this process.
pub(super) fn write(text: &mut String) {
    SEEN.write(text);
}

/// The remaining life of the certificate that the client of a connection presented.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    from: Instant,
    left: Duration,
}

impl Life {
    /// A life that ends when `left` is over from now on; zero where it has ended.
    pub(crate) fn new(left: Duration) -> Life {
        Life { from: Instant::now(), left }
    }

    /// Observes a request that comes with the certificate.
    pub(crate) fn observe(&self) {
        SEEN.observe(self.left.saturating_sub(self.from.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_counts_within_the_first_bound_that_its_life_does_not_pass() {
        let lives = Lives::new();
        for seconds in [0, 0, 1800, 1801, 31_104_001] {
            lives.observe(Duration::from_secs(seconds));
        }
        let mut text = String::new();
        lives.write(&mut text);
        for expected in [
            "# TYPE apiserver_client_certificate_expiration_seconds histogram\n",
            "_bucket{le=\"0\"} 2\n",
            "_bucket{le=\"1800\"} 3\n",
            "_bucket{le=\"3600\"} 4\n",
            "_bucket{le=\"31104000\"} 4\n",
            "_bucket{le=\"+Inf\"} 5\n",
            "_sum 31107602\n",
            "_count 5\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
