//! The place of a span in a trace, as it crosses processes.
//!
//! Owns its forms: the headers `traceparent` and `tracestate` of the W3C recommendation "Trace Context", and 25 bytes and a text between members.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The name of the header that a context is read from.
pub const HEADER: &str = "traceparent";

/// The name of the header with what other systems have noted about the trace.
pub const STATE_HEADER: &str = "tracestate";

/// Bytes of the form between members: trace, span, flags.
pub const CONTEXT_BYTES: usize = 25;

/// Bytes of the header's value in version 00, and of the part that later versions share with it.
const TEXT_BYTES: usize = 55;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// Members of a `tracestate`: the bound of the recommendation.
const STATE_MEMBERS_MAX: usize = 32;

/// Bytes of a `tracestate` that is kept: what the recommendation asks for. A trace with a larger one goes on without it.
const STATE_BYTES_MAX: usize = 512;

/// Bytes of a key or a value of a `tracestate`.
const MEMBER_BYTES_MAX: usize = 256;

/// A span's place in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace; never 0.
    pub trace_id: u128,
    /// The id of the span; never 0.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// The trace's `tracestate`.
    pub state: TraceState,
}

/// The notes of other systems about a trace: passed on as they came, without empty members. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceState(Option<Arc<str>>);

impl TraceState {
    /// Reads the values of the headers `tracestate`, in their order. What is malformed or too large is empty: the trace goes on without it, as
    /// the recommendation says.
    pub fn parse<'t>(values: impl IntoIterator<Item = &'t str>) -> TraceState {
        let (mut kept, mut keys) = (String::new(), BTreeSet::new());
        let members = values.into_iter().flat_map(|value| value.split(','));
        for member in members.map(|member| member.trim_matches([' ', '\t'])) {
            if member.is_empty() {
                continue;
            }
            let key = member.split_once('=').filter(|(key, value)| is_key(key) && is_value(value));
            let is_known = key.is_some_and(|(key, _)| keys.insert(key));
            if !is_known || keys.len() > STATE_MEMBERS_MAX || kept.len() + member.len() >= STATE_BYTES_MAX {
                return TraceState::default();
            }
            if !kept.is_empty() {
                kept.push(',');
            }
            kept += member;
        }
        TraceState((!kept.is_empty()).then(|| kept.into()))
    }

    /// The header's value; empty where there is none to send.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// A key of level 2 of the recommendation, which takes those of level 1, too.
fn is_key(key: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_rest = |byte: &u8| is_first(byte) || b"_-*/@".contains(byte);
    key.len() <= MEMBER_BYTES_MAX
        && key.as_bytes().first().is_some_and(is_first)
        && key.bytes().all(|byte| is_rest(&byte))
}

fn is_value(value: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    (1..=MEMBER_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_plain)
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
        TraceContext { trace_id, span_id, is_sampled: flags & SAMPLED != 0, state: TraceState::default() }
            .known()
    }

    /// The same place with this state.
    #[must_use]
    pub fn with_state(self, state: TraceState) -> TraceContext {
        TraceContext { state, ..self }
    }

    /// Reads the form between members, which lacks the state; `None` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<TraceContext> {
        let (trace_id, rest) = bytes.split_first_chunk::<16>()?;
        let (span_id, rest) = rest.split_first_chunk::<8>()?;
        let [flags] = rest else { return None };
        let (trace_id, span_id) = (u128::from_be_bytes(*trace_id), u64::from_be_bytes(*span_id));
        TraceContext { trace_id, span_id, is_sampled: flags & SAMPLED != 0, state: TraceState::default() }
            .known()
    }

    /// The form between members, without the state.
    pub fn to_bytes(&self) -> [u8; CONTEXT_BYTES] {
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

/// The value of the header `traceparent`, in version 00.
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
    fn a_state_is_passed_on_as_it_came() {
        let kept = |values: &[&str]| TraceState::parse(values.iter().copied()).as_str().to_owned();
        assert_eq!(
            kept(&["congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"]),
            "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"
        );
        assert_eq!(
            kept(&["a=1, ,\tb= x y ", "0t@v=!~"]),
            "a=1,b= x y,0t@v=!~",
            "several headers are one list"
        );
        assert_eq!(kept(&[]), "");
        let many = |count: usize| (0..count).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(kept(&[&many(32)]), many(32));
        let long = format!("k={}", "v".repeat(MEMBER_BYTES_MAX));
        assert_eq!(kept(&[&long]), long);
        let large = (0..9).map(|at| format!("{at}{long}")).collect::<Vec<_>>().join(",");
        for bad in [
            "a",
            "a=",
            "=1",
            "A=1",
            "_a=1",
            "a=1,a=2",
            "a=1=2",
            "a=\u{e9}",
            "a\u{e9}=1",
            &many(33),
            &format!("{long}v"),
            &large,
        ] {
            assert_eq!(kept(&["z=1", bad]), "", "{bad}");
        }
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
