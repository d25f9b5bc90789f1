//! The pass over all objects of the source.
//!
//! Owns the order, and which objects wait for their owners. A kind is read page by page; the objects of a page are sent at once, and
//! only places are kept of those that wait.

use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::copied::{Place, owners_of};
use super::journal::{copy_line, gone_line, kind_line};
use super::kinds::{Kind, Served, discover, place_of};
use super::servers::{Cursor, UNDER_WAY_MAX};
use super::target::{Namesakes, Put, Trial, put, remove};
use super::{Move, left_out};

/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Longest wait until the target serves the kinds of the definitions that were copied: milliseconds for each, as a rule.
const SERVED_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An object whose owners, or whose namespace, come later.
pub(super) struct Waiting {
    kind: Kind,
    pub(super) place: String,
    uid: String,
    owners: Vec<String>,
}

/// The lines of progress.
pub(super) struct Progress<'o, W> {
    pub(super) out: &'o mut W,
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

impl Move<'_> {
    fn trial(&self) -> Trial {
        if self.arguments.dry_run { Trial::Dry } else { Trial::Real }
    }

    fn namesakes(&self) -> Namesakes {
        if self.arguments.replace { Namesakes::All } else { Namesakes::Own }
    }

    /// Copies every object that the state file does not say to be copied.
    ///
    /// # Errors
    /// A server cannot be used any further.
    pub(super) async fn copy_all(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut progress = Progress::new(out);
        let (definitions, others): (Vec<Kind>, Vec<Kind>) =
            self.served.kinds().iter().cloned().partition(|kind| self.served.is_definition(kind));
        let mut waiting = Vec::new();
        for kind in definitions {
            self.copy_kind(&kind, &mut waiting, &mut progress).await?;
        }
        let names = self.wait_for_kinds().await?;
        for kind in others {
            let id = kind.id();
            if let Some(reason) = left_out::of_kind(self.served.brand, &kind, self.arguments.with_events) {
                self.report.lock().left_out_kind(&id, reason);
                continue;
            }
            match names.shared(&kind, &self.served) {
                Some(kind) => self.copy_kind(&kind, &mut waiting, &mut progress).await?,
                None => self.count_unserved(&kind).await?,
            }
        }
        self.copy_waiting(waiting, Pending::All).await
    }

    /// What the target serves, once it serves the kinds of all definitions in force at the source.
    async fn wait_for_kinds(&self) -> anyhow::Result<Served> {
        let deadline = Instant::now() + SERVED_MAX;
        loop {
            let names = discover(&self.target).await?;
            let is_missing = |kind: &&Kind| names.shared(kind, &self.served).is_none();
            let is_declared = |kind: &&Kind| {
                let group = kind.group.as_str();
                group.contains('.') && !group.ends_with(self.served.brand.group_domain)
            };
            let missing = self.served.kinds().iter().filter(is_declared).find(is_missing);
            // A definition that the target refused never comes into force.
            if missing.is_none() || self.trial() == Trial::Dry || Instant::now() > deadline {
                return Ok(names);
            }
            if !self.report.lock().is_whole() {
                return Ok(names);
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
        let definition = self.served.kinds().iter().find(|other| self.served.is_definition(other));
        let is_declared = match definition {
            Some(definition) => self.source.document(&definition.path_of(&kind.id())).await?.is_some(),
            None => false,
        };
        let mut report = self.report.lock();
        match is_declared && self.trial() == Trial::Dry {
            true => report.undeclared(&kind.id(), objects),
            false => report.unserved(&kind.id(), objects),
        }
        Ok(())
    }

    /// Copies the objects of one kind, unless that was done. Those whose owners come later go to `waiting`.
    pub(super) async fn copy_kind<W: Write>(
        &self,
        kind: &Kind,
        waiting: &mut Vec<Waiting>,
        progress: &mut Progress<'_, W>,
    ) -> anyhow::Result<()> {
        let id = kind.id();
        if self.copied.lock().version(&id).is_some() {
            return Ok(());
        }
        let (path, mut cursor) = (kind.list(), Cursor::default());
        let (mut listed, before) = (HashSet::new(), waiting.len());
        loop {
            let Some(page) = self.source.page(&path, &mut cursor).await? else { return Ok(()) };
            if page.is_first {
                listed.clear();
                waiting.truncate(before);
            }
            let items = page.items.into_iter().filter(|item| self.is_moving(kind, &id, item));
            let items: Vec<Value> = items.collect();
            listed.extend(items.iter().map(place_of));
            let ready = self.ready(kind, items, waiting);
            self.send(kind, &id, ready).await?;
            progress.tell(|| format!("{} objects copied; at {id}", self.report.lock().total()))?;
            if page.next.is_empty() {
                self.remove_unlisted(kind, &id, &listed).await?;
                if waiting.len() == before {
                    self.finish(&id, &page.version)?;
                } else {
                    self.copied.lock().set_pending(&id, &page.version);
                }
                return Ok(());
            }
        }
    }

    /// Notes that everything of the kind up to `version` is copied.
    pub(super) fn finish(&self, id: &str, version: &str) -> anyhow::Result<()> {
        self.journal.lock().write(&kind_line(id, version))?;
        self.copied.lock().set_version(id, version);
        Ok(())
    }

    /// Whether `item` is one of the objects that move; else it is counted.
    pub(super) fn is_moving(&self, kind: &Kind, id: &str, item: &Value) -> bool {
        let namespace = item["metadata"]["namespace"].as_str().unwrap_or_default();
        let reason = left_out::of_object(self.served.brand, kind, item).or_else(|| {
            let is_ending = self.copied.lock().is_ending(namespace);
            is_ending.then_some("its namespace is being deleted at the source")
        });
        if let Some(reason) = reason {
            if kind.group.is_empty() && kind.plural == "namespaces" {
                self.copied.lock().note_ending(&place_of(item));
            }
            self.report.lock().left_out(id, reason);
            return false;
        }
        if left_out::is_token(self.served.brand, kind, item) {
            self.report.lock().token();
        }
        true
    }

    /// Those of `items` whose owners and whose namespace are at the target.
    fn ready(&self, kind: &Kind, items: Vec<Value>, waiting: &mut Vec<Waiting>) -> Vec<Value> {
        // Nothing is collected in a dry run.
        if self.trial() == Trial::Dry {
            return items;
        }
        let copied = self.copied.lock();
        let (ready, later): (Vec<_>, Vec<_>) = items
            .into_iter()
            .partition(|item| copied.are_present(&owners_of(item)) && copied.has_home(kind, item));
        waiting.extend(later.into_iter().map(|item| {
            let uid = item["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            Waiting { kind: kind.clone(), place: place_of(&item), uid, owners: owners_of(&item) }
        }));
        ready
    }

    /// Sends `objects`, many at once.
    async fn send(&self, kind: &Kind, id: &str, objects: Vec<Value>) -> anyhow::Result<()> {
        self.expect(id, &objects)?;
        let sends = objects.into_iter().map(|object| self.send_one(kind, id, object));
        stream::iter(sends).buffer_unordered(UNDER_WAY_MAX).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Writes into the state file that `objects` are about to be sent.
    pub(super) fn expect(&self, id: &str, objects: &[Value]) -> anyhow::Result<()> {
        let (mut lines, mut copied) = (String::new(), self.copied.lock());
        for object in objects {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            let (place, owners) = (place_of(object), owners_of(object));
            if copied.uid_at((id, &place)).as_deref() != Some(uid) {
                lines += &copy_line((id, &place), uid, &owners);
            }
            copied.expect((id, &place), uid, &owners);
        }
        self.journal.lock().write(&lines)
    }

    /// Sends an object that the state file names.
    pub(super) async fn send_one(&self, kind: &Kind, id: &str, object: Value) -> anyhow::Result<()> {
        let place = place_of(&object);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let modes = (self.trial(), self.namesakes());
        let outcome = put(&self.target, (self.served.brand, kind), object, modes).await?;
        match outcome {
            Put::Present => {
                self.copied.lock().note_present(&uid);
                self.report.lock().copied(id);
            }
            Put::Refused(reason) => self.refuse((id, &place), &uid, reason),
            Put::Homeless => self.refuse((id, &place), &uid, "its namespace is not at the target".to_owned()),
        }
        Ok(())
    }

    fn refuse(&self, at: (&str, &str), uid: &str, reason: String) {
        self.copied.lock().note_refused(at, uid);
        self.report.lock().refused(at.0, at.1, reason);
    }

    /// Removes the objects of `kind` that were brought, and the source's list lacks. Their dependents come first: the target's garbage
    /// collector would take those that the source has released.
    async fn remove_unlisted(&self, kind: &Kind, id: &str, listed: &HashSet<String>) -> anyhow::Result<()> {
        let missing = self.copied.lock().missing_in(id, listed);
        for place in missing {
            self.apply_removal(kind, id, &place).await?;
        }
        Ok(())
    }

    /// Removes the object at `place`, if this move has brought it.
    pub(super) async fn remove_one(&self, kind: &Kind, id: &str, place: &str) -> anyhow::Result<()> {
        let Some(uid) = self.copied.lock().uid_at((id, place)) else { return Ok(()) };
        remove(&self.target, kind, self.served.is_definition(kind), place, &uid).await?;
        self.journal.lock().write(&gone_line((id, place)))?;
        self.copied.lock().remove((id, place));
        self.report.lock().removed(id);
        Ok(())
    }

    /// Copies the objects that waited for their owners: round by round those whose owners have come; then those whose owners the source
    /// does not have either; and rings of owners, without their owners first.
    pub(super) async fn copy_waiting(
        &self,
        mut waiting: Vec<Waiting>,
        of: Pending<'_>,
    ) -> anyhow::Result<()> {
        while !waiting.is_empty() {
            let (mut ready, mut rest) = (Vec::new(), Vec::new());
            let uids: BTreeSet<String> = waiting.iter().map(|later| later.uid.clone()).collect();
            for later in waiting {
                let copied = self.copied.lock();
                // An owner that neither came nor waits is not there at the source.
                let is_ready = later
                    .owners
                    .iter()
                    .all(|owner| !uids.contains(owner) || copied.are_present(std::slice::from_ref(owner)));
                drop(copied);
                if is_ready { ready.push(later) } else { rest.push(later) }
            }
            let is_ring = ready.is_empty();
            let batch = if is_ring { std::mem::take(&mut rest) } else { ready };
            if is_ring {
                self.copy_places(&batch, Owners::Omitted).await?;
            }
            self.copy_places(&batch, Owners::Kept).await?;
            waiting = rest;
        }
        let pending = match of {
            Pending::All => self.copied.lock().take_pending(),
            Pending::Kind(id) => self.copied.lock().take_pending_of(id).into_iter().collect(),
        };
        pending.iter().try_for_each(|(id, version)| self.finish(id, version))
    }

    async fn copy_places(&self, batch: &[Waiting], owners: Owners) -> anyhow::Result<()> {
        let sends = batch.iter().map(|later| self.copy_later(later, owners));
        stream::iter(sends).buffer_unordered(UNDER_WAY_MAX).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    async fn copy_later(&self, later: &Waiting, owners: Owners) -> anyhow::Result<()> {
        let (id, place) = (later.kind.id(), later.place.as_str());
        if self.copied.lock().is_refused(&later.owners) {
            let reason = "its owner was refused, and the target would collect it as garbage".to_owned();
            self.refuse((&id, place), &later.uid, reason);
            return Ok(());
        }
        self.copy_place(&later.kind, (&id, place), owners).await
    }

    /// Copies the object at a place as it is now; without one, nothing.
    pub(super) async fn copy_place(
        &self,
        kind: &Kind,
        (id, place): (&str, &str),
        owners: Owners,
    ) -> anyhow::Result<()> {
        let Some(mut object) = self.source.document(&kind.path_of(place)).await? else { return Ok(()) };
        if !object["metadata"]["uid"].is_string() {
            bail!("the source answers {} with no object", kind.path_of(place));
        }
        self.expect(id, std::slice::from_ref(&object))?;
        if owners == Owners::Omitted
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("ownerReferences");
        }
        self.send_one(kind, id, object).await
    }

    /// The kind of this id that the source serves and the target, too.
    pub(super) fn kind_of<'k>(&self, kinds: &'k [Kind], place: &Place) -> Option<&'k Kind> {
        // few: a hundred kinds, for an owner that is deleted.
        kinds.iter().find(|kind| kind.id() == place.0)
    }
}

/// The kinds that are finished once the objects that waited are copied.
#[derive(Clone, Copy)]
pub(super) enum Pending<'a> {
    All,
    /// The one of this id: others are being copied beside it.
    Kind(&'a str),
}

/// Whether an object is sent with its owners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    Kept,
    Omitted,
}
