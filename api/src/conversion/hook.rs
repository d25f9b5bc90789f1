//! The converter of a definition with a conversion webhook: another server is asked once for each batch.
//!
//! Owns the question and the words in which each failure is told. It opens no connection: whoever posts documents is handed in. A
//! question that fails is not asked again; one whose answer is too large for this server is asked in halves.
//!
//! Invariant: while it waits it holds the document's bytes and no tree: what a server that hangs costs is bounded by them.
//!
//! The question ends with the request that asks it, and otherwise after [`TIMEOUT`], whatever time the request has left.
//!
//! Source of texts and order: facts/extension.md 3.

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

use super::kept::Kept;
use super::measures::{Breach, Measures};
use super::restored::{Expected, Fault, restored};
use super::review::{Reviews, Sent, Unanswered, named};
use super::{Batch, Converted, Converter, Converting, Failure, Piece, converted};
use crate::ambient::{Ambient, Timestamp, uuid_text};

/// Longest wait for the answer to a batch, however many questions it takes: the reference's for its one.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The reason where the time is over, as of a call that has no answer.
const LATE: &str = "context deadline exceeded";

/// Bytes of a text that another server has written into a failure: some pages, where the reference repeats all.
const TOLD_BYTES_MAX: usize = 4096;

/// Posts documents to one server.
pub(crate) trait Post: fmt::Debug + Send + Sync {
    /// Posts `document` and gives the whole answer of status 200, within `timeout`.
    fn post(&self, document: Bytes, timeout: Duration) -> BoxFuture<'static, Result<Bytes, Unposted>>;
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

/// What all hooks of a node share. Clones share it.
#[derive(Clone)]
pub(crate) struct HookParts {
    /// For uids and durations.
    pub(crate) ambient: Arc<dyn Ambient>,
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
    /// What it shares with others.
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
    fn convert(&self, batch: Batch, to: &Arc<WrittenAs>) -> Converting {
        if let Err(refused) = self.0.check_versions(&batch, to) {
            return converted(Err(refused));
        }
        let way = match &self.0.way {
            Ok(way) => way,
            Err(reason) => {
                return converted(Err(self.0.failed(&batch[0].written_as, Breach::Call, reason).1));
            }
        };
        let question = self.0.question(way, &batch, to);
        drop(batch);
        Either::Right(self.0.clone().ask(question).boxed())
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
        let unknown = batch.iter().enumerate().find(|(_, piece)| !is_known(&piece.written_as));
        let Some((at, piece)) = unknown else { return Ok(()) };
        let from = api_version(&piece.written_as);
        Err(Failure(match batch.len() {
            1 => format!("request to convert CR from an invalid group/version: {from}"),
            _ => format!(
                "request to convert CR list failed, list index {at} has invalid group/version: {from}"
            ),
        }))
    }

    fn question(&self, way: &Way, pieces: &[Piece], to: &Arc<WrittenAs>) -> Question {
        let uid = uuid_text(way.parts.ambient.random());
        let document = way.reviews.document(&uid, (&self.of.group, &self.of.kind), &to.version, pieces);
        let forms = pieces.iter().map(|piece| piece.written_as.clone()).collect();
        Question { uid, document, forms, to: to.clone() }
    }

    /// Asks `question`, or, where the answer would be too large, the halves of it, which have the time that is left.
    async fn ask(self: Arc<Self>, question: Question) -> Result<Converted, Failure> {
        let mut answered = Converted::new();
        let began = self.now();
        let mut left = TIMEOUT;
        // A stack of halves, the next one on top: it grows with the logarithm of the objects.
        let mut due = vec![question];
        while let Some(question) = due.pop() {
            match self.ask_once(&question, left, answered.len()).await {
                Ok(objects) => answered.extend(objects),
                Err(None) => due.extend(self.halves(&question)?.into_iter().rev()),
                Err(Some(failure)) => return Err(failure),
            }
            left = TIMEOUT.saturating_sub(Duration::from_micros(self.now().0.saturating_sub(began.0)));
            if left.is_zero()
                && let Some(next) = due.last()
            {
                return Err(self.failed(&next.forms[0], Breach::Call, LATE).1);
            }
        }
        Ok(answered)
    }

