//! A look at the objects of one aggregated server.
//!
//! Owns its lists, page by page, and what each page leads to. Metadata is asked for, which servers give that know the form; others
//! send whole objects, of which the metadata is read alone. A look that did not come to its end says where the next one begins.
//!
//! Invariant: a server has a bounded time, and bounds of pages, questions and writes, in each look; it is asked to change only what it has
//! listed itself, under its own group and version, and in the state right before each write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use http::Method;
use orch_raft::Store;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::super::questions::Asking;
use super::super::remote_owners::{Answer, Question};
use super::super::sightings::Sightings;
use super::dependent::{Dependent, Page};
use super::ends::Ends;
use super::verdict::{Judged, Known, Rules, Verdict};
use crate::aggregation::{Remote, segment};
use crate::controllers::api_services::asking::ask_unread;
use crate::controllers::client::Client;
use crate::error::ApiError;
use crate::follow::Follower;

/// Longest time for one server in a look: the others' next look waits no longer.
const SERVER_TIME_MAX: Duration = Duration::from_secs(45);

/// Objects of one page: whole ones of twelve kilobytes stay below the bytes of an answer that are read.
pub(super) const PAGE_OBJECTS: usize = 250;

/// Pages of one resource in a look: 50,000 objects.
const PAGES_MAX: usize = 200;

/// Writes to one server in a look. The rest follows in the next ones.
const WRITES_MAX: usize = 500;

/// Questions to other servers for one page: an owner for each object. Dependents of further owners stay until a later look, and for good where
/// their owners are not asked for often enough.
const QUESTIONS_MAX: usize = 256;

/// Time for the questions for one page: a slow server of owners does not take all of a look at another one.
const QUESTIONS_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of the token of the next page, which is sent back in a path.
const CONTINUE_BYTES_MAX: usize = 4096;

/// The reason of a server that is not asked.
pub(super) const AWAY: &str = "it is away";

/// A look at all servers.
pub(super) struct Look<'a, S> {
    pub(super) client: &'a Client<S>,
    pub(super) rules: Rules<'a>,
    pub(super) ends: &'a Mutex<Follower<Ends>>,
    pub(super) sightings: &'a Mutex<Sightings>,
    /// The places of questions, of all servers that are looked at.
    pub(super) asking: &'a Asking,
    /// Decoding a page takes many times its bytes: pages are decoded one at a time.
    pub(super) decoding: &'a Semaphore,
}

/// A server, and the plural names of its resources that are looked at; `None`: it does not tell them now.
pub(super) type Target = (Arc<Remote>, Option<Vec<String>>);

/// Where a look stopped: a resource, and the token of a page of it; empty: its first one.
pub(super) type Place = (String, String);

/// The outcome at one server.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Owners that its objects name and have to lose.
    pub(super) named: BTreeSet<String>,
    /// The reason why it is not known what else it keeps; `None`: all of it was looked at.
    pub(super) partial: Option<&'static str>,
    /// Dependents that stay because an owner is absent whose end nobody has seen.
    pub(super) undecided: usize,
    /// An example of the undecided dependents, as `RESOURCE NAMESPACE/NAME`.
    pub(super) undecided_one: Option<String>,
    /// Where the next look begins; `None`: at the first resource.
    pub(super) stopped: Option<Place>,
    /// The resource behind the one that is looked at.
    next: Option<Place>,
    writes: usize,
}

