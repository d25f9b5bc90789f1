//! Clients that define kinds, and clients that write objects of them, all over HTTP and at any member.
//!
//! Owns their requests and the codes that a correct server may answer. What became of a request whose answer was lost, the ledger
//! tells.

use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::requests::{ask, request_with};
use orch_cluster_tests::sim::runtime::NodeRuntime;
use orch_cluster_tests::sim::session::Session;
use orch_cluster_tests::sim::world::World;
use orch_raft::transport::NodeId;
use serde_json::{Value, json};

use super::documents::{
    Custom, KINDS, OWNERS, VERSIONS, definitions, edition_of, revision_of, spec, versions,
};
use super::sightings::{Absent, Created, Life, Sightings};

/// Names of objects: few, so that clients collide.
const NAMES: usize = 6;

/// Codes that a correct server answers to a correct request: taken, forbidden while the definition ends, gone, changed, too many,
/// not now.
pub(crate) const CODES: [u16; 9] = [200, 201, 202, 403, 404, 409, 429, 503, 504];

/// Kinds of clients, each with its number of them.
pub(crate) const DRIVERS: [(Drive, u64); 3] = [(Drive::Define, 2), (Drive::Write, 3), (Drive::Own, 1)];

/// A client's action.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Drive {
    Define,
    Write,
    Own,
}

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) seen: Sightings,
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    /// The process that was asked, if the same one answered.
    pub(crate) life: Option<Life>,
    /// The last change of the kind that was acknowledged before.
    floor: u64,
}

impl Client {
    pub(crate) fn new(world: &World, number: u64, seen: &Sightings) -> Self {
        Client { session: Session::new(world, number), seen: seen.clone() }
    }

    pub(crate) fn world(&self) -> &World {
        self.session.world()
    }

