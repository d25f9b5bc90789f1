//! Writes to the target, and their entries in the books and in the state file.
//!
//! Owns the order of three: what stood under a name before is removed first, then the state file is written, then the object is sent.
//!
//! Invariant: before an owner is removed at the target its dependents are as the source has them, because the target's garbage collector
//! would remove those that the source has released.

use std::collections::HashSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::Move;
use super::copied::Place;
use super::journal::{copy_line, gone_line, good_line, refusal_line};
use super::kinds::{Kind, definitions_id, place_of, stored_version};
use super::owners::{owners_of, uids_of};
use super::servers::UNDER_WAY_MAX;
use super::target::{Namesakes, Put, Removal, Trial, put, remove};
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

    /// Sends `objects`, many at once.
    pub(super) async fn send(&self, kind: &Kind, id: &str, objects: Vec<Value>) -> anyhow::Result<()> {
        let mut newest = Vec::new();
        for object in objects {
            if self.make_way(kind, id, &place_of(&object), uid_of(&object)).await? == Way::Free {
                newest.push(object);
            }
        }
        self.expect(kind, id, &newest)?;
        let sends = newest.into_iter().map(|object| self.send_one(kind, id, object));
        stream::iter(sends).buffer_unordered(UNDER_WAY_MAX).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Sends one object, with or without its owners.
    pub(super) async fn send_object(
        &self,
        kind: &Kind,
        id: &str,
        object: Value,
        owners: Owners,
    ) -> anyhow::Result<()> {
        match self.make_way(kind, id, &place_of(&object), uid_of(&object)).await? {
            Way::Free => self.send_as(kind, id, object, owners).await,
            Way::Newer => Ok(()),
        }
    }

    /// The same for an object that has the uid of the one at its place.
    async fn send_as(&self, kind: &Kind, id: &str, mut object: Value, owners: Owners) -> anyhow::Result<()> {
        self.expect(kind, id, std::slice::from_ref(&object))?;
        if owners == Owners::Omitted
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("ownerReferences");
        }
        self.send_one(kind, id, object).await
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
        let has_other = self.copied.lock().has_other_at((id, place), uid);
        if !has_other {
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

    /// Sends an object that the state file names.
    async fn send_one(&self, kind: &Kind, id: &str, object: Value) -> anyhow::Result<()> {
        let (place, uid) = (place_of(&object), uid_of(&object).to_owned());
        let declares = if self.is_definition(id) { stored_version(&object) } else { None };
        match put(&self.target, (self.brand, kind), object, self.modes()).await? {
            Put::Present => {
                let was_refused = self.copied.lock().note_present((id, &place), &uid);
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
            let uid = uid.clone();
            let dependents = uid.map(|uid| self.copied.lock().dependents(&uid)).unwrap_or_default();
            for dependent in dependents {
                if seen.insert(dependent.clone()) {
                    removed.extend(self.bring_up_to_date(&dependent, &mut put_off).await?);
                }
            }
            at += 1;
        }
        for (kind, place, uid) in removed.iter().rev() {
            let (id, now) = (kind.id(), self.copied.lock().uid_at((&kind.id(), place)));
            // Another watch may have brought a newer object meanwhile.
            if now == *uid {
                self.remove_one(kind, &id, place).await?;
            }
        }
        // The removals have ended the notes of what comes to their places.
        for (at, later) in put_off {
            self.owe(&at, &later.uid)?;
            self.later.lock().insert(at, later);
        }
        Ok(())
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
        let object = self.source.document(&kind.path_of(place)).await?;
        let brought = self.copied.lock().uid_at((id, place));
        let Some(object) = object else {
            return Ok(Some((kind, place.clone(), brought)));
        };
        let now = Waiting::of(self.brand, &kind, &object);
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
        self.send_as(&kind, id, object, owners).await?;
        if owners == Owners::Omitted {
            self.owe(&at, &uid)?;
        }
        Ok(None)
    }

    /// Removes the object at `place`, if this move has brought it.
    async fn remove_one(&self, kind: &Kind, id: &str, place: &str) -> anyhow::Result<()> {
        if self.is_definition(id)
            && let Some(declared) = self.kind(place)
        {
            // Nobody at the target takes off what holds them.
            let objects = self.copied.lock().places_of(place);
            for object in objects {
                self.remove_plain(&declared, place, &object).await?;
            }
        }
        self.remove_plain(kind, id, place).await
    }

    async fn remove_plain(&self, kind: &Kind, id: &str, place: &str) -> anyhow::Result<()> {
        let uid = self.copied.lock().uid_at((id, place));
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
