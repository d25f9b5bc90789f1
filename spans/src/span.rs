//! Spans that are under way, and spans that have ended.
//!
//! Owns the ids of spans and the bounds of what they tell: few attributes with short values. Callers give no tokens, keys or bodies.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::context::TraceContext;
use crate::recorder::{is_on, is_sampled, record};

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
pub enum Kind {
    /// An answered request.
    Server,
    /// A request to another process.
    Client,
    /// Work within a process.
    Internal,
}

/// The trace that a request's sender says it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
pub struct Span {
    /// Trace id and span id.
    pub context: TraceContext,
    /// The span that it is a part of; `None` for a trace's first.
    pub parent: Option<u64>,
    /// Whether the parent span belongs to another process.
    pub is_parent_remote: bool,
    /// The span that an untrusted sender named; exported as a link.
    pub link: Option<TraceContext>,
    /// The side of a call.
    pub kind: Kind,
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

/// A span under way in a trace that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    context: TraceContext,
    parent: Option<u64>,
    is_parent_remote: bool,
    link: Option<TraceContext>,
}

impl Trace {
    /// The first span of this process in a trace; `None`: the trace is not recorded.
    pub fn begin(parent: Parent) -> Option<Trace> {
        if !is_on() {
            return None;
        }
        let trace = match parent {
            Parent::Caller(caller) => caller.trace,
            Parent::None | Parent::Linked(_) => rand::random::<u128>().max(1),
        };
        is_sampled(&parent, trace).then(|| {
            let context = TraceContext { trace, span: new_id(), is_sampled: true };
            let (parent, link) = match parent {
                Parent::Caller(caller) => (Some(caller.span), None),
                Parent::Linked(other) => (None, Some(other)),
                Parent::None => (None, None),
            };
            Trace { context, parent, is_parent_remote: parent.is_some(), link }
        })
    }

    /// A span of this process that is a part of the recorded span `parent` of another one.
    pub fn of_remote(parent: TraceContext) -> Option<Trace> {
        Trace::begin(Parent::Caller(parent))
    }

    /// A span that is a part of this one.
    #[must_use]
    pub fn child(&self) -> Trace {
        let context = TraceContext { span: new_id(), ..self.context };
        Trace { context, parent: Some(self.context.span), is_parent_remote: false, link: None }
    }

    /// The context to send in `traceparent`.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    /// The span, ended, without attributes; given to the recorder by [`Span::record`]. Times in microseconds since 1970.
    pub fn ended(
        &self,
        kind: Kind,
        name: impl Into<Cow<'static, str>>,
        (began_micros, ended_micros): (u64, u64),
    ) -> Span {
        Span {
            context: self.context,
            parent: self.parent,
            is_parent_remote: self.is_parent_remote,
            link: self.link,
            kind,
            name: name.into(),
            began_micros,
            ended_micros: ended_micros.max(began_micros),
            attributes: Vec::new(),
            failure: None,
        }
    }
}

impl Span {
    /// The same span with a text.
    #[must_use]
    pub fn with_text(mut self, name: &'static str, value: impl Into<Text>) -> Span {
        self.attributes.push(Attribute::Text(name, value.into()));
        self
    }

    /// The same span with a number.
    #[must_use]
    pub fn with_number(mut self, name: &'static str, value: impl TryInto<i64>) -> Span {
        self.attributes.push(Attribute::Number(name, value.try_into().unwrap_or(i64::MAX)));
        self
    }

    /// The same span, failed for this reason.
    #[must_use]
    pub fn with_failure(mut self, reason: impl Into<Text>) -> Span {
        self.failure = Some(reason.into());
        self
    }

    /// Gives it to the recorder.
    pub fn record(self) {
        record(self);
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

/// The time of day in microseconds since 1970.
pub fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The id of a new span; never 0.
fn new_id() -> u64 {
    rand::random::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::recorder::{Sampling, install};

    static TAKEN: Mutex<Vec<Span>> = Mutex::new(Vec::new());

    /// The recorder is installed for the whole process, so that its cases are in a single test.
    #[test]
    fn spans_reach_the_recorder_as_parts_of_the_traces_that_are_believed() {
        let caller = TraceContext { trace: 7, span: 9, is_sampled: true };
        assert_eq!(Trace::begin(Parent::Caller(caller)), None, "without a recorder nothing is recorded");
        assert!(install(Sampling::per_million(0), |span| TAKEN.lock().unwrap().push(span)));
        assert!(!install(Sampling::per_million(0), |_| {}), "a process has one recorder");
        assert_eq!(Trace::begin(Parent::None), None);
        assert_eq!(
            Trace::begin(Parent::Linked(caller)),
            None,
            "a sender that is not believed decides nothing"
        );
        assert_eq!(Trace::begin(Parent::Caller(TraceContext { is_sampled: false, ..caller })), None);
        let begun = Trace::begin(Parent::Caller(caller)).unwrap();
        let child = begun.child();
        child.ended(Kind::Internal, "decode", (5, 6)).with_number("bytes", 12_u32).record();
        begun
            .ended(Kind::Server, "GET", (1, 0))
            .with_text("path", "é".repeat(200))
            .with_failure("late")
            .record();
        let taken = TAKEN.lock().unwrap();
        let [inner, outer] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!((inner.context.trace, outer.context.trace), (7, 7));
        assert_eq!((inner.parent, outer.parent), (Some(outer.context.span), Some(9)));
        assert_eq!((inner.is_parent_remote, outer.is_parent_remote), (false, true));
        assert_eq!(inner.attributes, [Attribute::Number("bytes", 12)]);
        let Attribute::Text("path", text) = &outer.attributes[0] else { panic!("{outer:?}") };
        assert_eq!(text.as_str().len(), TEXT_BYTES_MAX);
        assert_eq!(outer.failure.as_ref().map(Text::as_str), Some("late"));
    }
}
