//! Owners that aggregated servers keep.
//!
//! Owns the questions for them that are under way, and the answers. An owner is absent only where its live server says so
//! ([`super::questions`]), and gone only if this process once saw it there ([`super::sightings`]). A server that is away, hangs, or
//! answers anything else says nothing, and the dependent stays. No change of the state shows when such an owner goes: its dependents
//! are looked at again each minute.
//!
//! Invariant: an answer counts for a dependent only if the dependent was stored, as it is, before the question: an object of
//! the owner's name may have been made since an older answer.
//! Invariant: a slow server has a part of the questions at most ([`UNDER_WAY_MAX`] of [`UNDER_WAY_ALL_MAX`]), and objects that only ask take no
//! room of others ([`super::UnderWay`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use orch_raft::Revision;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::sightings::Sightings;
use crate::aggregation::Remote;
use crate::registry::Registry;

/// Time after which dependents of such owners are looked at again. The reference hears of the end of an owner by a watch.
pub(super) const AGAIN: Duration = Duration::from_secs(60);

/// Shortest wait of a dependent whose questions another one is asking already. It waits for as long as those have been under way: twice as
/// long each time.
const ASKED_ALREADY: Duration = Duration::from_millis(100);

/// Questions to one server that are under way, or wait for a place, from which on further dependents wait.
const UNDER_WAY_MAX: usize = 128;

/// The same to all servers: eight slow ones have them all.
const UNDER_WAY_ALL_MAX: usize = 1024;

/// Assumed time of a question to a server that has not answered one yet.
const TOOK: Duration = Duration::from_secs(1);

/// Longest wait of a dependent for a question that is under way, or for a server that has [`UNDER_WAY_MAX`] of them.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// Time for which an answer is kept, for the other dependents of the owner.
const KEPT: Duration = Duration::from_secs(10);

/// Questions that one look at a dependent asks. The rest are asked by the next looks.
pub(super) const QUESTIONS_MAX: usize = 16;

/// A question for an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    /// Name of the APIService.
    pub(super) server: Arc<str>,
    pub(super) kind: String,
    /// That of the dependent; empty for cluster scope.
    pub(super) namespace: String,
    pub(super) name: String,
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

/// The questions of one dependent that are to be asked now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begun {
    Ask(Vec<Asked>),
    /// None: others ask them already, or their servers have enough of them.
    After(Duration),
}

#[derive(Debug)]
struct Known {
    answer: Answer,
    /// The state before the question.
    as_of: Revision,
    at: Duration,
}

/// The questions to one server.
#[derive(Debug)]
struct Load {
    under_way: usize,
    /// Time of the last one, from its begin to its answer, with the wait for a place.
    took: Duration,
}

