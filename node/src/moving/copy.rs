//! The pass over all objects of the source.
//!
//! Owns the order of kinds, and that a list was read to its end before its kind counts as copied. A kind is read page by page; the objects of
//! a page are sent at once, and only places are kept of those that wait.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::journal::kind_line;
use super::kinds::{Kind, definitions_id, discover, place_of};
use super::sending::uid_of;
use super::servers::{Cursor, RESTARTS_MAX, UNDER_WAY_MAX};
use super::waiting::{Pending, Waiting};
use super::{Kinds, Move, left_out};

/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Longest wait until the target serves the kinds of the definitions that were copied: milliseconds for each, as a rule.
const SERVED_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether a survey waits for the kinds of the definitions that the target has taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Survey {
    Now,
    OnceServed,
}

/// The lines of progress.
pub(super) struct Progress<'o, W> {
    out: &'o mut W,
    told: Instant,
}

impl<'o, W: Write> Progress<'o, W> {
    pub(super) fn new(out: &'o mut W) -> Self {
        Progress { out, told: Instant::now() }
    }

    fn tell(&mut self, line: impl FnOnce() -> String) -> std::io::Result<()> {
        if self.told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        self.told = Instant::now();
        writeln!(self.out, "{}", line())?;
        self.out.flush()
    }
}

/// The lists of one kind, until one is read to its end at one moment.
struct Lists<'k> {
    kind: &'k Kind,
    id: String,
    /// The version up to which an earlier run has copied the kind; `None` also where versions are no numbers, as those of every server
    /// of today are.
    since: Option<u64>,
    /// Objects that waited before this kind.
    before: usize,
    /// Places of the objects of the list that move.
    listed: HashSet<String>,
    /// Versions at the source of the objects that were sent, by place: a list that is begun anew sends others only.
    sent: HashMap<String, String>,
}

/// How the reading of a list ended.
enum Listed {
    /// The list is of one moment: this version.
    Whole(String),
    /// The source forgot the version of the first pages.
    Torn,
    /// The source has no such list.
    Unserved,
}

