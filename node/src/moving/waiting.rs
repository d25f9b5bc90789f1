//! Objects that come later than their list, because what they need is not at the target.
//!
//! Owns the order among them, and the search for owners that no list has brought: an owner that was made between two lists is copied first; one
//! that the source does not have either is nothing to wait for. One whose kind the target does not serve bars its dependents: the target's
//! garbage collector leaves them alone only until it serves the kind.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use orch_proto::Brand;
use serde_json::Value;

use super::copied::{Barred, Copied};
use super::kinds::{Kind, place_of};
use super::owners::{Owner, account_of, owners_of, uids_of};
use super::sending::{Owners, Way};
use super::servers::UNDER_WAY_MAX;
use super::{Move, left_out};

/// An object whose owners, or whose namespace, come later.
pub(super) struct Waiting {
    kind: Kind,
    pub(super) place: String,
    pub(super) uid: String,
    pub(super) owners: Vec<Owner>,
}

impl Waiting {
    pub(super) fn of(brand: &Brand, kind: &Kind, object: &Value) -> Waiting {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let owners = owners_of(brand, kind, object);
        Waiting { kind: kind.clone(), place: place_of(object), uid, owners }
    }

    /// Empty for objects of the cluster.
    pub(super) fn namespace(&self) -> &str {
        self.place.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// What became of the search for an owner.
pub(super) enum Found {
    /// The source has it, and it moves.
    Moving(Waiting),
    /// The same, but the target does not serve its kind, which has this id.
    Unserved(String),
    /// It does not come: the books say why.
    Gone,
}

/// The kinds that are finished once the objects that waited are copied.
#[derive(Clone, Copy)]
pub(super) enum Pending<'a> {
    All,
    /// The one of this id: others are being copied beside it.
    Kind(&'a str),
    Nothing,
}

impl Move<'_> {
    /// Those of `items` whose owners and whose namespace are at the target.
    pub(super) fn ready(&self, kind: &Kind, items: Vec<Value>, waiting: &mut Vec<Waiting>) -> Vec<Value> {
        // Nothing is collected in a dry run.
        if self.is_trial() {
            return items;
        }
        let mut ready = Vec::new();
        for item in items {
            let later = Waiting::of(self.brand, kind, &item);
            let copied = self.copied.lock();
            if copied.are_present(&later.owners) && copied.has_home(kind, later.namespace()) {
                ready.push(item);
            } else {
                waiting.push(later);
            }
        }
        ready
    }

    /// Copies the objects that waited for their owners: round by round those whose owners have come, and those whose owners the
    /// source does not have either; then rings of owners, without their owners first.
    pub(super) async fn copy_waiting(
        &self,
        mut waiting: Vec<Waiting>,
        of: Pending<'_>,
    ) -> anyhow::Result<()> {
        loop {
            waiting.extend(std::mem::take(&mut *self.later.lock()).into_values());
            if waiting.is_empty() {
                break;
            }
            self.find_owners(&mut waiting).await?;
            let (ready, mut rest) = split(&self.copied.lock(), waiting);
            let is_ring = ready.is_empty();
            let batch = if is_ring { std::mem::take(&mut rest) } else { ready };
            if is_ring {
                self.copy_places(&batch, Owners::Omitted).await?;
            }
            rest.extend(self.copy_places(&batch, Owners::Kept).await?);
            waiting = rest;
        }
        let pending = match of {
            Pending::All => self.copied.lock().take_pending(),
            Pending::Kind(id) => self.copied.lock().take_pending_of(id).into_iter().collect(),
            Pending::Nothing => BTreeMap::new(),
        };
        pending.iter().try_for_each(|(id, version)| self.finish(id, version))
    }

    /// Asks the source for the owners of `waiting` that neither came nor wait. Those that move wait from now on.
    async fn find_owners(&self, waiting: &mut Vec<Waiting>) -> anyhow::Result<()> {
        loop {
            let mut unknown: BTreeMap<String, (Owner, String)> = BTreeMap::new();
            {
                let uids: BTreeSet<&str> = waiting.iter().map(|later| later.uid.as_str()).collect();
                let copied = self.copied.lock();
                for later in waiting.iter() {
                    let owners = copied.unknown(&later.owners);
                    for owner in owners.filter(|owner| !uids.contains(owner.uid.as_str())) {
                        unknown.insert(owner.uid.clone(), (owner.clone(), later.namespace().to_owned()));
                    }
                }
            }
            if unknown.is_empty() {
                return Ok(());
            }
            let searches = unknown.iter().map(|(uid, (owner, namespace))| async move {
                anyhow::Ok((uid, self.find(owner, namespace).await?))
            });
            let found: Vec<_> = stream::iter(searches).buffer_unordered(UNDER_WAY_MAX).try_collect().await?;
            for (uid, found) in found {
                match found {
                    Found::Moving(owner) => waiting.push(owner),
                    Found::Unserved(_) => self.copied.lock().note_unserved(uid),
                    Found::Gone => {}
                }
            }
        }
    }

    /// Looks for the owner of an object in `namespace` at the source.
    pub(super) async fn find(&self, owner: &Owner, namespace: &str) -> anyhow::Result<Found> {
        let (kind, is_served) = {
            let kinds = self.kinds.lock();
            let is_it = |kind: &&Kind| kind.is_of(&owner.group, &owner.kind);
            let shared = kinds.shared.values().find(is_it);
            (shared.or_else(|| kinds.all.iter().find(is_it)).cloned(), shared.is_some())
        };
        // The garbage collector leaves owners alone whose kind is not served; one that the source does not serve does not come.
        let Some(kind) = kind.filter(|kind| !kind.namespaced || !namespace.is_empty()) else {
            self.copied.lock().note_absent(&owner.uid);
            return Ok(Found::Gone);
        };
        let place = if kind.namespaced { format!("{namespace}/{}", owner.name) } else { owner.name.clone() };
        let found = self.source.document(&kind.path_of(&place)).await?;
        let Some(object) = found.filter(|object| object["metadata"]["uid"] == owner.uid.as_str()) else {
            self.copied.lock().note_absent(&owner.uid);
            return Ok(Found::Gone);
        };
        let of_kind = left_out::of_kind(self.brand, &kind, self.arguments.with_events);
        if of_kind.is_some() || self.reason_to_stay(&kind, &object).is_some() {
            self.copied.lock().note_staying(&owner.uid);
            return Ok(Found::Gone);
        }
        Ok(match is_served {
            true => Found::Moving(Waiting::of(self.brand, &kind, &object)),
            false => Found::Unserved(kind.id()),
        })
    }

    /// Copies `batch`; returns the objects of it that have to wait again, because they name other owners by now.
    async fn copy_places(&self, batch: &[Waiting], owners: Owners) -> anyhow::Result<Vec<Waiting>> {
        let mut kinds: BTreeMap<String, Vec<&Waiting>> = BTreeMap::new();
        for later in batch {
            let id = later.kind.id();
            if self.make_way(&later.kind, &id, &later.place, &later.uid).await? == Way::Free {
                kinds.entry(id).or_default().push(later);
            }
        }
        for (id, of_kind) in &kinds {
            let entry = |later: &&Waiting| (later.place.clone(), later.uid.clone(), uids_of(&later.owners));
            self.expect_places(id, of_kind.iter().map(entry))?;
        }
        let sends = kinds.values().flatten().map(|later| self.copy_later(later, owners));
        let again: Vec<_> = stream::iter(sends).buffer_unordered(UNDER_WAY_MAX).try_collect().await?;
        Ok(again.into_iter().flatten().collect())
    }

    /// Copies an object as it is now. Returns it where it names other owners by now, which are not at the target.
    async fn copy_later(&self, later: &Waiting, owners: Owners) -> anyhow::Result<Option<Waiting>> {
        let (kind, id, place) = (&later.kind, later.kind.id(), later.place.as_str());
        let barrier = self.copied.lock().barrier(&later.owners);
        if let Some(barred) = barrier {
            let reason = match barred {
                Barred::Refused => "its owner was refused, and the target would collect it as garbage",
                Barred::Unserved => {
                    "the target does not serve the kind of its owner: once it does, it would collect it as garbage"
                }
                Barred::Stays => "its owner does not move, and the target would collect it as garbage",
            };
            self.refuse((&id, place), &later.uid, reason.to_owned())?;
            return Ok(None);
        }
        let mut turn = self.turns.take((&id, place)).await;
        let mut newest = self.newest(kind, &id, place).await?;
        if let Some((_, now)) = &newest
            && self.has_other_at((&id, place), &now.uid)
        {
            drop(turn);
            if self.make_way(kind, &id, place, &now.uid).await? == Way::Newer {
                return Ok(None);
            }
            turn = self.turns.take((&id, place)).await;
            newest = self.newest(kind, &id, place).await?;
        }
        let Some((object, now)) = newest else {
            drop(turn);
            self.apply_removal(kind, &id, place).await?;
            return Ok(None);
        };
        let is_settled = self.copied.lock().are_settled(&now.owners);
        if owners == Owners::Kept && now.owners != later.owners && !is_settled {
            return Ok(Some(now));
        }
        let account =
            account_of(self.brand, &object).filter(|_| left_out::is_token(self.brand, kind, &object));
        if account.is_some_and(|account| self.copied.lock().is_absent(&account.uid)) {
            // The source is about to delete it, and the target would.
            drop(turn);
            self.report.lock().left_out(&id, "the service account of its token is not at the source");
            self.apply_removal(kind, &id, place).await?;
            return Ok(None);
        }
        self.send_in_turn(&turn, kind, object, owners).await?;
        Ok(None)
    }
}

/// Those of `waiting` for whose owners nothing is left to wait for, and the rest.
fn split(copied: &Copied, waiting: Vec<Waiting>) -> (Vec<Waiting>, Vec<Waiting>) {
    let uids: BTreeSet<String> = waiting.iter().map(|later| later.uid.clone()).collect();
    waiting.into_iter().partition(|later| {
        let mut owners = later.owners.iter();
        owners.all(|owner| copied.are_present(std::slice::from_ref(owner)) || !uids.contains(&owner.uid))
    })
}
