//! Spans of traces: the context that crosses processes, a span that has ended, and the recorder that takes it.
//!
//! Owns the form of the W3C headers `traceparent` and `tracestate`, the choice of which traces are recorded, and the one recorder of the process. It
//! knows no request, object or socket: the program installs a recorder that sends spans away. Every crate of the workspace may use it.
//!
//! Invariant: without a recorder no clock is read and no id is drawn, and nothing is allocated but what a sender's own context takes that is passed
//! on: [`is_on`] is one load.
//! Invariant: this crate has no clock and no random numbers of its own; both come with the recorder.

mod context;
mod recorder;
mod span;

pub use context::{CONTEXT_BYTES, HEADER, STATE_HEADER, TraceContext, TraceState};
pub use recorder::{Sampling, Sources, install, is_on, now_micros, record};
pub use span::{ActiveSpan, Attribute, FinishedSpan, Parent, SpanKind, TEXT_BYTES_MAX, Text};
