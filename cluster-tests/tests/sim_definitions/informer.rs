//! Informers of custom objects: they list, watch from there, resume at other members, and list again where the history or the kind
//! has gone.
//!
//! Owns the copy of each, and the check that every event fits it. At the end of a run each copy equals the collection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::requests::request_with;
use orch_cluster_tests::sim::runtime::NodeRuntime;
use orch_cluster_tests::sim::session::Piece;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;

use super::clients::Client;
use super::documents::{Custom, SELECTOR, VERSIONS, revision_of};

/// Longest wait for a piece of a watch before another member is asked.
const PATIENCE_MS_MAX: u64 = 900;

/// `timeoutSeconds` of a watch that stays: longer than the end of a run.
const LAST_SECONDS: u64 = 900;

/// Interval at which a watch that stays looks whether the run is over.
const LOOK: Duration = Duration::from_millis(200);

/// Objects by path, with their revisions.
pub(crate) type Objects = BTreeMap<String, u64>;

/// An informer. Clones share its copy.
#[derive(Clone)]
pub(crate) struct Informer {
    pub(crate) client: Client,
    pub(crate) kind: Custom,
    pub(crate) selection: Selection,
    copy: Arc<Mutex<Objects>>,
}

/// The objects that an informer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    All,
    /// Those with a value of a selectable field, whose place changes with the definition.
    ByField,
}

/// The step after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Resume,
    List,
}

impl Informer {
    pub(crate) fn new(client: Client, kind: Custom, selection: Selection) -> Self {
        Informer { client, kind, selection, copy: Arc::default() }
    }

    pub(crate) fn copy(&self) -> Objects {
        self.copy.lock().clone()
    }

    fn is_done(&self) -> bool {
        self.client.seen.is_over() || self.client.world().failure().is_some()
    }

    /// Runs it until the run is over.
    pub(crate) async fn run(self) {
        while !self.is_done() {
            self.client.session.think(60).await;
            let version = VERSIONS[self.client.session.dice().index(VERSIONS.len())];
            let path = match self.client.session.dice().percent(50) {
                true => self.kind.everywhere(version),
                false => self.kind.objects(version),
            };
            let Some(mut through) = self.list(&path).await else { continue };
            while !self.is_done() && self.watch(&path, &mut through).await == Next::Resume {
                self.client.session.think(60).await;
            }
        }
    }

    /// Lists; the revision of the list. `None`: there is no answer, or no kind.
    async fn list(&self, path: &str) -> Option<u64> {
        let node = self.client.session.pick();
        let path = match self.selection {
            Selection::All => path.to_owned(),
            Selection::ByField => format!("{path}?{SELECTOR}"),
        };
        let answer = self.client.ask(node, self.kind, ("GET", &path), &Value::Null).await?;
        if answer.code == 404 {
            self.copy.lock().clear();
        }
        if answer.code != 200 {
            return None;
        }
        let items = answer.body["items"].as_array()?.iter();
        *self.copy.lock() = items.filter_map(|item| Some((path_of(item), revision_of(item)?))).collect();
        revision_of(&answer.body)
    }

    /// Watches at a random member from `through` on, until it is time for another.
    async fn watch(&self, path: &str, through: &mut u64) -> Next {
        let (session, world) = (&self.client.session, self.client.world());
        let (node, is_last) = (session.pick(), !world.is_busy());
        let seconds = if is_last { LAST_SECONDS } else { session.dice().number(1..4) };
        let query =
            format!("watch=1&resourceVersion={through}&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        let query = match self.selection {
            Selection::All => query,
            Selection::ByField => format!("{query}&{SELECTOR}"),
        };
        let (client, node_number) = (session.client(), node.0);
        world.trace().event(format_args!("c{client} n{node_number} watches {path} from {through}"));
        let asked = session.stream(node, request_with("GET", &format!("{path}?{query}"), &Value::Null)).await;
        let Ok(mut pieces) = asked else { return Next::Resume };
        let mut line = Vec::new();
        loop {
            let Some(piece) = self.next(&mut pieces, is_last).await else { return Next::Resume };
            match piece {
                Piece::Head(200) => {}
                Piece::Head(404 | 410) => return Next::List,
                // A server that has not applied the revision in time, has too much to do, or does not serve.
                Piece::Head(429 | 503 | 504) => return Next::Resume,
                Piece::Head(code) => {
                    world.fail(format_args!("n{node_number} answers {code} to a watch of {path}"));
                    return Next::List;
                }
                Piece::Data(data) => {
                    line.extend_from_slice(&data);
                    while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                        let event: Vec<u8> = line.drain(..=end).collect();
                        if let Some(next) = self.take(&event, through) {
                            return next;
                        }
                    }
                }
            }
        }
    }

    /// The next piece; `None`: the answer has ended, or another member is to be asked.
    async fn next(&self, pieces: &mut Receiver<Piece>, is_last: bool) -> Option<Piece> {
        if !is_last {
            let patience = self.client.session.dice().millis(20..PATIENCE_MS_MAX);
            return NodeRuntime::timeout(patience, pieces.recv()).await.ok()?;
        }
        while !self.is_done() {
            if let Ok(piece) = NodeRuntime::timeout(LOOK, pieces.recv()).await {
                return piece;
            }
        }
        None
    }

    /// Takes an event in; what follows, where the watch is over by it.
    fn take(&self, event: &[u8], through: &mut u64) -> Option<Next> {
        let world = self.client.world();
        let event: Value = serde_json::from_slice(event).unwrap_or_default();
        let (kind, object) = (event["type"].as_str().unwrap_or_default(), &event["object"]);
        if kind == "ERROR" {
            if !matches!(object["code"].as_u64(), Some(404 | 410 | 503)) {
                world.fail(format_args!("a watch of {} ends with {event}", self.kind.0));
            }
            return Some(Next::List);
        }
        let Some(revision) = revision_of(object) else {
            world.fail(format_args!("an event that cannot be: {event}"));
            return Some(Next::List);
        };
        if kind == "BOOKMARK" {
            *through = revision.max(*through);
            return None;
        }
        let mut copy = self.copy.lock();
        let (path, is_later) = (path_of(object), revision > *through);
        let fits = match kind {
            "ADDED" => copy.insert(path, revision).is_none(),
            "MODIFIED" => copy.insert(path, revision).is_some(),
            "DELETED" => copy.remove(&path).is_some(),
            _ => false,
        };
        if !fits || !is_later {
            world.fail(format_args!(
                "c{} saw all of {} through {through}, and then {event}",
                self.client.session.client(),
                self.kind.0
            ));
        }
        *through = revision;
        None
    }
}

/// `namespace/name`.
fn path_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}
