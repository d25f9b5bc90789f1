//! Questions of a converter to a server, with servers that note what they are asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use orch_proto::brand::ORCH;
use orch_raft::Revision;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_spans::{Parent, Text};
use parking_lot::Mutex;

use super::*;
use crate::ambient::SystemAmbient;
use crate::testing::{placed, spans_of};

/// Answers a document.
type Answering = Box<dyn Fn(&Value) -> Result<Value, Unposted> + Send + Sync>;

struct Fake {
    answer: Answering,
    asked: Arc<Mutex<Vec<Value>>>,
    /// The spans that the calls are.
    traces: Arc<Mutex<Vec<TraceContext>>>,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl Post for Fake {
    fn post(
        &self,
        document: Bytes,
        _: Duration,
        trace: Option<TraceContext>,
    ) -> BoxFuture<'static, Result<Bytes, Unposted>> {
        self.traces.lock().extend(trace);
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
    let post = Arc::new(Fake { answer: Box::new(answer), asked: asked.clone(), traces: Arc::default() });
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
    HookParts {
        ambient: Arc::new(SystemAmbient),
        elapsed: Arc::new(|| Duration::ZERO),
        kept: Arc::default(),
        measures: Arc::default(),
    }
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
    hook.convert(batch, &form(to), None).await.map_err(|Failure(text)| text)
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
    assert_eq!((request.text("desiredAPIVersion"), request.items("objects").len()), ("g.example.com/v2", 3));
    assert_eq!(request.items("objects")[1]["apiVersion"], "g.example.com/v1");
}

#[tokio::test]
async fn each_question_is_a_span_of_the_request_and_the_server_is_told_of_it() {
    let (place, _) = placed(0x75);
    let request = ActiveSpan::begin(Parent::Caller(place)).unwrap();
    let is_too_large = |document: &Value| document.at("request").items("objects").len() > 1;
    let traces = Arc::<Mutex<Vec<TraceContext>>>::default();
    let answer = move |document: &Value| match is_too_large(document) {
        true => Err(Unposted { reason: "large".to_owned(), is_too_large: true }),
        false => Ok(right(document, |_, _| {})),
    };
    let post = Arc::new(Fake { answer: Box::new(answer), asked: Arc::default(), traces: traces.clone() });
    let way = Reviews::of(&ORCH, &["v1"]).map(|reviews| Way { reviews, post, parts: parts() });
    let hook = Hook::new(widgets(), way);
    hook.convert(pieces(2), &form("v2"), Some(&request)).await.unwrap();
    let spans = spans_of(0x75);
    assert!(spans.iter().all(|span| span.name == "conversion webhook"), "{spans:#?}");
    assert!(spans.iter().all(|span| span.parent == Some(request.context().span_id)), "{spans:#?}");
    let failures = spans.iter().map(|span| span.failure.as_ref().map(Text::as_str));
    assert_eq!(failures.collect::<Vec<_>>(), [Some("the answer is too large"), None, None]);
    assert!(format!("{:?}", spans[0].attributes).contains("widgets.g.example.com"), "{spans:#?}");
    assert_eq!(*traces.lock(), spans.iter().map(|span| span.context.clone()).collect::<Vec<_>>());
    // Without a trace the same questions have no spans.
    hook.convert(pieces(2), &form("v2"), None).await.unwrap();
    assert_eq!((spans_of(0x75).len(), traces.lock().len()), (3, 3));
}

/// A clock that the answers of a test move.
#[derive(Debug, Default)]
struct Moved(AtomicUsize);

/// A server whose answers are too large and take 11 seconds each. It notes the time that it is given, in seconds.
#[derive(Debug)]
struct Slow(Arc<Moved>, Arc<Mutex<Vec<u64>>>);

impl Post for Slow {
    fn post(
        &self,
        _: Bytes,
        timeout: Duration,
        _: Option<TraceContext>,
    ) -> BoxFuture<'static, Result<Bytes, Unposted>> {
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
    let elapsed = Arc::new(move || Duration::from_micros(clock.0.load(Ordering::Relaxed) as u64));
    let parts = HookParts { elapsed, ..parts() };
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
    // As if each had been asked about alone.
    assert_eq!(
        ask(&fewer, pieces(5), "v2").await.unwrap_err(),
        format!("{OF} returned 0 objects, expected 1")
    );
}

#[tokio::test]
async fn an_object_that_is_refused_is_told_as_if_it_were_alone() {
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
        (refusal(1, kind(0)).await, "invalid object at index 0: invalid kind (expected Widget, received G)"),
        (refusal(3, kind(2)).await, "invalid object at index 0: invalid kind (expected Widget, received G)"),
        (refusal(1, name(0)).await, "invalid object: must have the same name: w0 != b"),
        (refusal(3, name(1)).await, "invalid object: must have the same name: w1 != b"),
        (
            refusal(1, label(0)).await,
            "invalid metadata: invalid metadata.labels of type int64 in converted object",
        ),
        (
            refusal(3, label(1)).await,
            "invalid metadata: invalid metadata.labels of type int64 in converted object",
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
    let told = "request to convert CR from an invalid group/version: g.example.com/v0";
    assert_eq!(text, told);
    let text = ask(&hook, batch.drain(2..).collect(), "v2").await.unwrap_err();
    assert_eq!(text, told);
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
    assert_eq!(text, "no supported conversion review versions");
}