impl<S: Store> Look<'_, S> {
    /// Looks at the objects of one server, from `begin` on.
    ///
    /// # Errors
    /// The state of this server cannot be read.
    pub(super) async fn at(
        &self,
        (remote, resources): Target,
        begin: Option<Place>,
    ) -> Result<Outcome, ApiError> {
        let mut outcome = Outcome::default();
        let Some(resources) = resources.filter(|_| remote.is_available) else {
            return Ok(Outcome { partial: Some(AWAY), ..outcome });
        };
        let began = begin.clone();
        let is_late = {
            let late = self.client.store().sleep(SERVER_TIME_MAX);
            let looking = self.at_all(&remote, &resources, begin, &mut outcome);
            match select(Box::pin(looking), Box::pin(late)).await {
                Either::Left((looked, _)) => looked.map(|()| false)?,
                Either::Right(_) => true,
            }
        };
        if is_late {
            // A resource that took all of the time once does not take that of those behind it again.
            if outcome.stopped == began {
                outcome.stopped = outcome.next.take();
            }
            outcome.partial = Some("a look at it takes too long");
        }
        Ok(outcome)
    }

    async fn at_all(
        &self,
        remote: &Remote,
        resources: &[String],
        begin: Option<Place>,
        outcome: &mut Outcome,
    ) -> Result<(), ApiError> {
        // few: the resources of one group and version, once a look.
        let at = begin.as_ref().and_then(|(resource, _)| resources.iter().position(|own| own == resource));
        let mut token = String::new();
        if at.is_some() {
            outcome.partial = Some("a look at it goes on");
            token = begin.map(|(_, token)| token).unwrap_or_default();
        }
        for (at, resource) in resources.iter().enumerate().skip(at.unwrap_or(0)) {
            outcome.next = next_of(resources, at);
            if !self.at_resource(remote, resource, std::mem::take(&mut token), outcome).await? {
                return Ok(());
            }
        }
        outcome.stopped = None;
        Ok(())
    }

    /// Looks at the objects of `resource` from the page `next` on. Whether the server is to be asked further.
    async fn at_resource(
        &self,
        remote: &Remote,
        resource: &str,
        mut next: String,
        outcome: &mut Outcome,
    ) -> Result<bool, ApiError> {
        let mut objects_max = PAGE_OBJECTS;
        for _ in 0..PAGES_MAX {
            outcome.stopped = Some((resource.to_owned(), next.clone()));
            let page = match self.page((remote, resource), (&next, objects_max)).await {
                Ok(page) => page,
                // Its objects are large.
                Err(Unread::TooLarge) if objects_max > 1 => {
                    objects_max /= 2;
                    continue;
                }
                Err(Unread::Silence) => {
                    // The others have their turn before it is asked again.
                    outcome.stopped = outcome.next.take();
                    outcome.partial = Some("it does not answer");
                    return Ok(false);
                }
                Err(unread) => {
                    outcome.partial = Some(unread.reason());
                    return Ok(true);
                }
            };
            let is_whole = self.collect(remote, resource, page.dependents, outcome).await?;
            if !is_whole {
                outcome.partial = Some("it has too much to be deleted in one look");
                return Ok(false);
            }
            next = page.next;
            if next.is_empty() {
                return Ok(true);
            }
            if next.len() > CONTINUE_BYTES_MAX {
                outcome.partial = Some("its token for the next page is too long");
                return Ok(true);
            }
        }
        outcome.stopped = Some((resource.to_owned(), next));
        outcome.partial = Some("it has too many objects for one look");
        Ok(false)
    }

    /// A page of `resource`.
    async fn page(
        &self,
        (remote, resource): (&Remote, &str),
        (next, objects_max): (&str, usize),
    ) -> Result<Page, Unread> {
        let meta = self.rules.registry.brand.group("meta");
        let accept = format!("application/json;as=PartialObjectMetadataList;g={meta};v=v1,application/json");
        let mut path = format!("{}?limit={objects_max}", remote.collection("", resource));
        if !next.is_empty() {
            path.push_str(&format!("&continue={}", segment(next)));
        }
        let answer = ask_unread(self.client, remote, (Method::GET, &path), &accept).await;
        let answer = answer.ok_or(Unread::Silence)?;
        match (answer.code, answer.body) {
            (200, Some(text)) => {
                // An error means that the semaphore was closed, which it never is.
                let _decoding = self.decoding.acquire().await;
                let read = move || Page::read(&text, objects_max);
                let read = self.client.aggregation().work(read).await.ok_or(Unread::Silence)?;
                read.map_err(Unread::Garbled)
            }
            (200, None) if answer.is_torn => Err(Unread::Silence),
            (200, None) => Err(Unread::TooLarge),
            (410, _) if !next.is_empty() => Err(Unread::Garbled("its token for the next page has expired")),
            _ => Err(Unread::Garbled("it refuses to list its objects")),
        }
    }

    /// Judges `dependents`, objects of `resource`, and writes. `false`: there are more to write to than one look may.
    async fn collect(
        &self,
        remote: &Remote,
        resource: &str,
        dependents: Vec<Dependent>,
        outcome: &mut Outcome,
    ) -> Result<bool, ApiError> {
        if dependents.is_empty() {
            return Ok(true);
        }
        let answers = self.answers(&dependents).await;
        self.client.newest().await?;
        for dependent in dependents {
            let Judged { verdict, mut in_the_way, is_undecided } = self.judge(&dependent, &answers);
            if is_undecided {
                outcome.note_undecided(resource, &dependent);
            }
            let mut is_done = false;
            if verdict != Verdict::Nothing {
                if outcome.writes >= WRITES_MAX {
                    return Ok(false);
                }
                outcome.writes += 1;
                // Owners may have come back, or be deleted otherwise, since the page was read.
                self.client.newest().await?;
                let judged = self.judge(&dependent, &answers);
                in_the_way = judged.in_the_way;
                is_done = match judged.verdict {
                    Verdict::Nothing => false,
                    Verdict::Delete => {
                        dependent.delete(self.client, remote, resource).await;
                        // It may wait for finalizers.
                        false
                    }
                    Verdict::Owners(left) => {
                        dependent.set_owners(self.client, (remote, resource), left).await
                    }
                };
            }
            if !is_done {
                outcome.named.extend(in_the_way);
            }
        }
        Ok(true)
    }

    /// The judgement of `dependent` in the state that this node has applied.
    fn judge(&self, dependent: &Dependent, answers: &BTreeMap<Question, Answer>) -> Judged {
        let applied = self.client.applied();
        let mut ends = self.ends.lock();
        let ends: &Ends = ends.advance(&applied);
        let now = self.client.store().elapsed();
        let known = Known { state: &applied.state, ends, answers, sightings: self.sightings, now };
        self.rules.judge(dependent, known).unwrap_or_else(|error| {
            tracing::debug!(%error, name = dependent.name, "an owner cannot be read");
            Judged { verdict: Verdict::Nothing, in_the_way: BTreeSet::new(), is_undecided: false }
        })
    }

    /// The answers of other servers about owners of `dependents`, each asked for once.
    async fn answers(&self, dependents: &[Dependent]) -> BTreeMap<Question, Answer> {
        let asked: BTreeMap<Question, Arc<Remote>> =
            dependents.iter().flat_map(|dependent| self.rules.questions(dependent)).collect();
        let mut questions: Vec<_> = asked.into_iter().map(|(question, server)| (server, question)).collect();
        if questions.len() > QUESTIONS_MAX {
            turn(&mut questions, self.client.random());
            questions.truncate(QUESTIONS_MAX);
        }
        let answers = self.asking.ask_all(self.client, questions, QUESTIONS_TIME_MAX).await;
        let (mut sightings, now) = (self.sightings.lock(), self.client.store().elapsed());
        answers.iter().for_each(|(question, answer)| sightings.note(question, answer, now));
        answers.into_iter().collect()
    }
}