    pub(crate) fn drive(self, drive: Drive) -> BoxFuture<'static, ()> {
        match drive {
            Drive::Define => Box::pin(self.define()),
            Drive::Write => Box::pin(self.write()),
            Drive::Own => Box::pin(self.own()),
        }
    }

    fn life(&self, node: NodeId) -> Option<Life> {
        let group = self.world().process(node)?.group;
        Some(Life { node, group })
    }

    /// Sends a request about `kind` to `node`. A code that no correct server answers fails the run.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        kind: Custom,
        (method, path): (&str, &str),
        body: &Value,
    ) -> Option<Answer> {
        let before = self.life(node);
        let floor = before.as_ref().map_or(0, |life| self.seen.floor(life, kind));
        let request = request_with(method, path, body);
        let (code, body) = ask(&self.session, &CODES, node, request).await?;
        let after = self.life(node);
        let life = before.filter(|before| after.is_some_and(|after| after.group == before.group));
        Some(Answer { code, body, life, floor })
    }

    /// The same at a random member.
    async fn ask_any(&self, kind: Custom, what: (&str, &str), body: &Value) -> Option<(NodeId, Answer)> {
        let node = self.session.pick();
        Some((node, self.ask(node, kind, what, body).await?))
    }

    fn kind(&self) -> Custom {
        KINDS[self.session.dice().index(KINDS.len())]
    }

    fn version(&self) -> &'static str {
        VERSIONS[self.session.dice().index(VERSIONS.len())]
    }

    async fn define(self) {
        while self.world().is_busy() {
            self.session.think(500).await;
            let kind = self.kind();
            match self.session.dice().number(0..12) {
                0..=3 => self.create_definition(kind).await,
                4..=7 => {
                    self.change_definition(self.session.pick(), kind).await;
                }
                8..=9 => self.delete_definition(kind).await,
                _ => self.go_on(self.session.pick(), kind).await,
            }
        }
    }

    async fn create_definition(&self, kind: Custom) {
        let document = kind.document(self.seen.next_edition(), self.version());
        let Some((_, answer)) = self.ask_any(kind, ("POST", &definitions()), &document).await else { return };
        if answer.code == 201 {
            self.take_acknowledgement(kind, &answer);
        }
    }

    /// Makes another edition of the definition through `node`; its revision, if that was acknowledged.
    pub(crate) async fn change_definition(&self, node: NodeId, kind: Custom) -> Option<u64> {
        let patch = json!({"spec": {"versions": versions(self.seen.next_edition(), self.version())}});
        let path = format!("{}/{}", definitions(), kind.definition());
        let answer = self.ask(node, kind, ("PATCH", &path), &patch).await?;
        if answer.code != 200 {
            return None;
        }
        self.take_acknowledgement(kind, &answer);
        let revision = revision_of(&answer.body)?;
        if is_in_force(&answer.body) {
            self.seen.note_in_force(kind, revision);
        }
        Some(revision)
    }

    async fn delete_definition(&self, kind: Custom) {
        let path = format!("{}/{}", definitions(), kind.definition());
        let Some((_, answer)) = self.ask_any(kind, ("DELETE", &path), &Value::Null).await else { return };
        if answer.code == 200 {
            self.take_acknowledgement(kind, &answer);
        }
    }

    fn take_acknowledgement(&self, kind: Custom, answer: &Answer) {
        if let (Some(life), Some(revision)) = (&answer.life, revision_of(&answer.body)) {
            self.seen.acknowledge(life, kind, revision);
        }
    }

    /// Goes on to `node` with a revision at which the kind was in force.
    pub(crate) async fn go_on(&self, node: NodeId, kind: Custom) {
        let Some(revision) = self.seen.in_force(kind) else { return };
        let path = format!("{}?resourceVersion={revision}", kind.objects(self.version()));
        let Some(answer) = self.ask(node, kind, ("GET", &path), &Value::Null).await else { return };
        match (answer.code, &answer.life) {
            (200, Some(life)) => self.seen.acknowledge(life, kind, revision),
            (404, _) => self.seen.note_absent(Absent { node, kind, revision }),
            _ => {}
        }
    }

    async fn write(self) {
        while self.world().is_busy() {
            self.session.think(120).await;
            let (kind, dice) = (self.kind(), self.session.dice());
            let name = format!("w{}", dice.index(NAMES));
            match dice.number(0..20) {
                0..=7 => {
                    self.create(self.session.pick(), kind, &name, "").await;
                }
                8..=12 => {
                    self.create(self.session.pick(), kind, "never", "?dryRun=All").await;
                }
                13..=17 => self.replace(kind, &name).await,
                _ => {
                    let path = format!("{}/{name}", kind.objects(self.version()));
                    drop(self.ask_any(kind, ("DELETE", &path), &Value::Null).await);
                }
            }
        }
    }

    /// Creates an object; its code.
    pub(crate) async fn create(&self, node: NodeId, kind: Custom, name: &str, query: &str) -> Option<u16> {
        let version = self.version();
        let object = kind.object(version, name, self.session.dice().number(0..1000));
        let path = format!("{}{query}", kind.objects(version));
        let answer = self.ask(node, kind, ("POST", &path), &object).await?;
        if answer.code == 201 {
            match (edition_of(&answer.body), &answer.life) {
                (Some(edition), Some(_)) => {
                    self.seen.note_created(Created { node, kind, edition, floor: answer.floor });
                }
                (Some(_), None) => {}
                (None, _) => {
                    self.world().fail(format_args!("n{} leaves out a default: {}", node.0, answer.body));
                }
            }
        }
        Some(answer.code)
    }

    /// Writes an object anew as it is, but for its size, its shade and for what only a default fills in.
    async fn replace(&self, kind: Custom, name: &str) {
        let path = format!("{}/{name}", kind.objects(self.version()));
        let Some((_, Answer { code: 200, mut body, .. })) =
            self.ask_any(kind, ("GET", &path), &Value::Null).await
        else {
            return;
        };
        body["spec"] = spec(self.session.dice().number(0..1000));
        drop(self.ask_any(kind, ("PUT", &path), &body).await);
    }

    /// Owners of custom objects, that are deleted afterwards.
    async fn own(self) {
        for number in 0.. {
            self.session.think(900).await;
            if !self.world().is_busy() {
                return;
            }
            self.leave_dependent(self.kind(), &format!("{}-{number}", self.session.client())).await;
        }
    }

    /// Makes an owner of an object, and deletes the owner. Some of it may not come to pass; `false`: no object was made.
    pub(crate) async fn leave_dependent(&self, kind: Custom, name: &str) -> bool {
        let owner = json!({"metadata": {"name": format!("o{name}")}});
        let Some((_, made)) = self.ask_any(kind, ("POST", OWNERS), &owner).await else { return false };
        let Some(uid) = made.body["metadata"]["uid"].as_str().filter(|_| made.code == 201) else {
            return false;
        };
        let version = self.version();
        let mut object = kind.object(version, &format!("d{name}"), 0);
        let reference =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{name}"), "uid": uid});
        object["metadata"]["ownerReferences"] = json!([reference]);
        let created = self.ask_any(kind, ("POST", &kind.objects(version)), &object).await;
        let path = format!("{OWNERS}/o{name}");
        loop {
            let gone = self.ask_any(kind, ("DELETE", &path), &Value::Null).await;
            if gone.is_some_and(|(_, answer)| matches!(answer.code, 200 | 404))
                || self.world().failure().is_some()
            {
                return created.is_some_and(|(_, answer)| answer.code == 201);
            }
            NodeRuntime::sleep(self.session.dice().millis(50..200)).await;
        }
    }
}

/// Whether the definition is in force, and no deletion of it has begun.
pub(crate) fn is_in_force(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let is_established =
        |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    definition["metadata"]["deletionTimestamp"].is_null() && conditions.into_iter().any(is_established)
}
