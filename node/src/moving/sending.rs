//! Writes to the target, and their entries in the books and in the state file.
//!
//! Owns the order of three: what stood under a name before is removed first, then the state file is written, then the object is sent.
//!
//! Invariant: before an owner is removed at the target its dependents are as the source has them, because the target's garbage collector
//! would remove those that the source has released. Writes to one place have turns for that: a removal waits for those that are under
//! way, and none that begins later, as an older list or event shows the object, names an owner that is being removed.

use std::collections::HashSet;

use anyhow::bail;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::Move;
use super::copied::Place;
use super::journal::{copy_line, gone_line, good_line, refusal_line};
use super::kinds::{Kind, definitions_id, place_of, stored_version};
use super::owners::{Owner, owners_of, uids_of};
use super::servers::UNDER_WAY_MAX;
use super::target::{Namesakes, Put, Removal, Trial, put, remove};
use super::turns::Turn;
use super::waiting::Waiting;

/// The reason that stands in the state file for an object that comes later.
const OWED: &str = "it comes once what it needs is at the target";

/// Whether an object is sent with its owners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    Kept,
    Omitted,
}

/// Whether an object can be sent to its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Free,
    /// One that the source made after it is there.
    Newer,
}

impl Move<'_> {
    fn modes(&self) -> (Trial, Namesakes) {
        let trial = if self.is_trial() { Trial::Dry } else { Trial::Real };
        let namesakes = if self.arguments.replace { Namesakes::All } else { Namesakes::Own };
        (trial, namesakes)
    }

    fn is_definition(&self, id: &str) -> bool {
        id == definitions_id(self.brand)
    }

    /// Sends `objects` as a list shows them, many at once. Returns those that are to be read again, because an owner goes, or they
    /// themselves have gone since.
    pub(super) async fn send(
        &self,
        kind: &Kind,
        id: &str,
        objects: Vec<Value>,
    ) -> anyhow::Result<Vec<Waiting>> {
        let mut newest = Vec::new();
        for object in objects {
            if self.make_way(kind, id, &place_of(&object), uid_of(&object)).await? == Way::Free {
                newest.push(object);
            }
        }
        self.expect(kind, id, &newest)?;
        let sends = newest.into_iter().map(|object| self.send_shown(kind, id, object));
        let late: Vec<_> = stream::iter(sends).buffer_unordered(UNDER_WAY_MAX).try_collect().await?;
        Ok(late.into_iter().flatten().collect())
    }

    /// Sends one object as an event shows it. Returns it where it is to be read again.
    pub(super) async fn send_object(
        &self,
        kind: &Kind,
        id: &str,
        object: Value,
    ) -> anyhow::Result<Option<Waiting>> {
        match self.make_way(kind, id, &place_of(&object), uid_of(&object)).await? {
            Way::Free => {
                self.expect(kind, id, std::slice::from_ref(&object))?;
                self.send_shown(kind, id, object).await
            }
            Way::Newer => Ok(None),
        }
    }

    /// Sends an object that the state file names, once it has its turn. Returns it where it was removed or an owner is being removed by
    /// then: the source may have a newer state.
    async fn send_shown(&self, kind: &Kind, id: &str, object: Value) -> anyhow::Result<Option<Waiting>> {
        let shown = Waiting::of(self.brand, kind, &object);
        let turn = self.turns.take((id, &shown.place)).await;
        let is_current = {
            let mut copied = self.copied.lock();
            let is_brought = copied.has_at((id, &shown.place), &shown.uid);
            if is_brought {
                // A removal that begins from here on waits for this turn.
                copied.expect((id, &shown.place), &shown.uid, &uids_of(&shown.owners));
            }
            is_brought && copied.are_present(&shown.owners)
        };
        if !is_current && !self.is_trial() {
            return Ok(Some(shown));
        }
        self.send_one(&turn, kind, object, &shown.owners).await?;
        Ok(None)
    }

    /// Sends an object that was read in this turn, with or without its owners.
    pub(super) async fn send_in_turn(
        &self,
        turn: &Turn<'_>,
        kind: &Kind,
        mut object: Value,
        owners: Owners,
    ) -> anyhow::Result<()> {
        self.expect(kind, turn.kind(), std::slice::from_ref(&object))?;
        let named = owners_of(self.brand, kind, &object);
        if owners == Owners::Omitted
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("ownerReferences");
        }
        self.send_one(turn, kind, object, &named).await
    }

    /// The object at `place`, which has its turn, as the source has it, and what it needs; `None`: the source has none.
    ///
    /// The books know its owners behind this: a removal of one that begins later waits for the turn.
    pub(super) async fn newest(
        &self,
        kind: &Kind,
        id: &str,
        place: &str,
    ) -> anyhow::Result<Option<(Value, Waiting)>> {
        loop {
            let removals = self.copied.lock().removals();
            let path = kind.path_of(place);
            let Some(object) = self.source.document(&path).await? else { return Ok(None) };
            if !object["metadata"]["uid"].is_string() {
                bail!("the source answers {path} with no object");
            }
            let now = Waiting::of(self.brand, kind, &object);
            if !self.has_other_at((id, place), &now.uid) {
                self.expect(kind, id, std::slice::from_ref(&object))?;
            }
            // A state that names an owner whose end was seen after the question may be older than that end.
            let is_older = self.copied.lock().are_going_since(&now.owners, removals);
            if !is_older {
                return Ok(Some((object, now)));
            }
        }
    }

    pub(super) fn has_other_at(&self, at: (&str, &str), uid: &str) -> bool {
        self.copied.lock().has_other_at(at, uid)
    }

    /// Removes the object of another uid that was brought to `place`: the source has deleted it, and made another one of the name. An object
    /// that was copied ahead of its event stays, because that of `uid` is the older one: the source is asked.
    pub(super) async fn make_way(
        &self,
        kind: &Kind,
        id: &str,
        place: &str,
        uid: &str,
    ) -> anyhow::Result<Way> {
        if !self.has_other_at((id, place), uid) {
            return Ok(Way::Free);
        }
        if let Some(found) = self.source.document(&kind.path_of(place)).await?
            && uid_of(&found) != uid
            && self.copied.lock().has_at((id, place), uid_of(&found))
        {
            return Ok(Way::Newer);
        }
        self.apply_removal(kind, id, place).await?;
        Ok(Way::Free)
    }

    /// Writes into the state file that `objects` are about to be sent.
    fn expect(&self, kind: &Kind, id: &str, objects: &[Value]) -> anyhow::Result<()> {
        let entries = objects.iter().map(|object| {
            let owners = uids_of(&owners_of(self.brand, kind, object));
            (place_of(object), uid_of(object).to_owned(), owners)
        });
        self.expect_places(id, entries)
    }

    /// The same of places, with the uids of the objects there and of their owners.
    pub(super) fn expect_places(
        &self,
        id: &str,
        entries: impl Iterator<Item = (String, String, Vec<String>)>,
    ) -> anyhow::Result<()> {
        let (mut lines, mut copied) = (String::new(), self.copied.lock());
        for (place, uid, owners) in entries {
            if !copied.has_at((id, &place), &uid) || !copied.has_owners(&uid, &owners) {
                lines += &copy_line((id, &place), &uid, &owners);
            }
            copied.expect((id, &place), &uid, &owners);
        }
        drop(copied);
        self.journal.lock().write_synced(&lines)
    }

    /// Sends an object that the state file names with the owners `named`.
    async fn send_one(
        &self,
        turn: &Turn<'_>,
        kind: &Kind,
        object: Value,
        named: &[Owner],
    ) -> anyhow::Result<()> {
        let id = turn.kind();
        let (place, uid) = (place_of(&object), uid_of(&object).to_owned());
        let declares = if self.is_definition(id) { stored_version(&object) } else { None };
        match put(&self.target, (self.brand, kind), object, self.modes()).await? {
            Put::Present => {
                let was_refused = self.copied.lock().note_arrived((id, &place), &uid, &uids_of(named));
                if was_refused {
                    self.journal.lock().write(&good_line((id, &place), &uid))?;
                }
                self.declared.lock().extend(declares);
                self.report.lock().copied(id);
                Ok(())
            }
            Put::Refused(reason) => self.refuse((id, &place), &uid, reason),
            Put::Homeless => self.refuse((id, &place), &uid, "its namespace is not at the target".to_owned()),
        }
    }

    /// Notes that the target refused an object, to be tried again by the next run.
    pub(super) fn refuse(&self, at: (&str, &str), uid: &str, reason: String) -> anyhow::Result<()> {
        let left = self.copied.lock().note_refused(at, uid, reason.clone());
        self.journal.lock().write(&refusal_line(at, uid, &reason, left))
    }

    /// Removes the object at `place`, if this move has brought it, and with it those of its dependents that the source has no more.
    pub(super) async fn apply_removal(&self, kind: &Kind, id: &str, place: &str) -> anyhow::Result<()> {
        let mut seen: HashSet<Place> = HashSet::from([(id.to_owned(), place.to_owned())]);
        let uid = self.copied.lock().uid_at((id, place));
        let mut removed = vec![(kind.clone(), place.to_owned(), uid)];
        let (mut put_off, mut at) = (Vec::new(), 0);
        while let Some((_, _, uid)) = removed.get(at) {
            let dependents = uid.as_deref().map(|uid| self.begin_removal(uid)).unwrap_or_default();
            for dependent in dependents {
                if seen.insert(dependent.clone()) {
                    removed.extend(self.bring_up_to_date(&dependent, &mut put_off).await?);
                }
            }
            at += 1;
        }
        for (kind, place, uid) in removed.iter().rev() {
            self.remove_one(kind, &kind.id(), place, uid.as_deref()).await?;
        }
        removed.iter().filter_map(|(_, _, uid)| uid.as_deref()).for_each(|uid| {
            self.copied.lock().end_removal(uid);
        });
        // The removals have ended the notes of what comes to their places.
        for (at, later) in put_off {
            self.owe(&at, &later.uid)?;
            self.later.lock().insert(at, later);
        }
        Ok(())
    }

    /// Notes that the object of `uid` is being removed; returns its dependents.
    fn begin_removal(&self, uid: &str) -> Vec<Place> {
        let mut copied = self.copied.lock();
        copied.begin_removal(uid);
        copied.dependents(uid)
    }

    /// Writes into the state file that the object at a place comes later: a run that is broken off before leaves it to the next one.
    fn owe(&self, (id, place): &Place, uid: &str) -> anyhow::Result<()> {
        let left = self.copied.lock().note_owed((id, place), uid, OWED);
        self.journal.lock().write(&refusal_line((id, place), uid, OWED, left))
    }

    /// Brings the dependent of an object that goes to the state of the source. Returns it, with its uid, where that one has it no more;
    /// what is to be copied later goes to `put_off`.
    async fn bring_up_to_date(
        &self,
        (id, place): &Place,
        put_off: &mut Vec<(Place, Waiting)>,
    ) -> anyhow::Result<Option<(Kind, String, Option<String>)>> {
        let Some(kind) = self.kind(id) else { return Ok(None) };
        let turn = self.turns.take((id, place)).await;
        let newest = self.newest(&kind, id, place).await?;
        let brought = self.copied.lock().uid_at((id, place));
        let Some((object, now)) = newest else {
            return Ok(Some((kind, place.clone(), brought)));
        };
        let (is_other, is_settled) = {
            let copied = self.copied.lock();
            (copied.has_other_at((id, place), uid_of(&object)), copied.are_settled(&now.owners))
        };
        let (at, uid) = ((id.clone(), place.clone()), now.uid.clone());
        if is_other {
            self.owe(&at, &uid)?;
            put_off.push((at, now));
            return Ok(Some((kind, place.clone(), brought)));
        }
        let owners = if is_settled { Owners::Kept } else { Owners::Omitted };
        if owners == Owners::Omitted {
            self.owe(&at, &uid)?;
            put_off.push((at.clone(), now));
        }
        self.send_in_turn(&turn, &kind, object, owners).await?;
        if owners == Owners::Omitted {
            self.owe(&at, &uid)?;
        }
        Ok(None)
    }

    /// Removes the object at `place`, if this move has brought it, and it is that of `uid`.
    async fn remove_one(&self, kind: &Kind, id: &str, place: &str, uid: Option<&str>) -> anyhow::Result<()> {
        // Another watch may have brought a newer object meanwhile.
        if self.copied.lock().uid_at((id, place)).as_deref() != uid {
            return Ok(());
        }
        if self.is_definition(id)
            && let Some(declared) = self.kind(place)
        {
            // Nobody at the target takes off what holds them.
            let objects = self.copied.lock().places_of(place);
            for object in objects {
                let uid = self.copied.lock().uid_at((place, &object));
                self.remove_plain(&declared, place, &object, uid.as_deref()).await?;
            }
        }
        self.remove_plain(kind, id, place, uid).await
    }

    async fn remove_plain(
        &self,
        kind: &Kind,
        id: &str,
        place: &str,
        expected: Option<&str>,
    ) -> anyhow::Result<()> {
        let _turn = self.turns.take((id, place)).await;
        let uid = self.copied.lock().uid_at((id, place));
        if uid.as_deref() != expected {
            // The same once more: this turn was waited for.
            return Ok(());
        }
        let Some(uid) = uid else { return self.forget_refusal(id, place) };
        if self.is_trial() {
            return Ok(());
        }
        let removal = remove(&self.target, kind, self.is_definition(id), place, &uid).await?;
        if let Removal::Refused(reason) = removal {
            return self.refuse((id, place), &uid, reason);
        }
        self.journal.lock().write(&gone_line((id, place)))?;
        self.copied.lock().remove((id, place));
        if self.is_definition(id) {
            self.declared.lock().remove(place);
            self.is_undeclared.notify_waiters();
        }
        if removal == Removal::Done {
            self.report.lock().removed(id);
        }
        Ok(())
    }

    /// Notes that an object that was refused, or was to come later, and is not in the books is gone.
    fn forget_refusal(&self, id: &str, place: &str) -> anyhow::Result<()> {
        let at = (id.to_owned(), place.to_owned());
        let was_refused = self.copied.lock().refusals().contains_key(&at);
        if was_refused {
            self.journal.lock().write(&gone_line((id, place)))?;
            self.copied.lock().remove((id, place));
        }
        Ok(())
    }
}

pub(super) fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}