impl Outcome {
    fn note_undecided(&mut self, resource: &str, dependent: &Dependent) {
        self.undecided += 1;
        let one = || format!("{resource} {}/{}", dependent.namespace, dependent.name);
        self.undecided_one.get_or_insert_with(one);
    }
}

/// Has any of `questions` be the first, so that each page asks others at each look. Counting looks would leave some out for ever: a
/// page comes with every second look at a server that takes two.
fn turn<T>(questions: &mut [T], chance: u128) {
    let count = questions.len().max(1) as u128;
    questions.rotate_left(usize::try_from(chance % count).unwrap_or(0));
}

/// The first page of the resource behind the one at `at`; `None`: that was the last one.
fn next_of(resources: &[String], at: usize) -> Option<Place> {
    resources.get(at + 1).map(|resource| (resource.clone(), String::new()))
}

/// The reason why there is no page.
enum Unread {
    /// There is no answer in time, or it broke off.
    Silence,
    TooLarge,
    Garbled(&'static str),
}

impl Unread {
    fn reason(&self) -> &'static str {
        match self {
            Unread::Silence => "it does not answer",
            Unread::TooLarge => "one of its objects is too large",
            Unread::Garbled(reason) => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_the_first_by_some_chance() {
        let firsts: BTreeSet<usize> = (0..2 * QUESTIONS_MAX as u128)
            .map(|chance| {
                let mut questions: Vec<usize> = (0..2 * QUESTIONS_MAX).collect();
                turn(&mut questions, chance);
                questions[0]
            })
            .collect();
        assert_eq!(firsts.len(), 2 * QUESTIONS_MAX);
        turn::<usize>(&mut [], 7);
    }
}
