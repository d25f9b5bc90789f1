//! The converter of a definition with a conversion webhook: another server is asked once for each batch.
//!
//! Owns the question and the words in which each failure is told. It opens no connection: whoever posts documents is handed in. A
//! question that fails is not asked again; one whose answer is too large for this server is asked in halves.
//!
//! Invariant: while it waits it holds the document's bytes and no tree: what a server that hangs costs is bounded by them.
//!
//! The question ends with the request that asks it, and otherwise after [`TIMEOUT`], whatever time the request has left.
//!
//! The order of the checks and the words of the failures are the reference's.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, FutureExt};
use orch_raft::WrittenAs;
use orch_rules::validate::tree::unset;
use orch_schema::excerpt::fitting;
use orch_schema::value::Value;
use orch_spans::{ActiveSpan, SpanKind, TraceContext};

use super::kept::Kept;
use super::measures::{Breach, Measures};
use super::restored::{Expected, Fault, restored};
use super::review::{Reviews, Sent, Unanswered, named};
use super::{Batch, Converted, Converter, Converting, Failure, Piece, converted};
use crate::ambient::{Ambient, Timestamp, uuid_text};

/// Time limit for one batch with all its halves; the reference allows as much for its single call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The text of a failure where that limit has passed.
const LATE: &str = "context deadline exceeded";

/// Bytes of a text that another server has written into a failure: some pages, where the reference repeats all.
const TOLD_BYTES_MAX: usize = 4096;

/// Posts documents to one server.
pub(crate) trait Post: fmt::Debug + Send + Sync {
    /// Posts `document` and gives the whole answer of status 200, within `timeout`. The server is told that the call is the span
    /// `trace`.
    fn post(
        &self,
        document: Bytes,
        timeout: Duration,
        trace: Option<TraceContext>,
    ) -> BoxFuture<'static, Result<Bytes, Unposted>>;
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unposted {
    /// The text for the client, without its beginning.
    pub(crate) reason: String,
    /// An answer came, and is larger than this server reads.
    pub(crate) is_too_large: bool,
}

/// The names of a kind whose objects are converted.
#[derive(Debug)]
pub(crate) struct HookedKind {
    /// Name of the definition.
    pub(crate) definition: String,
    /// API group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// All versions, served or not.
    pub(crate) versions: HashSet<String>,
}

/// The parts that all hooks of a node share. Clones share them.
#[derive(Clone)]
pub(crate) struct HookParts {
    /// For uids and measured durations.
    pub(crate) ambient: Arc<dyn Ambient>,
    /// A clock that nobody sets, by which the questions of one batch are bounded together.
    pub(crate) elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Results that are kept with their objects.
    pub(crate) kept: Arc<Kept>,
    /// Counts and durations.
    pub(crate) measures: Arc<Measures>,
}

impl fmt::Debug for HookParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookParts").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// Asks another server.
pub(crate) struct Hook(Arc<Asker>);

struct Asker {
    of: HookedKind,
    /// The reason why there is none.
    way: Result<Way, String>,
}

/// The way to ask a server.
pub(crate) struct Way {
    /// The documents.
    pub(crate) reviews: Reviews,
    /// The server.
    pub(crate) post: Arc<dyn Post>,
    /// The parts that it shares with other hooks.
    pub(crate) parts: HookParts,
}

/// A question that was sent.
struct Question {
    uid: String,
    document: Bytes,
    /// The form of each object that was sent.
    forms: Vec<Arc<WrittenAs>>,
    to: Arc<WrittenAs>,
}

/// A failure with what is counted of it.
type Refused = (Breach, Failure);

impl Hook {
    /// The converter of the kind `of`, whose server is asked in the way `way`. Where there is none, each conversion fails with that
    /// reason.
    pub(crate) fn new(of: HookedKind, way: Result<Way, String>) -> Hook {
        Hook(Arc::new(Asker { of, way }))
    }
}

impl Converter for Hook {
    fn convert(&self, batch: Batch, to: &Arc<WrittenAs>, trace: Option<&ActiveSpan>) -> Converting {
        if let Err(refused) = self.0.check_versions(&batch, to) {
            return converted(Err(refused));
        }
        let way = match &self.0.way {
            Ok(way) => way,
            Err(reason) => return converted(Err(Failure(reason.clone()))),
        };
        let question = self.0.question(way, &batch, to);
        drop(batch);
        Either::Right(self.0.clone().ask(question, trace.cloned()).boxed())
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn kept(&self) -> Option<&Arc<Kept>> {
        self.0.way.as_ref().ok().map(|way| &way.parts.kept)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("of", &self.0.of).finish_non_exhaustive()
    }
}

impl Asker {
    /// Refuses versions that the definition does not have any more.
    fn check_versions(&self, batch: &Batch, to: &WrittenAs) -> Result<(), Failure> {
        let api_version = |of: &WrittenAs| format!("{}/{}", self.of.group, of.version);
        let is_known = |of: &WrittenAs| self.of.versions.contains(&*of.version);
        if !is_known(to) {
            let to = api_version(to);
            return Err(Failure(format!("request to convert CR to an invalid group/version: {to}")));
        }
        match batch.iter().find(|piece| !is_known(&piece.written_as)) {
            None => Ok(()),
            Some(piece) => {
                let from = api_version(&piece.written_as);
                Err(Failure(format!("request to convert CR from an invalid group/version: {from}")))
            }
        }
    }

