//! Owners that aggregated servers keep.
//!
//! Owns asking for them, and what was answered. An owner is absent only where its live server says in a Status that there is no
//! object of this name, or shows one with another uid, and gone only if this leader once saw it there ([`super::sightings`]). A server that is away, hangs, or answers anything else says nothing, and
//! the dependent stays. No change of the state shows when such an owner goes: its dependents are looked at again each minute.
//!
//! Invariant: an answer counts for a dependent only if the dependent was stored, as it is, before the question: an object of
//! the owner's name may have been made since an older answer.
//! Invariant: questions have bounds of number and time; one server that hangs takes the places once in [`AWAY`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use orch_raft::{Revision, Store};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::ownership::{FOREGROUND, ORPHAN};
use super::sightings::Sightings;
use crate::aggregation::Remote;
use crate::aggregation::described::Description;
use crate::controllers::api_services::asking::{self, ask};
use crate::controllers::client::{Client, for_each};
use crate::registry::Registry;

/// Time after which dependents of such owners are looked at again. The reference hears of the end of an owner by a watch.
pub(super) const AGAIN: Duration = Duration::from_secs(60);

/// Wait of a dependent whose questions another one is asking already.
pub(super) const ASKED_ALREADY: Duration = Duration::from_millis(100);

/// Time for which an answer is kept, for the other dependents of the owner.
const KEPT: Duration = Duration::from_secs(10);

/// Time for which a server that did not answer is not asked again.
const AWAY: Duration = Duration::from_secs(30);

/// Questions at the same time, of all servers.
const ASKS_MAX: usize = 16;

/// Questions that one look at a dependent asks. The rest are asked by the next looks.
pub(super) const QUESTIONS_MAX: usize = 16;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 253;

/// A question for an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    /// Name of the APIService.
    server: Arc<str>,
    kind: String,
    /// That of the dependent; empty for cluster scope.
    namespace: String,
    name: String,
}

/// The answer of a server about an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Found {
        uid: String,
        is_terminating: bool,
        /// It is being deleted in the foreground.
        is_waiting: bool,
        /// It is being deleted, and its dependents are to stay.
        is_orphaning: bool,
    },
    Missing,
    /// The answer does not count.
    Unknown,
}

/// A question and its server.
pub(super) type Asked = (Arc<Remote>, Question);

#[derive(Debug)]
struct Known {
    answer: Answer,
    /// The state before the question.
    as_of: Revision,
    at: Duration,
}

/// Known owners at aggregated servers.
#[derive(Debug, Default)]
pub(super) struct RemoteOwners {
    now: Duration,
    /// By group and version, as `apiVersion` has them. Clients choose the names: keyed hashes.
    servers: HashMap<String, Arc<Remote>>,
    known: BTreeMap<Question, Known>,
    under_way: BTreeSet<Question>,
    sightings: Arc<Mutex<Sightings>>,
}

/// The places of questions, and the servers that did not answer.
pub(super) struct Asking {
    places: Semaphore,
    /// Names of APIServices, and until when.
    away: Mutex<HashMap<Arc<str>, Duration>>,
}

impl Question {
    /// The group of the owner: the name of an APIService is version and group.
    pub(super) fn group(&self) -> &str {
        self.server.split_once('.').map_or("", |(_, group)| group)
    }

    /// Group, kind, namespace and name of the owner.
    pub(super) fn place(&self) -> [&str; 4] {
        [self.group(), &self.kind, &self.namespace, &self.name]
    }

    #[cfg(test)]
    pub(super) fn about(server: &str, kind: &str, namespace: &str, name: &str) -> Question {
        let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
        Question { server: server.into(), kind, namespace, name }
    }

    /// The question for the owner that `reference` names, of a dependent in `namespace`.
    pub(super) fn of(server: &Remote, reference: &Value, namespace: &str) -> Question {
        Question {
            server: server.name.clone(),
            kind: reference.text("kind").to_owned(),
            namespace: namespace.to_owned(),
            name: reference.text("name").to_owned(),
        }
    }
}

impl RemoteOwners {
    /// Takes in the aggregated servers and the time. Answers that are older than [`KEPT`] go.
    pub(super) fn refresh(&mut self, servers: Vec<Arc<Remote>>, registry: &Registry, now: Duration) {
        self.now = now;
        let others = servers.into_iter().filter(|of| !registry.is_built_in(&of.group, &of.version));
        self.servers = others.map(|of| (format!("{}/{}", of.group, of.version), of)).collect();
        if !self.known.is_empty() {
            self.known.retain(|_, known| now.saturating_sub(known.at) <= KEPT);
        }
    }

