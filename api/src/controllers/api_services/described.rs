//! Asks aggregated servers what they serve, on every node, for discovery.
//!
//! Owns when each is asked: at first, when its APIService changes, each minute, and again and again while it does not answer. One
//! that hangs delays no other, and its document is stale meanwhile.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use orch_raft::{Change, State, Store};
use orch_schema::value::Value;

use super::super::client::Client;
use super::super::queue::Queue;
use super::super::rounds::{Progress, Queued, Round, Rounds, end};
use super::asking;
use crate::aggregation::described::{Description, of_aggregated, of_list, openapi_of_index};
use crate::aggregation::{API_SERVICES, Remote};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};
use crate::openapi::VERSION_3;
use crate::registry::discovery::{GROUP_STEM, LIST_KIND, VERSIONS};

/// Servers that are asked at the same time.
const AT_ONCE: usize = 32;

/// Time between two questions to a server that answers.
const ASK_EVERY: Duration = Duration::from_secs(60);

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
            }
            Some(describe(client, remote?))
        };
        rounds.start_all(due, ask).await?;
    }
}

async fn describe<S: Store>(client: &Client<S>, remote: Remote) -> Result<Progress, ApiError> {
    let descriptions = client.aggregation().descriptions();
    if !remote.is_available {
        descriptions.set(&remote.name, Description::Stale);
        // Its APIService changes when it is there.
        return Ok(Progress::Settled);
    }
    match ask(client, &remote).await {
        Some(resources) => {
            descriptions.set(&remote.name, Description::Current(resources));
            let index = asking::ask(client, &remote, (Method::GET, VERSION_3), "application/json").await;
            let index = index.filter(asking::Answer::is_success).and_then(|index| index.document);
            let url = index.and_then(|index| openapi_of_index(&index, &remote.path()));
            descriptions.set_openapi(&remote.name, url);
            Ok(Progress::After(ASK_EVERY))
        }
        None => {
            descriptions.set(&remote.name, Description::Stale);
            Ok(Progress::Waiting)
        }
    }
}

/// The resources that the server of `remote` tells of; `None`: it does not answer as it should.
async fn ask<S: Store>(client: &Client<S>, remote: &Remote) -> Option<Arc<[Value]>> {
    let group = client.registry().brand.group(GROUP_STEM);
    let forms = VERSIONS.map(|version| format!("application/json;g={group};v={version};as={LIST_KIND}"));
    let answer = asking::ask(client, remote, (Method::GET, "/apis"), &forms.join(",")).await?;
    if answer.code == 503 {
        return None;
    }
    // once: one text.
    if answer.is_success() && answer.content_type.contains(&format!("as={LIST_KIND}")) {
        return of_aggregated(&answer.document?, &remote.group, &remote.version);
    }
    let answer = asking::ask(client, remote, (Method::GET, &remote.path()), "application/json").await?;
    let api_version = format!("{}/{}", remote.group, remote.version);
    of_list(answer.document.as_ref().filter(|_| answer.is_success())?, &api_version)
}