    /// The objects that the server answers `question` with in the time that is `left`, of which `before` others were sent in earlier halves. `Err(None)`: the
    /// answer is too large, and the question can be divided.
    async fn ask_once(
        &self,
        question: &Question,
        left: Duration,
        before: usize,
    ) -> Result<Converted, Option<Failure>> {
        let Ok(Way { reviews, post, parts }) = &self.way else { return Ok(Converted::new()) };
        let from = &question.forms[0];
        let began = parts.ambient.now();
        let posted = post.post(question.document.clone(), left).await;
        let result = match posted {
            Err(unposted) if unposted.is_too_large && question.forms.len() > 1 => return Err(None),
            Err(unposted) => Err(self.failed(from, Breach::Call, &unposted.reason)),
            Ok(answer) => self.judged(reviews, question, &answer, before),
        };
        let took = Duration::from_micros(parts.ambient.now().0.saturating_sub(began.0));
        let breach = result.as_ref().err().map(|(breach, _)| *breach);
        let versions = (&*from.version, &*question.to.version);
        parts.measures.note(&self.of.definition, versions, breach, took);
        result.map_err(|(_, failure)| Some(failure))
    }

    /// The time of day, by which the questions of one batch are bounded together; the epoch where there is no server.
    fn now(&self) -> Timestamp {
        self.way.as_ref().map(|way| way.parts.ambient.now()).unwrap_or_default()
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
    fn judged(
        &self,
        reviews: &Reviews,
        question: &Question,
        answer: &[u8],
        before: usize,
    ) -> Result<Converted, Refused> {
        let Question { uid, document, forms, to } = question;
        let from = &forms[0];
        let objects = reviews.objects_of(uid, answer).map_err(|unanswered| match unanswered {
            Unanswered::NoReview(reason) => self.failed(from, Breach::Call, &reason),
            Unanswered::Refused(reason) => self.failed(from, Breach::Malformed, &reason),
        })?;
        let (given, asked) = (objects.len(), forms.len());
        if given != asked {
            let text = format!(
                "conversion webhook for {} returned {given} objects, expected {asked}",
                self.name(from)
            );
            return Err((Breach::Partial, Failure(text)));
        }
        let api_version = format!("{}/{}", self.of.group, to.version);
        let expected = Expected { api_version: &api_version, kind: &self.of.kind };
        let is_single = asked == 1 && before == 0;
        let mut converted = Converted::with_capacity(asked);
        let sent: Vec<Sent> = Reviews::objects_in(document)
            .map_err(|error| self.failed(from, Breach::Call, &error.to_string()))?;
        for (at, (sent, object)) in sent.into_iter().zip(objects).enumerate() {
            let place = (!is_single).then_some(before + at);
            let object = restored(expected, sent.metadata, object);
            converted.push(object.map_err(|fault| self.invalid(from, place, fault))?);
        }
        Ok(converted)
    }

    /// The failure of a call, or of an answer as a whole.
    fn failed(&self, from: &WrittenAs, breach: Breach, reason: &str) -> Refused {
        let text = format!("conversion webhook for {} failed: {}", self.name(from), cut(reason));
        (breach, Failure(text))
    }

    /// The failure of one object: of the only one, or of that at a `place` among many.
    fn invalid(&self, from: &WrittenAs, place: Option<usize>, fault: Fault) -> Refused {
        let told = match (place, &fault) {
            (None, Fault::Type(_)) => "invalid object at index 0".to_owned(),
            (None, Fault::Identity(_)) => "invalid object".to_owned(),
            (None, Fault::Metadata(_)) => "invalid metadata".to_owned(),
            (Some(at), Fault::Type(_) | Fault::Identity(_)) => {
                format!("invalid converted object at index {at}")
            }
            (Some(at), Fault::Metadata(_)) => format!("invalid metadata in object at index {at}"),
        };
        let (Fault::Type(reason) | Fault::Identity(reason) | Fault::Metadata(reason)) = fault;
        let text = format!("conversion webhook for {} returned {told}: {}", self.name(from), cut(&reason));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use orch_proto::brand::ORCH;
    use orch_raft::Revision;
    use orch_rules::validate::tree::Tree;
    use orch_schema::json;
    use parking_lot::Mutex;

    use super::*;
    use crate::ambient::SystemAmbient;

    /// Answers a document.
    type Answering = Box<dyn Fn(&Value) -> Result<Value, Unposted> + Send + Sync>;

    struct Fake {
        answer: Answering,
        asked: Arc<Mutex<Vec<Value>>>,
    }

    impl fmt::Debug for Fake {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Fake")
        }
    }

    impl Post for Fake {
        fn post(&self, document: Bytes, _: Duration) -> BoxFuture<'static, Result<Bytes, Unposted>> {
            let document: Value = serde_json::from_slice(&document).unwrap();
            let answer = (self.answer)(&document).map(|answer| Bytes::from(answer.to_string()));
            self.asked.lock().push(document);
            std::future::ready(answer).boxed()
        }
    }