    /// The server of the kind that `reference` names; `None`: this server keeps it, or none does.
    pub(super) fn server(&self, reference: &Value) -> Option<&Arc<Remote>> {
        self.servers.get(reference.text("apiVersion"))
    }

    /// The answer for a dependent that was last written at `written`; `None`: it has to be asked for.
    pub(super) fn answer(&self, question: &Question, written: Revision) -> Option<&Answer> {
        let known = self.known.get(question)?;
        let is_young = self.now.saturating_sub(known.at) <= KEPT;
        (written <= known.as_of && is_young).then_some(&known.answer)
    }

    /// Whether the owner `uid`, which is not where `question` looks for it, takes its dependents along.
    pub(super) fn took_along(&self, question: &Question, uid: &str) -> bool {
        self.sightings.lock().took_along(question, uid)
    }

    /// Shares what others saw, and what is seen here.
    pub(super) fn share(&mut self, sightings: &Arc<Mutex<Sightings>>) {
        self.sightings = Arc::clone(sightings);
    }

    /// Those of `questions` that nobody is asking; they are under way from now on.
    pub(super) fn begin(&mut self, questions: Vec<Asked>) -> Vec<Asked> {
        let mut begun = questions;
        // set: questions.
        begun.retain(|(_, question)| self.under_way.insert(question.clone()));
        begun
    }

    /// Takes in the answers to questions that were asked in the state `as_of`.
    pub(super) fn end(&mut self, answers: Vec<(Question, Answer)>, as_of: Revision, now: Duration) {
        for (question, answer) in answers {
            self.under_way.remove(&question);
            self.sightings.lock().note(&question, &answer);
            self.known.insert(question, Known { answer, as_of, at: now });
        }
    }
}

impl Asking {
    pub(super) fn new() -> Asking {
        Asking { places: Semaphore::new(ASKS_MAX), away: Mutex::default() }
    }

    /// Asks all of `questions`.
    pub(super) async fn ask_all<S: Store>(
        &self,
        client: &Client<S>,
        questions: Vec<Asked>,
    ) -> Vec<(Question, Answer)> {
        let ask = |(remote, question): Asked| async move {
            // An error means that the semaphore was closed, which it never is.
            let _place = self.places.acquire().await;
            let answer = self.ask(client, &remote, &question).await;
            (question, answer)
        };
        for_each(questions, QUESTIONS_MAX, ask).await
    }

    async fn ask<S: Store>(&self, client: &Client<S>, remote: &Remote, question: &Question) -> Answer {
        let now = client.store().elapsed();
        let is_away = self.away.lock().get(&remote.name).is_some_and(|until| now < *until);
        if is_away || !remote.is_available {
            return Answer::Unknown;
        }
        let Some(path) = path(client, remote, question) else { return Answer::Unknown };
        match ask(client, remote, (Method::GET, &path), "application/json").await {
            Some(answer) => read(&answer, question),
            None => {
                let now = client.store().elapsed();
                let mut away = self.away.lock();
                // few: the servers that did not answer, at each of their failures.
                away.retain(|_, until| now < *until);
                away.insert(remote.name.clone(), now + AWAY);
                Answer::Unknown
            }
        }
    }
}

/// Path of the owner; `None`: its server does not say that it has this kind, or has it in namespaces and the dependent is in none.
fn path<S: Store>(client: &Client<S>, remote: &Remote, question: &Question) -> Option<String> {
    let Some(Description::Current(resources)) = client.aggregation().descriptions().find(&remote.name) else {
        return None;
    };
    if !is_segment(&question.name) || !(question.namespace.is_empty() || is_segment(&question.namespace)) {
        return None;
    }
    // once: the resources of one group and version, whose number is bounded, for a question that goes over a network.
    let resource = resources.iter().find(|resource| is_of_kind(resource, &remote.group, &question.kind))?;
    let namespace = match (resource.text("scope"), &*question.namespace) {
        ("Namespaced", "") => return None,
        ("Namespaced", namespace) => namespace,
        _ => "",
    };
    Some(remote.object(namespace, resource.text("resource"), &question.name))
}

/// Whether `text` is a name, and a segment of a path that no server reads as another path: clients write owner references.
fn is_segment(text: &str) -> bool {
    let is_special = |byte: u8| byte.is_ascii_control() || matches!(byte, b'/' | b'\\' | b'%' | b';');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !matches!(text, "." | "..") && !text.bytes().any(is_special)
}

