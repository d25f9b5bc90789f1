//! The progress of a snapshot on a terminal: one line that is written over.
//!
//! Owns the line. Without a terminal it writes nothing, so that logs of scheduled backups stay short.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use orch_raft::archive::Header;

use super::readable;

/// Between two lines: often enough for an eye.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Objects between two looks at the clock.
const OBJECTS_PER_LOOK: u64 = 256;

/// Progress on standard error.
pub(super) struct Progress {
    is_shown: bool,
    total: u64,
    objects: u64,
    bytes: u64,
    last: Instant,
}

impl Progress {
    /// The progress of a snapshot with `header`.
    pub(super) fn of(header: &Header) -> Self {
        // The header is not verified yet: its numbers may be any.
        let total = header.resources.values().fold(0, |sum: u64, count| sum.saturating_add(count.bytes));
        let is_shown = std::io::stderr().is_terminal();
        Progress { is_shown, total, objects: 0, bytes: 0, last: Instant::now() }
    }

    /// Counts an object of `bytes`.
    pub(super) fn add(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.is_shown && self.objects.is_multiple_of(OBJECTS_PER_LOOK) && self.last.elapsed() >= SHOW_EVERY
        {
            self.last = Instant::now();
            self.show("\r");
        }
    }

    /// Ends the line.
    pub(super) fn end(&self) {
        if self.is_shown {
            self.show("\r");
            self.write("\n");
        }
    }

    fn show(&self, begin: &str) {
        let share = self.bytes.saturating_mul(100).checked_div(self.total).unwrap_or(100);
        let (done, total) = (readable(self.bytes), readable(self.total));
        self.write(&format!("{begin}{share:3}%  {done} of {total}, {} objects   ", self.objects));
    }

    fn write(&self, text: &str) {
        // A terminal that is gone shows no progress; the snapshot goes on.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}