    /// A hook of widgets in `v1` and `v2`, and the documents that it has posted.
    fn hook(
        answer: impl Fn(&Value) -> Result<Value, Unposted> + Send + Sync + 'static,
    ) -> (Hook, Arc<Mutex<Vec<Value>>>) {
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let post = Arc::new(Fake { answer: Box::new(answer), asked: asked.clone() });
        let way = Reviews::of(&ORCH, &["v1"]).map(|reviews| Way { reviews, post, parts: parts() });
        (Hook::new(widgets(), way), asked)
    }

    fn widgets() -> HookedKind {
        HookedKind {
            definition: "widgets.g.example.com".to_owned(),
            group: "g.example.com".to_owned(),
            kind: "Widget".to_owned(),
            versions: ["v1".to_owned(), "v2".to_owned()].into(),
        }
    }

    fn parts() -> HookParts {
        HookParts { ambient: Arc::new(SystemAmbient), kept: Arc::default(), measures: Arc::default() }
    }

    fn form(version: &str) -> Arc<WrittenAs> {
        Arc::new(WrittenAs { version: version.into(), definition: Revision(1) })
    }

    fn pieces(count: usize) -> Batch {
        let object =
            |at: usize| json!({"metadata": {"name": format!("w{at}"), "uid": "u"}, "spec": {"size": at}});
        (0..count).map(|at| Piece { written_as: form("v1"), object: object(at) }).collect()
    }