impl Move<'_> {
    /// Copies every object that the state file does not say to be copied.
    ///
    /// # Errors
    /// A server cannot be used any further.
    pub(super) async fn copy_all(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let (mut progress, mut waiting) = (Progress::new(out), Vec::new());
        if let Some(kind) = self.kind(&definitions_id(self.brand)) {
            self.copy_kind(&kind, &mut waiting, &mut progress).await?;
        }
        self.survey(Survey::OnceServed).await?;
        let kinds = self.kinds.lock().all.clone();
        for kind in kinds {
            let id = kind.id();
            if id == definitions_id(self.brand) {
                continue;
            }
            if let Some(reason) = left_out::of_kind(self.brand, &kind, self.arguments.with_events) {
                self.report.lock().left_out_kind(&id, reason);
                continue;
            }
            match self.kind(&id) {
                Some(kind) => self.copy_kind(&kind, &mut waiting, &mut progress).await?,
                None => self.count_unserved(&kind).await?,
            }
        }
        self.copy_waiting(waiting, Pending::All).await
    }

    /// Asks both servers what they serve.
    ///
    /// # Errors
    /// A server gives no answer.
    pub(super) async fn survey(&self, survey: Survey) -> anyhow::Result<()> {
        let began = Instant::now();
        let deadline = began + SERVED_MAX;
        let mut served = discover(&self.source).await?;
        served.declare(&self.declared.lock());
        loop {
            let names = discover(&self.target).await?;
            let shared = served.kinds().iter().filter_map(|kind| names.shared(kind, &served));
            let shared = shared.map(|kind| (kind.id(), kind)).collect();
            let elsewhere = served.elsewhere.clone();
            let kinds = Kinds { all: served.kinds().to_vec(), shared, elsewhere, asked: Some(began) };
            // A definition that the target refused never comes into force.
            let is_awaited = {
                let (copied, definitions) = (self.copied.lock(), definitions_id(self.brand));
                let is_missing = |id: &String| !kinds.shared.contains_key(id);
                let ids: Vec<String> = kinds.all.iter().map(Kind::id).filter(is_missing).collect();
                ids.iter().any(|id| copied.is_present_at((&definitions, id)))
            };
            let is_late = self.is_trial() || Instant::now() > deadline;
            if survey == Survey::Now || !is_awaited || is_late {
                let mut known = self.kinds.lock();
                // Another survey beside this one may have asked later.
                if known.asked <= kinds.asked {
                    *known = kinds;
                }
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Counts the objects of a kind that the target does not serve.
    async fn count_unserved(&self, kind: &Kind) -> anyhow::Result<()> {
        let list = self.source.document(&format!("{}?limit=1", kind.list())).await?.unwrap_or_default();
        let items = list["items"].as_array().map_or(0, Vec::len);
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        let objects = u64::try_from(items)? + rest;
        let is_declared = self.declared.lock().contains_key(&kind.id());
        let mut report = self.report.lock();
        match is_declared && self.is_trial() {
            true => report.undeclared(&kind.id(), objects),
            false => report.unserved(&kind.id(), objects),
        }
        Ok(())
    }

    /// Copies the objects of one kind; where an earlier run has done that, those that the source has changed since, and those that the
    /// target refused. Those whose owners come later go to `waiting`.
    pub(super) async fn copy_kind<W: Write>(
        &self,
        kind: &Kind,
        waiting: &mut Vec<Waiting>,
        progress: &mut Progress<'_, W>,
    ) -> anyhow::Result<()> {
        let id = kind.id();
        let before = waiting.len();
        let since = self.copied.lock().version(&id).and_then(|version| version.parse().ok());
        let mut lists = Lists { kind, id, since, before, listed: HashSet::new(), sent: HashMap::new() };
        for _ in 0..=RESTARTS_MAX {
            let version = match self.copy_list(&mut lists, waiting, progress).await? {
                Listed::Whole(version) => version,
                // The next one sends what has changed since the objects were sent.
                Listed::Torn => continue,
                Listed::Unserved => return Ok(()),
            };
            self.remove_unlisted(kind, &lists.id, &lists.listed).await?;
            if waiting.len() == before {
                self.finish(&lists.id, &version)?;
            } else {
                self.copied.lock().set_pending(&lists.id, &version);
            }
            return Ok(());
        }
        bail!("{} cannot be copied: the source forgets its versions faster than they are listed", lists.id)
    }

    /// Copies the objects of a list that were not sent as it has them.
    async fn copy_list<W: Write>(
        &self,
        lists: &mut Lists<'_>,
        waiting: &mut Vec<Waiting>,
        progress: &mut Progress<'_, W>,
    ) -> anyhow::Result<Listed> {
        let (kind, path, mut cursor) = (lists.kind, lists.kind.list(), Cursor::default());
        while let Some(page) = self.source.page(&path, &mut cursor).await? {
            if page.is_first {
                lists.listed.clear();
                waiting.truncate(lists.before);
            }
            self.look_at_endings(&page.items).await?;
            let items = page.items.into_iter().filter(|item| self.is_moving(kind, &lists.id, item));
            let items: Vec<Value> = items.collect();
            lists.listed.extend(items.iter().map(place_of));
            let is_new = |item: &Value| {
                lists.sent.get(&place_of(item)) != Some(&version_of(item))
                    && !self.has_been_copied(lists, item)
            };
            let items = items.into_iter().filter(is_new).collect();
            let ready = self.ready(kind, items, waiting);
            let sent: Vec<(String, String)> =
                ready.iter().map(|item| (place_of(item), version_of(item))).collect();
            let late = self.send(kind, &lists.id, ready).await?;
            let read_again: HashSet<&str> = late.iter().map(|later| later.place.as_str()).collect();
            let copied = self.copied.lock();
            let is_there = |at: &(String, String)| {
                let refused = copied.refusals().contains_key(&(lists.id.clone(), at.0.clone()));
                !refused && !read_again.contains(at.0.as_str()) && copied.is_present_at((&lists.id, &at.0))
            };
            lists.sent.extend(sent.into_iter().filter(is_there));
            drop(copied);
            waiting.extend(late);
            progress.tell(|| format!("{} objects copied; at {}", self.report.lock().total(), lists.id))?;
            if page.next.is_empty() {
                return Ok(if page.is_torn { Listed::Torn } else { Listed::Whole(page.version) });
            }
        }
        Ok(Listed::Unserved)
    }

    /// Whether an earlier run has copied `item`, and the source has not changed it since.
    fn has_been_copied(&self, lists: &Lists<'_>, item: &Value) -> bool {
        let is_of_then = |since: u64| version_of(item).parse::<u64>().is_ok_and(|version| version <= since);
        if !lists.since.is_some_and(is_of_then) {
            return false;
        }
        let (copied, place) = (self.copied.lock(), place_of(item));
        let at = (lists.id.as_str(), place.as_str());
        let is_refused = copied.refusals().contains_key(&(lists.id.clone(), place.clone()));
        copied.has_at(at, uid_of(item)) && copied.is_present_at(at) && !is_refused
    }

    /// Notes that everything of the kind up to `version` is copied.
    pub(super) fn finish(&self, id: &str, version: &str) -> anyhow::Result<()> {
        self.journal.lock().write(&kind_line(id, version))?;
        self.copied.lock().set_version(id, version);
        Ok(())
    }

    /// Whether `item` is one of the objects that move; else it is counted.
    pub(super) fn is_moving(&self, kind: &Kind, id: &str, item: &Value) -> bool {
        if is_namespaces(kind) {
            let is_ending = item["metadata"]["deletionTimestamp"].is_string();
            let (mut copied, name) = (self.copied.lock(), place_of(item));
            if is_ending { copied.note_ending(&name) } else { copied.note_lasting(&name) }
        }
        let Some((reason, is_ending)) = self.reason_to_stay(kind, item) else {
            if left_out::is_token(self.brand, kind, item) {
                self.report.lock().token();
            }
            return true;
        };
        let mut report = self.report.lock();
        match left_out::finalizers(self.brand, item).filter(|_| is_ending) {
            Some(finalizers) => report.held(id, &place_of(item), finalizers),
            None => report.left_out(id, reason),
        }
        false
    }

    /// Why `item` does not move, and whether it goes with its namespace.
    pub(super) fn reason_to_stay(&self, kind: &Kind, item: &Value) -> Option<(&'static str, bool)> {
        let namespace = item["metadata"]["namespace"].as_str().unwrap_or_default();
        match left_out::of_object(self.brand, kind, item) {
            Some(reason) => Some((reason, is_namespaces(kind))),
            None => {
                let is_ending = kind.namespaced && self.copied.lock().is_ending(namespace);
                is_ending.then_some(("its namespace is being deleted at the source", true))
            }
        }
    }

    /// Looks whether the namespaces of `items` that were being deleted still are: another one may have the name by now.
    pub(super) async fn look_at_endings(&self, items: &[Value]) -> anyhow::Result<()> {
        let namespaces = items.iter().filter_map(|item| item["metadata"]["namespace"].as_str());
        let ending: BTreeSet<&str> = namespaces.filter(|name| self.copied.lock().is_ending(name)).collect();
        for name in ending {
            let found = self.source.document(&format!("/api/v1/namespaces/{name}")).await?;
            // The objects of a namespace that is gone are gone, too.
            if found.is_some_and(|found| !found["metadata"]["deletionTimestamp"].is_string()) {
                self.copied.lock().note_lasting(name);
            }
        }
        Ok(())
    }

    /// Removes the objects of `kind` that were brought, and the source's list lacks. One that was copied ahead of its event is newer than
    /// the list: the source is asked.
    async fn remove_unlisted(&self, kind: &Kind, id: &str, listed: &HashSet<String>) -> anyhow::Result<()> {
        let missing = self.copied.lock().missing_in(id, listed);
        let questions = missing.iter().map(|place| async move {
            let found = self.source.document(&kind.path_of(place)).await?;
            let stays = found.is_some_and(|found| {
                let brought = self.copied.lock().uid_at((id, place));
                let is_it = brought.is_none_or(|brought| brought == uid_of(&found));
                is_it && self.reason_to_stay(kind, &found).is_none()
            });
            anyhow::Ok((!stays).then_some(place))
        });
        let gone: Vec<_> = stream::iter(questions).buffer_unordered(UNDER_WAY_MAX).try_collect().await?;
        for place in gone.into_iter().flatten() {
            self.apply_removal(kind, id, place).await?;
        }
        Ok(())
    }
}

/// Whether `kind` is that of namespaces.
pub(super) fn is_namespaces(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

fn version_of(item: &Value) -> String {
    item["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
