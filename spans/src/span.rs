//! Spans that are under way, and spans that have ended.
//!
//! Owns the ids of spans and the bounds of what they tell: few attributes with short values. Callers give no tokens, keys or bodies.

use std::borrow::Cow;

use crate::context::{TraceContext, TraceState};
use crate::recorder::{is_on, is_sampled, random, record};

/// Bytes of a text in a span, after which it is cut: a path with a namespace and a name, whole in all but odd cases.
pub const TEXT_BYTES_MAX: usize = 256;

/// A short text in a span, cut after [`TEXT_BYTES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Cow<'static, str>);

/// A name and a short value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(&'static str, Text),
    /// A number.
    Number(&'static str, i64),
}

/// The kind of a span, as OpenTelemetry has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// An answered request.
    Server,
    /// A request to another process.
    Client,
    /// Work within a process.
    Internal,
}

/// The trace that a request's sender says it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The sender tells of none.
    None,
    /// The sender is believed: the span is a part of its trace, and recorded if that is.
    Caller(TraceContext),
    /// The sender is not believed: a trace begins here, with a link to the one that it names.
    Linked(TraceContext),
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSpan {
    /// Its ids.
    pub context: TraceContext,
    /// The span that it is a part of; `None` for a trace's first.
    pub parent: Option<u64>,
    /// Whether the parent span belongs to another process.
    pub is_parent_remote: bool,
    /// The span that an untrusted sender named; exported as a link.
    pub link: Option<TraceContext>,
    /// The side of a call.
    pub kind: SpanKind,
    /// Its name, one of few.
    pub name: Cow<'static, str>,
    /// When it began, in microseconds since 1970.
    pub began_micros: u64,
    /// When it ended, in microseconds since 1970.
    pub ended_micros: u64,
    /// Bounded texts and numbers.
    pub attributes: Vec<Attribute>,
    /// The reason of a failure, in few words; `None`: it did not fail.
    pub failure: Option<Text>,
}

/// A span under way. It has no clock and no name: both come with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveSpan {
    context: TraceContext,
    parent: Option<u64>,
    is_parent_remote: bool,
    link: Option<TraceContext>,
    /// It is a sender's own: there is no recorder, and other servers are told of the sender's span.
    is_passed: bool,
}

impl ActiveSpan {
    /// The first span of this process in a trace. One of a sender that is believed is there also where its trace is not recorded, because
    /// other servers are told so. `None`: there is no recorder, or the rate does not choose the trace.
    pub fn begin(parent: Parent) -> Option<ActiveSpan> {
        if !is_on() {
            return None;
        }
        let trace_id = match &parent {
            Parent::Caller(caller) => caller.trace_id,
            Parent::None | Parent::Linked(_) => random().max(1),
        };
        let is_sampled = is_sampled(&parent, trace_id);
        let (state, parent, link) = match parent {
            Parent::Caller(caller) => (caller.state, Some(caller.span_id), None),
            _ if !is_sampled => return None,
            Parent::Linked(other) => (TraceState::default(), None, Some(other)),
            Parent::None => (TraceState::default(), None, None),
        };
        let context = TraceContext { trace_id, span_id: new_id(), is_sampled, state };
        Some(ActiveSpan { context, parent, is_parent_remote: parent.is_some(), link, is_passed: false })
    }

    /// The first span of a trace that the rate did not choose; `None` without a recorder.
    pub fn unrecorded() -> Option<ActiveSpan> {
        is_on().then(|| {
            let (trace_id, span_id) = (random().max(1), new_id());
            let context = TraceContext { trace_id, span_id, is_sampled: false, state: TraceState::default() };
            ActiveSpan { context, parent: None, is_parent_remote: false, link: None, is_passed: false }
        })
    }

    /// The sender's own span, of which other servers are told where this process has no recorder.
    pub fn passed(context: TraceContext) -> ActiveSpan {
        ActiveSpan { context, parent: None, is_parent_remote: false, link: None, is_passed: true }
    }

    /// A span of this process that is a part of the recorded span `parent` of another one.
    pub fn of_remote(parent: TraceContext) -> Option<ActiveSpan> {
        ActiveSpan::begin(Parent::Caller(parent)).filter(ActiveSpan::is_recorded)
    }

    /// A span that is a part of this one.
    #[must_use]
    pub fn child(&self) -> ActiveSpan {
        if self.is_passed {
            return self.clone();
        }
        let context = TraceContext { span_id: new_id(), ..self.context.clone() };
        let parent = Some(self.context.span_id);
        ActiveSpan { context, parent, is_parent_remote: false, link: None, is_passed: false }
    }

    /// Whether the recorder gets it.
    pub fn is_recorded(&self) -> bool {
        self.context.is_sampled && !self.is_passed
    }

    /// The context to send in `traceparent` and `tracestate`.
    pub fn context(&self) -> TraceContext {
        self.context.clone()
    }

    /// Bytes of memory that a sender's state takes.
    pub fn held_bytes(&self) -> usize {
        let of_link = self.link.as_ref().map_or(0, |link| link.state.as_str().len());
        self.context.state.as_str().len() + of_link
    }

