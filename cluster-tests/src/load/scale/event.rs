//! The lines of a watch: type, version and name of each event.
//!
//! Keeps the first bytes of a line alone: type, version and name stand there, and an object may be large.

use memchr::{memchr, memmem};

/// Bytes of a line that are kept: the type and an object's metadata up to its version.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object was added, changed or deleted.
    Change,
    Bookmark,
    /// The version is too old: list again.
    Expired,
    /// Any other error, or a line that is no event.
    Error,
}

/// The start of one event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) kind: Kind,
    head: &'a [u8],
}

impl<'a> Event<'a> {
    fn new(head: &'a [u8]) -> Self {
        const TYPE: &[u8] = br#"{"type":""#;
        let word = head.strip_prefix(TYPE).and_then(|rest| rest.split(|byte| *byte == b'"').next());
        let kind = match word {
            Some(b"ADDED" | b"MODIFIED" | b"DELETED") => Kind::Change,
            Some(b"BOOKMARK") => Kind::Bookmark,
            Some(b"ERROR") if memmem::find(head, br#""code":410"#).is_some() => Kind::Expired,
            _ => Kind::Error,
        };
        Self { kind, head }
    }

    /// The object's name.
    pub(super) fn name(&self) -> Option<&'a [u8]> {
        text(self.head, br#""name":""#)
    }

    /// The object's version.
    pub(super) fn version(&self) -> Option<u64> {
        version(self.head)
    }
}

/// The first `resourceVersion` in JSON: of the object, or of the list.
pub(super) fn version(json: &[u8]) -> Option<u64> {
    std::str::from_utf8(text(json, br#""resourceVersion":""#)?).ok()?.parse().ok()
}

/// The string after the first `mark`.
fn text<'a>(json: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let rest = &json[memmem::find(json, mark)? + mark.len()..];
    Some(&rest[..memchr(b'"', rest)?])
}

/// The line that is under way between two pieces of a watch.
#[derive(Debug, Default)]
pub(super) struct Lines {
    head: Vec<u8>,
}

impl Lines {
    /// Takes the next piece; `event` gets each event that it completes.
    pub(super) fn feed(&mut self, mut piece: &[u8], mut event: impl FnMut(Event<'_>)) {
        while let Some(end) = memchr(b'\n', piece) {
            let line = &piece[..end];
            piece = &piece[end + 1..];
            if self.head.is_empty() {
                event(Event::new(&line[..line.len().min(HEAD_BYTES_MAX)]));
                continue;
            }
            self.keep(line);
            event(Event::new(&self.head));
            self.head.clear();
        }
        self.keep(piece);
    }

    fn keep(&mut self, part: &[u8]) {
        let room = HEAD_BYTES_MAX.saturating_sub(self.head.len()).min(part.len());
        self.head.extend_from_slice(&part[..room]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = concat!(
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#,
            "\n",
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"19"}}}"#,
            "\n",
            r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#,
            "\n",
            r#"{"type":"ERROR","object":{"kind":"Status","code":500}}"#,
            "\n",
            "nonsense\n",
            r#"{"type":"DEL"#
        );
        let want = [
            (Kind::Change, Some(7)),
            (Kind::Bookmark, Some(19)),
            (Kind::Expired, None),
            (Kind::Error, None),
            (Kind::Error, None),
        ];
        for step in [1, 2, 5, 64, 1000] {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.as_bytes().chunks(step) {
                lines.feed(piece, |event| seen.push((event.kind, event.version())));
            }
            assert_eq!(seen, want, "step {step}");
        }
    }

    #[test]
    fn the_rest_of_a_large_object_is_dropped() {
        let mut lines = Lines::default();
        lines.feed(br#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"},"data":""#, |_| {});
        for _ in 0..100 {
            lines.feed(&[b'x'; 1000], |_| panic!("the line has not ended"));
            assert!(lines.head.len() <= HEAD_BYTES_MAX);
        }
        let mut seen = Vec::new();
        lines.feed(b"\"}}\n", |event| seen.push((event.kind, event.version())));
        assert_eq!(seen, [(Kind::Change, Some(7))]);
    }
}