/// Whether the objects of a resource, an item of aggregated discovery, are of `kind`.
fn is_of_kind(resource: &Value, group: &str, kind: &str) -> bool {
    let of = resource.at("responseKind");
    of.text("kind") == kind && (of.text("group").is_empty() || of.text("group") == group)
}

/// The owner's state by an answer.
fn read(answer: &asking::Answer, question: &Question) -> Answer {
    let Some(document) = &answer.document else { return Answer::Unknown };
    match answer.code {
        200 => {
            let metadata = document.at("metadata");
            let is_it = document.text("kind") == question.kind && metadata.text("name") == question.name;
            if !is_it || metadata.text("uid").is_empty() {
                return Answer::Unknown;
            }
            // few: the finalizers of one object, of a document of bounded size.
            let is_held = |finalizer: &str| metadata.texts("finalizers").contains(&finalizer);
            let is_terminating = !metadata.is_empty_at("deletionTimestamp");
            Answer::Found {
                uid: metadata.text("uid").to_owned(),
                is_terminating,
                is_waiting: is_terminating && is_held(FOREGROUND),
                is_orphaning: is_terminating && is_held(ORPHAN),
            }
        }
        // A server that does not know the path answers a 404, too: the object has to be named.
        404 if document.text("kind") == "Status"
            && document.text("reason") == "NotFound"
            && document.at("details").text("name") == question.name =>
        {
            Answer::Missing
        }
        _ => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn question(name: &str) -> Question {
        Question { server: "v1.a".into(), kind: "Widget".into(), namespace: "n".into(), name: name.into() }
    }

    #[test]
    fn only_a_status_about_the_object_says_that_it_is_missing() {
        let answer = |code: u16, document: Option<Value>| {
            let answer = asking::Answer { code, content_type: String::new(), document };
            read(&answer, &question("w"))
        };
        let status = |name: &str| json!({"kind": "Status", "reason": "NotFound", "details": {"name": name}});
        assert_eq!(answer(404, Some(status("w"))), Answer::Missing);
        let widget =
            |name: &str, uid: &str| json!({"kind": "Widget", "metadata": {"name": name, "uid": uid}});
        let found = |is_waiting: bool, is_orphaning: bool| {
            let is_terminating = is_waiting || is_orphaning;
            Answer::Found { uid: "u".to_owned(), is_terminating, is_waiting, is_orphaning }
        };
        assert_eq!(answer(200, Some(widget("w", "u"))), found(false, false));
        let mut leaving = widget("w", "u");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        leaving["metadata"]["finalizers"] = json!([FOREGROUND]);
        assert_eq!(answer(200, Some(leaving.clone())), found(true, false));
        leaving["metadata"]["finalizers"] = json!([ORPHAN]);
        assert_eq!(answer(200, Some(leaving)), found(false, true));
        for (code, document) in [
            (404, None),
            (404, Some(Value::Null)),
            (404, Some(status("another"))),
            (404, Some(json!({"kind": "Status", "reason": "NotFound"}))),
            (403, Some(status("w"))),
            (503, Some(status("w"))),
            (200, Some(status("w"))),
            (200, Some(widget("another", "u"))),
            (200, Some(widget("w", ""))),
        ] {
            assert_eq!(answer(code, document.clone()), Answer::Unknown, "{code} {document:?}");
        }
    }

    #[test]
    fn only_names_are_asked_for() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for (name, is_asked) in [
            ("a", true),
            ("a.b-c", true),
            ("a:b", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("a%2fb", false),
            (&*long, false),
            (&long[1..], true),
        ] {
            assert_eq!(is_segment(name), is_asked, "{name}");
        }
    }

    #[test]
    fn an_answer_counts_for_dependents_that_were_there_before_it_and_for_a_while() {
        let mut owners = RemoteOwners::default();
        owners.end(vec![(question("w"), Answer::Missing)], Revision(7), Duration::ZERO);
        assert_eq!(owners.answer(&question("w"), Revision(7)), Some(&Answer::Missing));
        assert_eq!(
            owners.answer(&question("w"), Revision(8)),
            None,
            "its owner may be younger than the answer"
        );
        assert_eq!(owners.answer(&question("v"), Revision(7)), None);
        owners.now = KEPT + Duration::from_secs(1);
        assert_eq!(owners.answer(&question("w"), Revision(7)), None);
    }
}
