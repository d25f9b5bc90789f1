//! Questions to aggregated servers for owners that they keep.
//!
//! Owns the places of questions, how one is asked, and how its answer is read: an owner is absent only where its live server says in
//! a Status that there is no object of this name, or shows one with another uid. It remembers no answer.
//!
//! Invariant: a server has [`PLACES_EACH`] of the [`PLACES`] at most, and one that hangs has these once in [`AWAY`].

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{Either, select};
use http::Method;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::ownership::{FOREGROUND, ORPHAN};
use super::remote_owners::{Answer, Asked, Question};
use crate::aggregation::Remote;
use crate::aggregation::described::Description;
use crate::controllers::api_services::asking::{self, ask};
use crate::controllers::client::{Client, for_each};

/// Time for which a server that did not answer is not asked again.
const AWAY: Duration = Duration::from_secs(30);

/// Time without an answer after which a server is taken for one that does not, where the caller waits no longer.
const SILENT_MIN: Duration = Duration::from_secs(1);

/// Questions at the same time, of all servers. Each may hold an answer of some megabytes.
const PLACES: usize = 32;

/// Questions at the same time to one server: it takes seven more slow ones to have all places.
const PLACES_EACH: usize = 4;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 253;

/// The places of questions, and the servers that did not answer.
pub(super) struct Asking {
    places: Semaphore,
    /// By the name of the APIService; those where somebody waits or asks.
    places_each: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    /// Names of APIServices, and until when.
    away: Mutex<HashMap<Arc<str>, Duration>>,
}

impl Asking {
    pub(super) fn new() -> Asking {
        let (places_each, away) = Default::default();
        Asking { places: Semaphore::new(PLACES), places_each, away }
    }

    /// Asks all of `questions`, whose number the caller bounds. Those without an answer after `patience` have none. A server that was
    /// being asked then, for [`SILENT_MIN`], rests like one that hangs; others only waited for a place.
    pub(super) async fn ask_all<S: Store>(
        &self,
        client: &Client<S>,
        questions: Vec<Asked>,
        patience: Duration,
    ) -> Vec<(Question, Answer)> {
        let at_once = questions.len().max(1);
        let ask = |(remote, question): Asked| async move {
            let begun = OnceLock::new();
            let asked = Box::pin(self.ask_in_turn(client, (&remote, &question), &begun));
            let late = Box::pin(client.store().sleep(patience));
            let answer = match select(asked, late).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => {
                    let now = client.store().elapsed();
                    if begun.get().is_some_and(|begun| now.saturating_sub(*begun) >= SILENT_MIN) {
                        self.rest(client, &remote);
                    }
                    Answer::Unknown
                }
            };
            (question, answer)
        };
        for_each(questions, at_once, ask).await
    }

    /// Asks when there are places, and notes in `begun` when that is.
    async fn ask_in_turn<S: Store>(
        &self,
        client: &Client<S>,
        (remote, question): (&Remote, &Question),
        begun: &OnceLock<Duration>,
    ) -> Answer {
        // Errors mean that a semaphore was closed, which none ever is. The server's own places come first: those that wait for one hold no
        // other.
        let own = self.places_of(&remote.name);
        let _own = own.acquire().await;
        let _place = self.places.acquire().await;
        begun.get_or_init(|| client.store().elapsed());
        self.ask(client, remote, question).await
    }

    fn places_of(&self, server: &Arc<str>) -> Arc<Semaphore> {
        let mut places = self.places_each.lock();
        if !places.contains_key(server) {
            // few: the servers that are being asked.
            places.retain(|_, places| Arc::strong_count(places) > 1);
        }
        places.entry(server.clone()).or_insert_with(|| Arc::new(Semaphore::new(PLACES_EACH))).clone()
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
                self.rest(client, remote);
                Answer::Unknown
            }
        }
    }

    /// Asks `remote` nothing for a while.
    fn rest<S: Store>(&self, client: &Client<S>, remote: &Remote) {
        let now = client.store().elapsed();
        let mut away = self.away.lock();
        // few: the servers that did not answer, at each of their failures.
        away.retain(|_, until| now < *until);
        away.insert(remote.name.clone(), now + AWAY);
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
        Question::about("v1.a", "Widget", "n", name)
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
}
