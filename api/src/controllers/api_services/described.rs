//! Asks aggregated servers what they serve, on every node, for discovery.
//!
//! Owns when each is asked: at first, when its APIService changes, each minute, and again and again while it does not answer. One
//! that hangs delays no other, and its document is stale meanwhile. So are OpenAPI documents read: where a server has none of
//! version 3, one is made of its document of version 2. Documents are read one after the other, because each takes many times
//! its bytes meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use orch_bounded::WarningLimit;
use orch_raft::{Change, State, Store};
use orch_schema::value::Value;
use tokio::sync::Semaphore;

use super::super::client::Client;
use super::super::queue::Queue;
use super::super::rounds::{Progress, Queued, Round, Rounds, end};
use super::asking::{self, Unread};
use crate::aggregation::described::{Description, Undescribed, of_aggregated, of_list, openapi_of_index};
use crate::aggregation::openapi::Kept;
use crate::aggregation::{API_SERVICES, Remote};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};
use crate::openapi::{VERSION_2, VERSION_3};
use crate::registry::discovery::{GROUP_STEM, LIST_KIND, VERSIONS};

/// Servers that are asked at the same time.
const AT_ONCE: usize = 32;

/// Time between two questions to a server that answers.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// Limits the warnings about servers whose documents clients could not decode.
static GARBLED: WarningLimit = WarningLimit::new();

/// The APIServices to ask for.
struct Work {
    sources: [Arc<str>; 1],
    queue: Queue<Arc<str>>,
}

impl Derived for Work {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.queue.add(&change.path, Duration::ZERO);
    }

    fn rebuild(&mut self, state: &State) {
        for (name, _) in state.collection(API_SERVICES).range_from("") {
            self.queue.add(name, Duration::ZERO);
        }
    }
}

impl Queued for Work {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// Keeps the documents of this node. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let mut queue = Queue::default();
    queue.advance(client.store().elapsed());
    let work = Work { sources: [API_SERVICES.into()], queue };
    let reading = Semaphore::new(1);
    let reading = &reading;
    let mut rounds =
        Rounds::new((client, "aggregated_server_documents"), work.sources.clone(), work, AT_ONCE).await?;
    loop {
        let ended = |work: &mut Work, name: &Arc<str>, result| {
            end(client, &mut work.queue, (name, name), result, "an aggregated server cannot be asked yet");
        };
        let Round { due, .. } = rounds.next(ended).await;
        let ask = |_: &mut Work, applied: &Applied, name: &Arc<str>| {
            let stored = applied.state.collection(API_SERVICES);
            let object =
                stored.get(name).and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
            let remote = object.and_then(|object| Remote::of(name, &object));
            if remote.is_none() {
                client.aggregation().descriptions().remove(name);
                client.aggregation().documents().set(name, None);
            }
            Some(describe(client, remote?, reading))
        };
        rounds.start_all(due, ask).await?;
    }
}

async fn describe<S: Store>(
    client: &Client<S>,
    remote: Remote,
    reading: &Semaphore,
) -> Result<Progress, ApiError> {
    let descriptions = client.aggregation().descriptions();
    if !remote.is_available {
        descriptions.set(&remote.name, Description::Stale);
        // Its APIService changes when it is there.
        return Ok(Progress::Settled);
    }
    match ask(client, &remote).await {
        Ok(resources) => {
            descriptions.set(&remote.name, Description::Current(resources));
            let index = asking::ask(client, &remote, (Method::GET, VERSION_3), "application/json").await;
            let index = index.filter(asking::Answer::is_success).and_then(|index| index.document);
            let url = index.and_then(|index| openapi_of_index(&index, &remote.path()));
            let makes_version3 = url.is_none();
            descriptions.set_openapi(&remote.name, url);
            read_version2(client, &remote, makes_version3, reading).await;
            Ok(Progress::After(ASK_EVERY))
        }
        Err(reason) => {
            let is_new = descriptions.set(&remote.name, Description::Stale);
            if let Undescribed::Garbled(fault) = reason
                && is_new
                && let Some(left_out) = GARBLED.pass()
            {
                tracing::warn!(name = &*remote.name, fault, left_out, "clients could not decode a document");
            }
            Ok(Progress::Waiting)
        }
    }
}

/// Reads the server's OpenAPI document of version 2 again, if it has changed. `makes_version3`: it has none of version 3. One that
/// does not answer keeps its last document.
async fn read_version2<S: Store>(
    client: &Client<S>,
    remote: &Remote,
    makes_version3: bool,
    reading: &Semaphore,
) {
    let documents = client.aggregation().documents();
    let known = documents.etag(&remote.name).filter(|(_, is_made)| *is_made == makes_version3);
    let etag = known.map(|(etag, _)| etag).unwrap_or_default();
    let accept = ("application/json", etag.as_str());
    let answer = asking::ask_unless(client, remote, (Method::GET, VERSION_2), accept).await;
    let Some(Unread { code, etag, body, .. }) = answer else { return };
    match (code, body) {
        (200, Some(body)) => {
            // An error means that the semaphore was closed, which it never is.
            let _reading = reading.acquire().await;
            let (path, brand) = (remote.path(), client.registry().brand);
            let read = move || Kept::of((&body[..], etag.as_str()), &path, makes_version3, brand);
            // An error means that the runtime ends.
            if let Ok(kept) = tokio::task::spawn_blocking(read).await {
                documents.set(&remote.name, kept);
            }
        }
        (404, _) => documents.set(&remote.name, None),
        _ => {}
    }
}

/// The resources that the server of `remote` tells of.
///
/// # Errors
/// It does not answer as it should.
async fn ask<S: Store>(client: &Client<S>, remote: &Remote) -> Result<Arc<[Value]>, Undescribed> {
    let absent = Undescribed::Absent;
    let group = client.registry().brand.group(GROUP_STEM);
    let forms = VERSIONS.map(|version| format!("application/json;g={group};v={version};as={LIST_KIND}"));
    let answer = asking::ask(client, remote, (Method::GET, "/apis"), &forms.join(",")).await;
    let answer = answer.ok_or(absent)?;
    if answer.code == 503 {
        return Err(absent);
    }
    // once: one text.
    if answer.is_success() && answer.content_type.contains(&format!("as={LIST_KIND}")) {
        return of_aggregated(&answer.document.ok_or(absent)?, &remote.group, &remote.version);
    }
    let answer = asking::ask(client, remote, (Method::GET, &remote.path()), "application/json").await;
    let answer = answer.ok_or(absent)?;
    let api_version = format!("{}/{}", remote.group, remote.version);
    of_list(answer.document.as_ref().filter(|_| answer.is_success()).ok_or(absent)?, &api_version)
}
