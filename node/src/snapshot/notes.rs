//! Lines for a person beside the work: progress, warnings, the outcome.
//!
//! Owns that they never end the work. A terminal that is closed and a log whose disk is full take no line, and a snapshot that is
//! on its way is worth more than a line about it: the exit code tells the outcome.

use std::fmt;

/// Writes lines that need not arrive.
pub(super) struct Notes<W> {
    out: W,
    has_failed: bool,
}

impl<W: std::io::Write> Notes<W> {
    /// Lines to `out`.
    pub(super) fn new(out: W) -> Self {
        Notes { out, has_failed: false }
    }

    /// Writes a line. After the first one that cannot be written nothing is written: `out` may be in the middle of one.
    pub(super) fn tell(&mut self, line: impl fmt::Display) {
        if self.has_failed {
            return;
        }
        if let Err(error) = writeln!(self.out, "{line}").and_then(|()| self.out.flush()) {
            self.has_failed = true;
            tracing::debug!(%error, "no further line about a snapshot is written");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;

    /// Takes so many bytes, and then none.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.1);
            if taken == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.0.extend_from_slice(&bytes[..taken]);
            self.1 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_end_nothing() {
        let mut narrow = Narrow(Vec::new(), 9);
        let mut notes = Notes::new(&mut narrow);
        notes.tell("first");
        notes.tell("second");
        notes.out.1 = 100;
        notes.tell("third");
        assert_eq!(narrow.0, b"first\nsec", "nothing follows half a line");
    }
}