/// Known owners at aggregated servers.
#[derive(Debug, Default)]
pub(super) struct RemoteOwners {
    now: Duration,
    /// By group and version, as `apiVersion` has them. Clients choose the names: keyed hashes.
    servers: HashMap<String, Arc<Remote>>,
    known: BTreeMap<Question, Known>,
    /// Each with the time of its begin.
    under_way: BTreeMap<Question, Duration>,
    /// By the name of the APIService; those with questions under way.
    loads: HashMap<Arc<str>, Load>,
    sightings: Arc<Mutex<Sightings>>,
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
        self.sightings.lock().took_along(question, uid, self.now)
    }

    /// Shares what others saw, and what is seen here.
    pub(super) fn share(&mut self, sightings: &Arc<Mutex<Sightings>>) {
        self.sightings = Arc::clone(sightings);
    }

    /// Those of `questions` that nobody is asking and whose servers have room; they are under way from now on.
    pub(super) fn begin(&mut self, questions: Vec<Asked>) -> Begun {
        let (mut begun, mut wait) = (questions, ASKED_ALREADY);
        // set: questions.
        begun.retain(|(_, question)| {
            if let Some(began) = self.under_way.get(question) {
                wait = wait.max(self.now.saturating_sub(*began).min(BUSY_MAX));
                return false;
            }
            if self.under_way.len() >= UNDER_WAY_ALL_MAX {
                wait = wait.max(TOOK);
                return false;
            }
            let load = self.loads.entry(question.server.clone());
            let load = load.or_insert(Load { under_way: 0, took: TOOK });
            if load.under_way >= UNDER_WAY_MAX {
                wait = wait.max(load.took.min(BUSY_MAX));
                return false;
            }
            load.under_way += 1;
            self.under_way.insert(question.clone(), self.now);
            true
        });
        if begun.is_empty() { Begun::After(wait) } else { Begun::Ask(begun) }
    }

    /// Takes in the answers to questions that were asked in the state `as_of`.
    pub(super) fn end(&mut self, answers: Vec<(Question, Answer)>, as_of: Revision, now: Duration) {
        for (question, answer) in answers {
            self.end_one(&question, now);
            self.sightings.lock().note(&question, &answer, now);
            self.known.insert(question, Known { answer, as_of, at: now });
        }
    }

    fn end_one(&mut self, question: &Question, now: Duration) {
        let Some(began) = self.under_way.remove(question) else { return };
        let Some(load) = self.loads.get_mut(&question.server) else { return };
        load.under_way -= 1;
        load.took = now.saturating_sub(began);
        if load.under_way == 0 {
            self.loads.remove(&question.server);
        }
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

    /// A question to `server`, asked by a dependent.
    fn asked(server: &str, name: &str) -> Vec<Asked> {
        let object = json!({"spec": {"service": {"namespace": "n", "name": "s"}}});
        let remote = Remote::of(&server.into(), &object).unwrap();
        vec![(Arc::new(remote), Question::about(server, "Widget", "n", name))]
    }

    #[test]
    fn a_server_that_has_many_questions_leaves_the_rest_of_the_work_to_others() {
        let mut owners = RemoteOwners::default();
        let is_begun = |begun: Begun| matches!(begun, Begun::Ask(_));
        for at in 0..UNDER_WAY_MAX {
            assert!(is_begun(owners.begin(asked("v1.slow", &at.to_string()))));
        }
        assert_eq!(owners.begin(asked("v1.slow", "0")), Begun::After(ASKED_ALREADY), "it is asked already");
        assert_eq!(owners.begin(asked("v1.slow", "more")), Begun::After(TOOK));
        assert!(is_begun(owners.begin(asked("v1.fast", "a"))));
        let ended = Question::about("v1.slow", "Widget", "n", "0");
        owners.end(vec![(ended, Answer::Unknown)], Revision(1), Duration::from_secs(5));
        assert!(is_begun(owners.begin(asked("v1.slow", "more"))));
        assert_eq!(owners.begin(asked("v1.slow", "yet-more")), Begun::After(Duration::from_secs(5)));
    }

    #[test]
    fn dependents_of_an_owner_that_is_asked_for_wait_longer_each_time() {
        let (mut owners, mut looks) = (RemoteOwners::default(), 0);
        owners.begin(asked("v1.slow", "w"));
        while owners.now < Duration::from_secs(300) {
            let Begun::After(wait) = owners.begin(asked("v1.slow", "w")) else { panic!("it is asked twice") };
            assert!((ASKED_ALREADY..=BUSY_MAX).contains(&wait), "{wait:?}");
            owners.now += wait;
            looks += 1;
        }
        assert!(looks < 50, "{looks}");
    }

    #[test]
    fn questions_to_all_servers_are_bounded() {
        let mut owners = RemoteOwners::default();
        let servers = (0..UNDER_WAY_ALL_MAX).map(|at| format!("v{}.slow", at / UNDER_WAY_MAX));
        for (at, server) in servers.enumerate() {
            assert!(matches!(owners.begin(asked(&server, &at.to_string())), Begun::Ask(_)));
        }
        assert_eq!(owners.begin(asked("v1.fast", "a")), Begun::After(TOOK));
        assert!(!owners.loads.contains_key("v1.fast"));
    }
}