    fn question(&self, way: &Way, pieces: &[Piece], to: &Arc<WrittenAs>) -> Question {
        let uid = uuid_text(way.parts.ambient.random());
        let document = way.reviews.document(&uid, (&self.of.group, &self.of.kind), &to.version, pieces);
        let forms = pieces.iter().map(|piece| piece.written_as.clone()).collect();
        Question { uid, document, forms, to: to.clone() }
    }

    /// Asks `question`, or, where the answer would be too large, the halves of it, which have the time that is left.
    async fn ask(
        self: Arc<Self>,
        question: Question,
        trace: Option<ActiveSpan>,
    ) -> Result<Converted, Failure> {
        let mut answered = Converted::new();
        let began = self.elapsed();
        let mut left = TIMEOUT;
        // A stack of halves, the next one on top: it grows with the logarithm of the objects.
        let mut due = vec![question];
        while let Some(question) = due.pop() {
            match self.ask_once(&question, left, trace.as_ref()).await {
                Ok(objects) => answered.extend(objects),
                Err(None) => due.extend(self.halves(&question)?.into_iter().rev()),
                Err(Some(failure)) => return Err(failure),
            }
            left = TIMEOUT.saturating_sub(self.elapsed().saturating_sub(began));
            if left.is_zero()
                && let Some(next) = due.last()
            {
                return Err(self.failed(&next.forms[0], Breach::Call, LATE).1);
            }
        }
        Ok(answered)
    }

    /// The objects that the server answers `question` with in the time that is `left`. `Err(None)`: the answer is too large, and the
    /// question can be divided.
    async fn ask_once(
        &self,
        question: &Question,
        left: Duration,
        trace: Option<&ActiveSpan>,
    ) -> Result<Converted, Option<Failure>> {
        let Ok(Way { reviews, post, parts }) = &self.way else { return Ok(Converted::new()) };
        let from = &question.forms[0];
        let (began, span) = (parts.ambient.now(), trace.map(ActiveSpan::child));
        let posted = post.post(question.document.clone(), left, span.as_ref().map(ActiveSpan::context)).await;
        let result = match posted {
            Err(unposted) if unposted.is_too_large && question.forms.len() > 1 => {
                self.note_span(span, question, (began, parts.ambient.now()), Some("the answer is too large"));
                return Err(None);
            }
            Err(unposted) => Err(self.failed(from, Breach::Call, &unposted.reason)),
            Ok(answer) => self.judged(reviews, question, &answer),
        };
        let now = parts.ambient.now();
        let took = Duration::from_micros(now.0.saturating_sub(began.0));
        let breach = result.as_ref().err().map(|(breach, _)| *breach);
        self.note_span(span, question, (began, now), breach.map(Breach::name));
        let versions = (&*from.version, &*question.to.version);
        parts.measures.note(&self.of.definition, versions, breach, took);
        result.map_err(|(_, failure)| Some(failure))
    }

