//! Clients of the custom kind, in both of its versions.
//!
//! Owns their requests, the codes that a correct server may answer, and what they were shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_cluster_tests::sim::requests::{ask, request_with};
use orch_cluster_tests::sim::session::Session;
use orch_cluster_tests::sim::world::World;
use orch_raft::transport::NodeId;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::converter::{DEFINITION, VERSIONS, definitions, object, objects, spec, versions};

/// Names of objects: few, so that clients collide.
const NAMES: usize = 6;

/// Sizes of objects.
const SIZES: u64 = 1000;

/// Items of a page.
const PAGE: usize = 2;

/// Codes that a correct server answers: gone, taken or changed, a continue token that is too old, the converter failed, too many, not now.
pub(crate) const CODES: [u16; 10] = [200, 201, 202, 404, 409, 410, 429, 500, 503, 504];

/// An answer about one object, or about all at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) node: NodeId,
    pub(crate) version: &'static str,
    /// Of the list; `None`: one object was asked for.
    pub(crate) revision: Option<u64>,
    pub(crate) items: Vec<Value>,
}

/// The writes of clients, and the answers that they saw.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    /// Name and size of each write, by its token.
    pub(crate) written: BTreeMap<u64, (String, u64)>,
    pub(crate) shown: Vec<Shown>,
}

/// A client.
#[derive(Clone)]
pub(crate) struct Writer {
    session: Session,
    seen: Arc<Mutex<Sightings>>,
}

impl Writer {
    pub(crate) fn new(world: &World, number: u64, seen: &Arc<Mutex<Sightings>>) -> Self {
        Writer { session: Session::new(world, number), seen: seen.clone() }
    }

    pub(crate) fn world(&self) -> &World {
        self.session.world()
    }

    /// The session of the client.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// A member at random.
    pub(crate) fn pick(&self) -> NodeId {
        self.session.pick()
    }

    /// Sends a request to `node`; the code and the document. One that no correct server answers fails the run.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
        ask(&self.session, &CODES, node, request_with(method, path, body)).await
    }

    /// Writes and reads until the run calms down.
    pub(crate) async fn write(self) {
        while self.world().is_busy() {
            self.session.think(120).await;
            let dice = self.session.dice();
            let (node, name) = (self.pick(), format!("c{}", dice.index(NAMES)));
            let version = VERSIONS[dice.index(VERSIONS.len())];
            match dice.number(0..20) {
                0..=4 => {
                    self.create(node, version, &name).await;
                }
                5..=7 => self.replace(node, version, &name).await,
                8..=10 => self.get(node, version, &name).await,
                11..=14 => {
                    self.list(node, version).await;
                }
                15..=17 => self.list_in_pages(version).await,
                18 => self.store_in(node, version).await,
                _ => {
                    let path = format!("{}/{name}", objects(version));
                    drop(self.ask(node, "DELETE", &path, &Value::Null).await);
                }
            }
        }
    }

    /// Creates an object; the code.
    pub(crate) async fn create(&self, node: NodeId, version: &'static str, name: &str) -> Option<u16> {
        let document = object(version, name, &self.spec(version, name));
        let (code, body) = self.ask(node, "POST", &objects(version), &document).await?;
        if code == 201 {
            self.note(node, version, None, vec![body]);
        }
        Some(code)
    }

    /// A new `spec` of the object `name`, with a token of its own.
    fn spec(&self, version: &str, name: &str) -> Value {
        let size = self.session.dice().number(0..SIZES);
        let mut seen = self.seen.lock();
        let token = u64::try_from(seen.written.len()).unwrap_or(u64::MAX);
        seen.written.insert(token, (name.to_owned(), size));
        spec(version, size, token)
    }

    async fn replace(&self, node: NodeId, version: &'static str, name: &str) {
        let path = format!("{}/{name}", objects(version));
        let Some((200, mut object)) = self.ask(node, "GET", &path, &Value::Null).await else { return };
        object["spec"] = self.spec(version, name);
        if let Some((200, body)) = self.ask(self.pick(), "PUT", &path, &object).await {
            self.note(node, version, None, vec![body]);
        }
    }

    async fn get(&self, node: NodeId, version: &'static str, name: &str) {
        let path = format!("{}/{name}", objects(version));
        if let Some((200, body)) = self.ask(node, "GET", &path, &Value::Null).await {
            self.note(node, version, None, vec![body]);
        }
    }

    /// Lists all objects; the code.
    pub(crate) async fn list(&self, node: NodeId, version: &'static str) -> Option<u16> {
        let (code, mut list) = self.ask(node, "GET", &objects(version), &Value::Null).await?;
        if code == 200 {
            let items = take_items(&mut list);
            self.note(node, version, revision_of(&list), items);
        }
        Some(code)
    }

    /// Lists all objects in pages, each at another member.
    async fn list_in_pages(&self, version: &'static str) {
        let (mut items, mut token, mut revision) = (Vec::new(), String::new(), None);
        loop {
            let node = self.pick();
            let path = format!("{}?limit={PAGE}&continue={token}", objects(version));
            let Some((200, mut list)) = self.ask(node, "GET", &path, &Value::Null).await else { return };
            let own = revision_of(&list);
            if revision.is_some_and(|revision| Some(revision) != own) {
                self.world()
                    .fail(format_args!("n{} goes on with a list at {own:?} from {revision:?}", node.0));
            }
            revision = own;
            items.append(&mut take_items(&mut list));
            token = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                return self.note(node, version, revision, items);
            }
        }
    }

    /// Has objects stored in `version` from now on.
    async fn store_in(&self, node: NodeId, version: &'static str) {
        let path = format!("{}/{DEFINITION}", definitions());
        let patch = json!({"spec": {"versions": versions(version)}});
        drop(self.ask(node, "PATCH", &path, &patch).await);
    }

    fn note(&self, node: NodeId, version: &'static str, revision: Option<u64>, items: Vec<Value>) {
        self.seen.lock().shown.push(Shown { node, version, revision, items });
    }
}

fn take_items(list: &mut Value) -> Vec<Value> {
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// The `resourceVersion` of an object or a list.
pub(crate) fn revision_of(document: &Value) -> Option<u64> {
    document["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