    /// The span, ended, without attributes; given to the recorder by [`FinishedSpan::record`]. Times in microseconds since 1970.
    pub fn ended(
        &self,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
        (began_micros, ended_micros): (u64, u64),
    ) -> FinishedSpan {
        FinishedSpan {
            context: self.context.clone(),
            parent: self.parent,
            is_parent_remote: self.is_parent_remote,
            link: self.link.clone(),
            kind,
            name: name.into(),
            began_micros,
            ended_micros: ended_micros.max(began_micros),
            attributes: Vec::new(),
            failure: None,
        }
    }
}

impl FinishedSpan {
    /// The same span with a text.
    #[must_use]
    pub fn with_text(mut self, name: &'static str, value: impl Into<Text>) -> FinishedSpan {
        self.attributes.push(Attribute::Text(name, value.into()));
        self
    }

    /// The same span with a number.
    #[must_use]
    pub fn with_number(mut self, name: &'static str, value: impl TryInto<i64>) -> FinishedSpan {
        self.attributes.push(Attribute::Number(name, value.try_into().unwrap_or(i64::MAX)));
        self
    }

    /// The same span, failed for this reason.
    #[must_use]
    pub fn with_failure(mut self, reason: impl Into<Text>) -> FinishedSpan {
        self.failure = Some(reason.into());
        self
    }

    /// Gives it to the recorder, where its trace is recorded.
    pub fn record(self) {
        if self.context.is_sampled {
            record(self);
        }
    }
}

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as an owned one.
    pub fn into_cow(self) -> Cow<'static, str> {
        self.0
    }
}

impl From<String> for Text {
    fn from(mut text: String) -> Text {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        Text(Cow::Owned(text))
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text(Cow::Borrowed(&text[..text.floor_char_boundary(TEXT_BYTES_MAX)]))
    }
}

/// The id of a new span; never 0.
fn new_id() -> u64 {
    u64::try_from(random() >> 64).unwrap_or_default().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::recorder::{Sampling, Sources, install, now_micros};

    /// Ids that count up.
    fn count() -> u128 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        u128::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 64
    }

    const SOURCES: Sources = Sources { now_micros: || 5, random: count };

    static TAKEN: Mutex<Vec<FinishedSpan>> = Mutex::new(Vec::new());

    /// The recorder is installed for the whole process, so that its cases are in a single test.
    #[test]
    fn spans_reach_the_recorder_as_parts_of_the_traces_that_are_believed() {
        let caller =
            TraceContext { trace_id: 7, span_id: 9, is_sampled: true, state: TraceState::parse(["v=1"]) };
        assert_eq!(
            ActiveSpan::begin(Parent::Caller(caller.clone())),
            None,
            "without a recorder nothing is recorded"
        );
        assert_eq!(
            (now_micros(), ActiveSpan::unrecorded()),
            (0, None),
            "without a recorder no clock is read"
        );
        let passed = ActiveSpan::passed(caller.clone()).child();
        assert!(passed.context() == caller && !passed.is_recorded(), "others are told of the sender's span");
        assert!(install(Sampling::per_million(0), SOURCES, |span| TAKEN.lock().unwrap().push(span)));
        assert!(!install(Sampling::per_million(0), SOURCES, |_| {}), "a process has one recorder");
        assert_eq!(ActiveSpan::begin(Parent::None), None);
        assert_eq!(
            ActiveSpan::begin(Parent::Linked(caller.clone())),
            None,
            "a sender that is not believed decides nothing"
        );
        let unsampled = TraceContext { is_sampled: false, ..caller.clone() };
        let call = ActiveSpan::begin(Parent::Caller(unsampled.clone())).unwrap().child();
        call.ended(SpanKind::Client, "never recorded", (1, 2)).record();
        let told = call.context();
        assert!(told.trace_id == 7 && told.span_id != 9 && !told.is_sampled && told.state.as_str() == "v=1");
        assert_eq!(ActiveSpan::of_remote(unsampled), None);
        let told = ActiveSpan::unrecorded().unwrap().child().context();
        assert!(told.trace_id != 7 && !told.is_sampled && told.state == TraceState::default());
        let begun = ActiveSpan::begin(Parent::Caller(caller)).unwrap();
        let child = begun.child();
        child.ended(SpanKind::Internal, "decode", (5, 6)).with_number("bytes", 12_u32).record();
        begun
            .ended(SpanKind::Server, "GET", (1, 0))
            .with_text("path", "é".repeat(200))
            .with_failure("late")
            .record();
        let taken = TAKEN.lock().unwrap();
        let [inner, outer] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!((inner.context.trace_id, outer.context.trace_id), (7, 7));
        assert_eq!((inner.context.state.as_str(), outer.context.state.as_str()), ("v=1", "v=1"));
        assert_eq!((inner.parent, outer.parent), (Some(outer.context.span_id), Some(9)));
        assert_eq!((inner.is_parent_remote, outer.is_parent_remote), (false, true));
        assert_eq!(inner.attributes, [Attribute::Number("bytes", 12)]);
        let Attribute::Text("path", text) = &outer.attributes[0] else { panic!("{outer:?}") };
        assert_eq!(text.as_str().len(), TEXT_BYTES_MAX);
        assert_eq!(outer.failure.as_ref().map(Text::as_str), Some("late"));
    }
}