    /// The answer of a server that changes the version and `change` of each object.
    fn right(document: &Value, change: impl Fn(usize, &mut Value)) -> Value {
        let request = document.at("request");
        let mut objects = request.items("objects").to_vec();
        for (at, object) in objects.iter_mut().enumerate() {
            object["apiVersion"] = json!("g.example.com/v2");
            change(at, object);
        }
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.orch.io/v1",
            "response": {"uid": request["uid"].clone(), "result": {"status": "Success"}, "convertedObjects": objects}})
    }

    async fn ask(hook: &Hook, batch: Batch, to: &str) -> Result<Converted, String> {
        hook.convert(batch, &form(to)).await.map_err(|Failure(text)| text)
    }

    async fn refusal(count: usize, change: impl Fn(usize, &mut Value) + Send + Sync + 'static) -> String {
        let (hook, _) = hook(move |document| Ok(right(document, &change)));
        ask(&hook, pieces(count), "v2").await.unwrap_err()
    }

    #[tokio::test]
    async fn objects_come_back_in_order_with_their_own_metadata() {
        let (hook, asked) = hook(|document| {
            Ok(right(document, |at, object| {
                object["spec"] = json!({"replicas": at});
                object["metadata"]["generation"] = json!(9);
            }))
        });
        let converted = ask(&hook, pieces(3), "v2").await.unwrap();
        let expected =
            |at: usize| json!({"metadata": {"name": format!("w{at}"), "uid": "u"}, "spec": {"replicas": at}});
        assert_eq!(converted.to_vec(), (0..3).map(expected).collect::<Vec<_>>());
        let asked = asked.lock();
        assert_eq!(asked.len(), 1, "one question for the batch");
        let request = asked[0].at("request");
        assert_eq!(
            (request.text("desiredAPIVersion"), request.items("objects").len()),
            ("g.example.com/v2", 3)
        );
        assert_eq!(request.items("objects")[1]["apiVersion"], "g.example.com/v1");
    }

    /// A clock that the answers of a test move.
    #[derive(Debug, Default)]
    struct Moved(AtomicUsize);

    impl Ambient for Moved {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed) as u64)
        }

        fn random(&self) -> u128 {
            7
        }
    }

    /// A server whose answers are too large and take 11 seconds each. It notes the time that it is given, in seconds.
    #[derive(Debug)]
    struct Slow(Arc<Moved>, Arc<Mutex<Vec<u64>>>);

    impl Post for Slow {
        fn post(&self, _: Bytes, timeout: Duration) -> BoxFuture<'static, Result<Bytes, Unposted>> {
            self.1.lock().push(timeout.as_secs());
            self.0.0.fetch_add(11_000_000, Ordering::Relaxed);
            let unposted = Unposted { reason: "large".to_owned(), is_too_large: true };
            std::future::ready(Err(unposted)).boxed()
        }
    }

    #[tokio::test]
    async fn the_halves_of_a_batch_have_the_time_that_is_left() {
        let (clock, given) = (Arc::new(Moved::default()), Arc::<Mutex<Vec<u64>>>::default());
        let post = Arc::new(Slow(clock.clone(), given.clone()));
        let parts = HookParts { ambient: clock, ..parts() };
        let way = Reviews::of(&ORCH, &["v1"]).map(|reviews| Way { reviews, post, parts });
        let text = ask(&Hook::new(widgets(), way), pieces(1000), "v2").await.unwrap_err();
        assert_eq!(
            text,
            "conversion webhook for g.example.com/v1, Kind=Widget failed: context deadline exceeded"
        );
        assert_eq!(*given.lock(), [30, 19, 8]);
    }

    #[tokio::test]
    async fn a_failure_is_told_in_the_references_words() {
        const OF: &str = "conversion webhook for g.example.com/v1, Kind=Widget";
        let (broken, _) = hook(|_| Err(Unposted { reason: "no route".to_owned(), is_too_large: false }));
        assert_eq!(ask(&broken, pieces(1), "v2").await.unwrap_err(), format!("{OF} failed: no route"));
        let (refusing, _) =
            hook(|_| Ok(json!({"kind": "ConversionReview", "apiVersion": "apiextensions.orch.io/v1"})));
        assert_eq!(
            ask(&refusing, pieces(1), "v2").await.unwrap_err(),
            format!("{OF} failed: no response provided")
        );
        let (garbage, _) = hook(|_| Ok(json!("garbage")));
        let text = ask(&garbage, pieces(2), "v2").await.unwrap_err();
        assert!(text.starts_with(&format!("{OF} failed: the answer is no ConversionReview: ")), "{text}");
        let (fewer, _) = hook(|document| {
            let mut answer = right(document, |_, _| {});
            answer["response"]["convertedObjects"].as_array_mut().unwrap().pop();
            Ok(answer)
        });
        assert_eq!(
            ask(&fewer, pieces(1), "v2").await.unwrap_err(),
            format!("{OF} returned 0 objects, expected 1")
        );
        assert_eq!(
            ask(&fewer, pieces(5), "v2").await.unwrap_err(),
            format!("{OF} returned 4 objects, expected 5")
        );
    }

    #[tokio::test]
    async fn an_object_that_is_refused_is_told_with_its_place_among_many() {
        const OF: &str = "conversion webhook for g.example.com/v1, Kind=Widget";
        let kind = |at: usize| {
            move |place: usize, object: &mut Value| {
                if place == at {
                    object["kind"] = json!("G")
                }
            }
        };
        let name = |at: usize| {
            move |place: usize, object: &mut Value| {
                if place == at {
                    object["metadata"]["name"] = json!("b")
                }
            }
        };
        let label = |at: usize| {
            move |place: usize, object: &mut Value| {
                if place == at {
                    object["metadata"]["labels"] = json!(1)
                }
            }
        };
        for (text, expected) in [
            (
                refusal(1, kind(0)).await,
                "invalid object at index 0: invalid kind (expected Widget, received G)",
            ),
            (
                refusal(3, kind(2)).await,
                "invalid converted object at index 2: invalid kind (expected Widget, received G)",
            ),
            (refusal(1, name(0)).await, "invalid object: must have the same name: w0 != b"),
            (
                refusal(3, name(1)).await,
                "invalid converted object at index 1: must have the same name: w1 != b",
            ),
            (
                refusal(1, label(0)).await,
                "invalid metadata: invalid metadata.labels of type int64 in converted object",
            ),
            (
                refusal(3, label(1)).await,
                "invalid metadata in object at index 1: invalid metadata.labels of type int64 in converted object",
            ),
        ] {
            assert_eq!(text, format!("{OF} returned {expected}"));
        }
    }

    #[tokio::test]
    async fn a_version_that_the_definition_lacks_is_asked_for_nobody() {
        let (hook, asked) = hook(|document| Ok(right(document, |_, _| {})));
        let text = ask(&hook, pieces(1), "v3").await.unwrap_err();
        assert_eq!(text, "request to convert CR to an invalid group/version: g.example.com/v3");
        let mut batch = pieces(3);
        batch[2].written_as = form("v0");
        let text = ask(&hook, batch.clone(), "v2").await.unwrap_err();
        let told =
            "request to convert CR list failed, list index 2 has invalid group/version: g.example.com/v0";
        assert_eq!(text, told);
        let text = ask(&hook, batch.drain(2..).collect(), "v2").await.unwrap_err();
        assert_eq!(text, "request to convert CR from an invalid group/version: g.example.com/v0");
        assert!(asked.lock().is_empty());
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_is_asked_for_in_halves() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let (hook, _) = hook(move |document| {
            counted.fetch_add(1, Ordering::SeqCst);
            match document.at("request").items("objects").len() {
                0..=2 => Ok(right(document, |_, object| object["spec"] = json!({}))),
                _ => Err(Unposted { reason: "the answer is too large".to_owned(), is_too_large: true }),
            }
        });
        let converted = ask(&hook, pieces(5), "v2").await.unwrap();
        let names: Vec<&str> = converted.iter().map(|object| object.at("metadata").text("name")).collect();
        assert_eq!(names, ["w0", "w1", "w2", "w3", "w4"]);
        // 5 -> 2 + 3, 3 -> 1 + 2.
        assert_eq!(calls.load(Ordering::SeqCst), 5);
        let (huge, _) = self::hook(|_| Err(Unposted { reason: "too large".to_owned(), is_too_large: true }));
        let text = ask(&huge, pieces(4), "v2").await.unwrap_err();
        assert_eq!(text, "conversion webhook for g.example.com/v1, Kind=Widget failed: too large");
    }

    #[tokio::test]
    async fn a_long_text_of_another_server_is_cut() {
        let (hook, _) = hook(|document| {
            let mut answer = right(document, |_, _| {});
            answer["response"]["result"] = json!({"status": "Failure", "message": "x".repeat(1 << 20)});
            Ok(answer)
        });
        assert!(ask(&hook, pieces(1), "v2").await.unwrap_err().len() < 2 * TOLD_BYTES_MAX);
    }

    #[tokio::test]
    async fn where_nobody_can_be_asked_each_conversion_says_why() {
        let hook = Hook::new(widgets(), Err("no supported conversion review versions".to_owned()));
        let text = ask(&hook, pieces(1), "v2").await.unwrap_err();
        let told = "conversion webhook for g.example.com/v1, Kind=Widget failed: no supported conversion review versions";
        assert_eq!(text, told);
    }
}
