//! The place of a span in a trace, as it crosses processes.
//!
//! Owns the two forms: the header `traceparent` of the W3C recommendation "Trace Context", level 1, and 25 bytes between members.

use std::fmt;

/// The header's name.
pub const HEADER: &str = "traceparent";

/// Bytes of the form between members: trace, span, flags.
pub const CONTEXT_BYTES: usize = 25;

/// Bytes of the header's value in version 00, and of the part that later versions share with it.
const TEXT_BYTES: usize = 55;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A span's place in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace; never 0.
    pub trace_id: u128,
    /// The id of the span; never 0.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a header's value. `None`: it is no valid one, and is ignored as if it were absent, as the recommendation says.
    pub fn parse(text: &str) -> Option<TraceContext> {
        let bytes = text.as_bytes();
        let (version, ends) = (hex(bytes.get(0..2)?)?, bytes.len() == TEXT_BYTES);
        // A later version may have more fields behind these; ff is no version.
        let is_readable = match version {
            0 => ends,
            0xff => false,
            _ => ends || bytes.get(TEXT_BYTES) == Some(&b'-'),
        };
        // few: the three dashes of a header's value.
        let has_dashes = [2, 35, 52].iter().all(|&at| bytes.get(at) == Some(&b'-'));
        if !is_readable || !has_dashes {
            return None;
        }
        let trace_id = hex(&bytes[3..35])?;
        let span_id = u64::try_from(hex(&bytes[36..52])?).ok()?;
        let flags = u8::try_from(hex(&bytes[53..55])?).ok()?;
        TraceContext { trace_id, span_id, is_sampled: flags & SAMPLED != 0 }.known()
    }

    /// Reads the form between members; `None` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<TraceContext> {
        let (trace_id, rest) = bytes.split_first_chunk::<16>()?;
        let (span_id, rest) = rest.split_first_chunk::<8>()?;
        let [flags] = rest else { return None };
        let (trace_id, span_id) = (u128::from_be_bytes(*trace_id), u64::from_be_bytes(*span_id));
        TraceContext { trace_id, span_id, is_sampled: flags & SAMPLED != 0 }.known()
    }

    /// The form between members.
    pub fn to_bytes(self) -> [u8; CONTEXT_BYTES] {
        let mut bytes = [0; CONTEXT_BYTES];
        bytes[..16].copy_from_slice(&self.trace_id.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.span_id.to_be_bytes());
        bytes[24] = u8::from(self.is_sampled);
        bytes
    }

    fn known(self) -> Option<TraceContext> {
        (self.trace_id != 0 && self.span_id != 0).then_some(self)
    }
}

/// The header's value, in version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }
}

/// The number that lower-case hexadecimal digits write, at most 32 of them.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written_back() {
        let context = TraceContext::parse(TEXT).unwrap();
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((context.span_id, context.is_sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(context.to_string(), TEXT);
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()), Some(context));
        assert!(!TraceContext::parse(&TEXT.replace("-01", "-00")).unwrap().is_sampled);
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let later = TEXT.replacen("00-", "cc-", 1);
        assert!(TraceContext::parse(&later).is_some());
        assert!(TraceContext::parse(&format!("{later}-what-comes")).is_some());
        assert_eq!(TraceContext::parse(&format!("{later}.what-comes")), None);
        assert_eq!(TraceContext::parse(&format!("{TEXT}-more")), None);
    }

    #[test]
    fn text_that_is_no_header_is_ignored() {
        for text in [
            "",
            "00",
            "00-",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e47\u{e9}-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text:?}");
        }
        for bytes in [&[][..], &[0; 25], &[1; 24], &[1; 26]] {
            assert_eq!(TraceContext::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
