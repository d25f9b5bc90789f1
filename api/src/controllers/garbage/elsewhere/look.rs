//! A look at the objects of one aggregated server.
//!
//! Owns its lists, page by page, and what each page leads to. Metadata is asked for, which servers give that know the form; others
//! send whole objects.
//!
//! Invariant: a server has a bounded time, and bounds of pages and writes, in each look; it is asked to change only what it has listed
//! itself, under its own group and version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use http::Method;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::super::remote_owners::{Answer, Asking, Question};
use super::dependent::Dependent;
use super::ends::Ends;
use super::holds::Looked;
use super::verdict::{Rules, Verdict};
use crate::aggregation::{Remote, segment};
use crate::controllers::api_services::asking::ask;
use crate::controllers::client::Client;
use crate::error::ApiError;
use crate::follow::Follower;

/// Longest time for one server in a look: the others' next look waits no longer.
const SERVER_TIME_MAX: Duration = Duration::from_secs(45);

/// Objects of one page: whole ones of twelve kilobytes stay below the bytes of an answer that are read.
const PAGE_OBJECTS: usize = 250;

/// Pages of one resource in a look: 50,000 objects.
const PAGES_MAX: usize = 200;

/// Writes to one server in a look. The rest follows in the next ones.
const WRITES_MAX: usize = 500;

/// Bytes of the token of the next page, which is sent back in a path.
const CONTINUE_BYTES_MAX: usize = 4096;

/// A look at all servers.
pub(super) struct Look<'a, S> {
    pub(super) client: &'a Client<S>,
    pub(super) asking: &'a Asking,
    pub(super) rules: Rules<'a>,
    pub(super) ends: &'a Mutex<Follower<Ends>>,
}

/// A server, and the plural names of its resources that are looked at; `None`: it does not tell them now.
pub(super) type Target = (Arc<Remote>, Option<Vec<String>>);

/// The answer to the question for a page.
enum Page {
    List(Value),
    /// Another answer.
    Refused,
    /// None in time.
    Silence,
}

/// The outcome at one server so far.
#[derive(Default)]
struct Outcome {
    /// Awaited owners that its objects name.
    named: BTreeSet<String>,
    writes: usize,
    /// Something was not looked at, or could not be written.
    is_partial: bool,
}

impl<S: Store> Look<'_, S> {
    /// Looks at the objects of one server.
    ///
    /// # Errors
    /// The state of this server cannot be read.
    pub(super) async fn at(&self, (remote, resources): Target) -> Result<Looked, ApiError> {
        let mut outcome = Outcome::default();
        let is_whole = match resources.filter(|_| remote.is_available) {
            None => false,
            Some(resources) => {
                let late = self.client.store().sleep(SERVER_TIME_MAX);
                let looking = self.at_all(&remote, &resources, &mut outcome);
                match select(Box::pin(looking), Box::pin(late)).await {
                    Either::Left((looked, _)) => looked.map(|()| true)?,
                    Either::Right(_) => false,
                }
            }
        };
        let is_away = !is_whole || outcome.is_partial;
        let away = is_away.then(|| remote.name.to_string()).into_iter().collect();
        Ok(Looked { away, named: outcome.named })
    }

    async fn at_all(
        &self,
        remote: &Remote,
        resources: &[String],
        outcome: &mut Outcome,
    ) -> Result<(), ApiError> {
        for resource in resources {
            let mut next = String::new();
            for page in 1..=PAGES_MAX {
                let list = match self.page(remote, resource, &next).await {
                    Page::List(list) => list,
                    Page::Refused => {
                        outcome.is_partial = true;
                        break;
                    }
                    Page::Silence => {
                        outcome.is_partial = true;
                        return Ok(());
                    }
                };
                let dependents: Vec<Dependent> =
                    list.items("items").iter().filter_map(Dependent::of).collect();
                self.collect((remote, resource), dependents, outcome).await?;
                next = list.at("metadata").text("continue").to_owned();
                if next.is_empty() {
                    break;
                }
                if page == PAGES_MAX || next.len() > CONTINUE_BYTES_MAX || outcome.writes >= WRITES_MAX {
                    outcome.is_partial = true;
                    break;
                }
            }
        }
        Ok(())
    }

    /// The metadata of a page of `resource`.
    async fn page(&self, remote: &Remote, resource: &str, next: &str) -> Page {
        let meta = self.rules.registry.brand.group("meta");
        let accept = format!("application/json;as=PartialObjectMetadataList;g={meta};v=v1,application/json");
        let mut path = format!("{}?limit={PAGE_OBJECTS}", remote.collection("", resource));
        if !next.is_empty() {
            path.push_str(&format!("&continue={}", segment(next)));
        }
        let Some(answer) = ask(self.client, remote, (Method::GET, &path), &accept).await else {
            return Page::Silence;
        };
        // A list without items may have `null` there.
        let is_list = |list: &Value| answer.code == 200 && list.text("kind").ends_with("List");
        answer.document.filter(is_list).map_or(Page::Refused, Page::List)
    }

    /// Judges `dependents`, objects of `resource`, and writes.
    async fn collect(
        &self,
        (remote, resource): (&Remote, &str),
        dependents: Vec<Dependent>,
        outcome: &mut Outcome,
    ) -> Result<(), ApiError> {
        if dependents.is_empty() {
            return Ok(());
        }
        let answers = self.answers(&dependents).await;
        let applied = self.client.newest().await?;
        for dependent in dependents {
            let (verdict, in_the_way) = {
                let mut ends = self.ends.lock();
                self.rules.judge(&dependent, &applied.state, ends.advance(&applied), &answers)
            };
            if verdict != Verdict::Nothing && outcome.writes >= WRITES_MAX {
                outcome.is_partial = true;
                return Ok(());
            }
            let is_done = match verdict {
                Verdict::Nothing => false,
                Verdict::Delete => {
                    outcome.writes += 1;
                    dependent.delete(self.client, remote, resource).await;
                    // It may wait for finalizers.
                    false
                }
                Verdict::Owners(left) => {
                    outcome.writes += 1;
                    dependent.set_owners(self.client, (remote, resource), left).await
                }
            };
            if !is_done {
                outcome.named.extend(in_the_way);
            }
        }
        Ok(())
    }

    /// The answers of other servers about owners of `dependents`, each asked for once.
    async fn answers(&self, dependents: &[Dependent]) -> BTreeMap<Question, Answer> {
        let asked: BTreeMap<Question, Arc<Remote>> =
            dependents.iter().flat_map(|dependent| self.rules.questions(dependent)).collect();
        let questions = asked.into_iter().map(|(question, server)| (server, question)).collect();
        self.asking.ask_all(self.client, questions).await.into_iter().collect()
    }
}
