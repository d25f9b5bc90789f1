//! Counts the events in a watch's bytes; a sampling watcher also reads the stamp of each.

use std::time::{Duration, Instant};

use memchr::{memchr, memmem};

/// First bytes of an ERROR event.
const ERROR_START: &[u8] = br#"{"type":"ERROR""#;

/// JSON before the stamp that a writer put into an object.
pub(super) const STAMP_MARK: &[u8] = br#""at":""#;

/// Parser state between two pieces of one watch.
pub(super) struct Events {
    /// Complete lines so far.
    pub(super) count: u64,
    /// An ERROR event came: the server ended the watch.
    pub(super) ended_with_error: bool,
    /// The current line so far: its start, or all of it when sampling.
    line: Vec<u8>,
    sampling: Option<Instant>,
}

impl Events {
    /// A parser that only counts.
    pub(super) fn counting() -> Self {
        Self { count: 0, ended_with_error: false, line: Vec::new(), sampling: None }
    }

    /// A parser that also reads stamps, in nanoseconds since `epoch`.
    pub(super) fn sampling(epoch: Instant) -> Self {
        Self { sampling: Some(epoch), ..Self::counting() }
    }

    /// Takes the next piece; `delivered` gets the latency of each event when sampling.
    pub(super) fn feed(&mut self, mut piece: &[u8], mut delivered: impl FnMut(Duration)) {
        while let Some(end) = memchr(b'\n', piece) {
            self.keep(&piece[..end]);
            piece = &piece[end + 1..];
            self.count += 1;
            self.ended_with_error |= self.line.starts_with(ERROR_START);
            if let Some(latency) = self.sampling.and_then(|epoch| latency(&self.line, epoch)) {
                delivered(latency);
            }
            self.line.clear();
        }
        self.keep(piece);
    }

    fn keep(&mut self, part: &[u8]) {
        let room = match self.sampling {
            Some(_) => part.len(),
            None => ERROR_START.len().saturating_sub(self.line.len()).min(part.len()),
        };
        self.line.extend_from_slice(&part[..room]);
    }
}

fn latency(line: &[u8], epoch: Instant) -> Option<Duration> {
    let at = memmem::find(line, STAMP_MARK)?;
    let digits = line[at + STAMP_MARK.len()..].split(|byte| *byte == b'"').next()?;
    let nanos = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(epoch.elapsed().saturating_sub(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, step: usize, want: (u64, bool, usize)) {
        for mut events in [Events::counting(), Events::sampling(Instant::now())] {
            let mut stamps = 0;
            for piece in text.as_bytes().chunks(step) {
                events.feed(piece, |_| stamps += 1);
            }
            let sampled = if events.sampling.is_some() { want.2 } else { 0 };
            assert_eq!(
                (events.count, events.ended_with_error, stamps),
                (want.0, want.1, sampled),
                "step {step}"
            );
        }
    }

    #[test]
    fn lines_are_counted_however_they_are_cut() {
        let good =
            "{\"type\":\"MODIFIED\",\"object\":{\"data\":{\"at\":\"12\"}}}\n{\"type\":\"ADDED\"}\n{\"ty";
        let bad = "{\"type\":\"ADDED\"}\n{\"type\":\"ERROR\",\"object\":{}}\n";
        for step in [1, 3, 17, 1000] {
            check(good, step, (2, false, 1));
            check(bad, step, (2, true, 0));
        }
    }
}
