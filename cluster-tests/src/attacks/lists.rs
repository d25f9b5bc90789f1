//! Lists of a large collection in forms that are rendered, and watches of it in the same forms while it changes. Further
//! watches resume at the beginning of the history, again and again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use orch_proto::brand::ORCH;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::report::status_counts;
use super::stage::{Stage, TENANT};
use crate::client::Client;

/// Objects of the collection, and bytes of the text of each: eight megabytes.
const EVENTS: usize = 8_000;
const MESSAGE_BYTES: usize = 1_000;
/// Clients that make them.
const MAKERS: usize = 16;
/// Clients of each form that list, that watch, and that resume.
const LISTERS: usize = 2;
const WATCHERS: usize = 50;
const RESUMING: usize = 4;
/// Duration of the attack.
const ATTACK: Duration = Duration::from_secs(20);
/// Time between two changes, and time for which a resumed watch is read.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);
const RESUMED: Duration = Duration::from_millis(500);
/// Longest wait of an attacker, longer than the server's limit of a request.
const WAIT_MAX: Duration = Duration::from_secs(90);

/// A form in which the collection is read.
#[derive(Clone, Debug)]
struct Form {
    path: String,
    /// `Accept` of lists and of watches.
    of_lists: String,
    of_watches: String,
}

/// Statuses and number of bytes of the answers to an attacker.
#[derive(Debug, Default)]
struct Answers {
    statuses: Vec<u16>,
    bytes: usize,
}

fn collection() -> String {
    format!("/api/v1/namespaces/{TENANT}/events")
}

/// A table, metadata, the other group's version, and that in Protobuf.
fn forms() -> [Form; 4] {
    let converted = format!("/apis/{}/v1/namespaces/{TENANT}/events", ORCH.group("events"));
    let view = |view: &str| format!("application/json;as={view};g={};v=v1", ORCH.group("meta"));
    let form = |path: String, of_lists: String, of_watches: String| Form { path, of_lists, of_watches };
    let (json, protobuf) = ("application/json".to_owned(), ORCH.protobuf_media_type.to_owned());
    [
        form(collection(), view("Table"), view("Table")),
        form(collection(), view("PartialObjectMetadataList"), view("PartialObjectMetadata")),
        form(converted.clone(), json.clone(), json),
        form(converted, protobuf.clone(), protobuf),
    ]
}

/// A cluster whose tenant has many events.
pub(super) async fn prepare() -> Result<Stage> {
    let stage = Stage::start(Vec::new()).await?;
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let tenant = stage.tenant.with_timeout(WAIT_MAX);
        makers.spawn(async move {
            for number in (maker..EVENTS).step_by(MAKERS) {
                tenant.post(&collection(), &event(number)).await?.success()?;
            }
            anyhow::Ok(())
        });
    }
    makers
        .join_all()
        .await
        .into_iter()
        .collect::<Result<Vec<()>>>()
        .context("the events are not accepted")?;
    Ok(stage)
}

fn event(number: usize) -> serde_json::Value {
    json!({
        "metadata": {"name": format!("e{number}")},
        "involvedObject": {"kind": "Pod", "namespace": TENANT, "name": "p"},
        "reason": "Attacked", "type": "Normal", "message": "m".repeat(MESSAGE_BYTES),
    })
}

/// Lists, watches and changes the events.
pub(super) async fn attack(stage: &Stage) -> Result<String> {
    let client = stage.tenant.with_timeout(WAIT_MAX);
    let list = client.get(&format!("{}?limit=1", collection())).await?.success()?;
    let newest = list["metadata"]["resourceVersion"].as_str().context("the list has no version")?.to_owned();
    let first =
        list["items"][0]["metadata"]["resourceVersion"].as_str().context("there is no event")?.to_owned();
    let until = Instant::now() + ATTACK;
    let (mut lists, mut watches, mut resumes) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    for form in forms() {
        for _ in 0..LISTERS {
            lists.spawn(keep_listing(client.clone(), form.clone(), until));
        }
        for _ in 0..WATCHERS {
            watches.spawn(watch(client.clone(), form.clone(), newest.clone(), until));
        }
        for _ in 0..RESUMING {
            resumes.spawn(keep_resuming(client.clone(), form.clone(), first.clone(), until));
        }
    }
    let changes = change(&client, until).await?;
    let [lists, watches, resumes] =
        [lists.join_all().await, watches.join_all().await, resumes.join_all().await].map(told);
    Ok(format!("lists: {lists}; watches: {watches}; resumes: {resumes}; {changes} changes"))
}

fn told(answers: Vec<Answers>) -> String {
    let megabytes = answers.iter().map(|answers| answers.bytes).sum::<usize>() / 1_000_000;
    let statuses = answers.into_iter().flat_map(|answers| answers.statuses);
    format!("{}, {megabytes} MB", status_counts(statuses))
}

/// Changes one event after the other, and returns how many.
async fn change(client: &Client, until: Instant) -> Result<usize> {
    let mut number = 0;
    while Instant::now() < until {
        let patch = json!({"metadata": {"labels": {"number": number.to_string()}}});
        client.merge_patch(&format!("{}/e{}", collection(), number % EVENTS), &patch).await?.success()?;
        number += 1;
        sleep(CHANGE_INTERVAL).await;
    }
    Ok(number)
}

async fn keep_listing(client: Client, form: Form, until: Instant) -> Answers {
    let mut answers = Answers::default();
    while Instant::now() < until {
        let headers = [("accept", form.of_lists.as_str())];
        let answer = client.send(Method::GET, &form.path, &headers, Bytes::new()).await;
        answers.statuses.push(answer.as_ref().map_or(0, |answer| answer.status));
        answers.bytes += answer.map_or(0, |answer| answer.body.len());
    }
    answers
}

async fn keep_resuming(client: Client, form: Form, from: String, until: Instant) -> Answers {
    let mut all = Answers::default();
    while Instant::now() < until {
        let end = until.min(Instant::now() + RESUMED);
        let answers = watch(client.clone(), form.clone(), from.clone(), end).await;
        all.statuses.extend(answers.statuses);
        all.bytes += answers.bytes;
    }
    all
}

/// Reads a watch from the version `from` on, until it ends.
async fn watch(client: Client, form: Form, from: String, until: Instant) -> Answers {
    let path = format!("{}?watch=1&resourceVersion={from}", form.path);
    let headers = [("accept", form.of_watches.as_str())];
    let opening = client.start(Method::GET, &path, &headers, Bytes::new());
    let Ok(Ok((_connection, answer))) = timeout(WAIT_MAX, opening).await else {
        return Answers { statuses: vec![0], bytes: 0 };
    };
    let mut answers = Answers { statuses: vec![answer.status().as_u16()], bytes: 0 };
    let mut body = answer.into_body();
    let left = until.saturating_duration_since(Instant::now());
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            answers.bytes += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // A watch that goes on is left.
    let _ = timeout(left, read).await;
    answers
}