    /// Records the span of a question from `began` to `now`, with the reason of its failure.
    fn note_span(
        &self,
        span: Option<ActiveSpan>,
        question: &Question,
        (began, now): (Timestamp, Timestamp),
        failure: Option<&'static str>,
    ) {
        let Some(span) = span else { return };
        let ended = span
            .ended(SpanKind::Client, "conversion webhook", (began.0, now.0))
            .with_text("target", self.of.definition.clone())
            .with_number("objects", question.forms.len());
        match failure {
            Some(reason) => ended.with_failure(reason).record(),
            None => ended.record(),
        }
    }

    /// The clock of waits; zero where there is no server.
    fn elapsed(&self) -> Duration {
        self.way.as_ref().map_or(Duration::ZERO, |way| (way.parts.elapsed)())
    }

    /// Two questions for the halves of `question`.
    fn halves(&self, question: &Question) -> Result<Vec<Question>, Failure> {
        let Question { document, forms, to, .. } = question;
        let Ok(way) = &self.way else { return Ok(Vec::new()) };
        let objects: Vec<Value> = Reviews::objects_in(document)
            .map_err(|error| self.failed(&forms[0], Breach::Call, &error.to_string()).1)?;
        let pieces = forms.iter().cloned().zip(objects).map(|(written_as, mut object)| {
            unset(&mut object, "apiVersion");
            unset(&mut object, "kind");
            Piece { written_as, object }
        });
        let pieces: Vec<Piece> = pieces.collect();
        let (first, second) = pieces.split_at(pieces.len() / 2);
        Ok([first, second].map(|half| self.question(way, half, to)).into())
    }

    /// The objects in `answer`, each checked and with the metadata that it was sent with.
    fn judged(&self, reviews: &Reviews, question: &Question, answer: &[u8]) -> Result<Converted, Refused> {
        let Question { uid, document, forms, to } = question;
        let from = &forms[0];
        let objects = reviews.objects_of(uid, answer).map_err(|unanswered| match unanswered {
            Unanswered::NoReview(reason) => self.failed(from, Breach::Call, &reason),
            Unanswered::Refused(reason) => self.failed(from, Breach::Malformed, &reason),
        })?;
        let (given, asked) = (objects.len(), forms.len());
        if given != asked {
            // The others were answered for: told is what is left for one.
            let given = (given + 1).saturating_sub(asked);
            let text =
                format!("conversion webhook for {} returned {given} objects, expected 1", self.name(from));
            return Err((Breach::Partial, Failure(text)));
        }
        let api_version = format!("{}/{}", self.of.group, to.version);
        let expected = Expected { api_version: &api_version, kind: &self.of.kind };
        let mut converted = Converted::with_capacity(asked);
        let sent: Vec<Sent> = Reviews::objects_in(document)
            .map_err(|error| self.failed(from, Breach::Call, &error.to_string()))?;
        for (sent, object) in sent.into_iter().zip(objects) {
            let object = restored(expected, sent.metadata, object);
            converted.push(object.map_err(|fault| self.invalid(from, &fault))?);
        }
        Ok(converted)
    }

    /// The failure of a call, or of an answer as a whole.
    fn failed(&self, from: &WrittenAs, breach: Breach, reason: &str) -> Refused {
        let text = format!("conversion webhook for {} failed: {}", self.name(from), cut(reason));
        (breach, Failure(text))
    }

    /// The failure of one object, in the words for one that was sent alone: the reference asks about each object of a list, too.
    fn invalid(&self, from: &WrittenAs, fault: &Fault) -> Refused {
        let (told, reason) = match fault {
            Fault::Untyped(text) => return (Breach::Invalid, Failure(cut(text).to_owned())),
            Fault::Type(reason) => ("invalid object at index 0", reason),
            Fault::Identity(reason) => ("invalid object", reason),
            Fault::Metadata(reason) => ("invalid metadata", reason),
        };
        let text = format!("conversion webhook for {} returned {told}: {}", self.name(from), cut(reason));
        (Breach::Invalid, Failure(text))
    }

    /// The kind, in the version `of`, as texts name it.
    fn name(&self, of: &WrittenAs) -> String {
        named(&format!("{}/{}", self.of.group, of.version), &self.of.kind)
    }
}

fn cut(text: &str) -> &str {
    fitting(text, TOLD_BYTES_MAX)
}
