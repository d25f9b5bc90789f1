//! Rejected and gated pods, found by the plugins that rejected them.
//!
//! Pods of one profile with the same shape and the same rejectors form a group: what helps one of them helps all. Groups
//! are indexed by plugin, so that an event only costs a hint for each group that it may help. Invariant: each pod is in
//! one group, no group is empty, and a group stands under each of its rejectors; a gated one only under the plugin that
//! gates it, since no other can let it through.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, EntryId};
use super::pod::PodShape;
use super::rejector::{Rejector, Rejectors};
use crate::plugin::Plugin;

/// The number of a group.
pub(super) type GroupId = u64;

#[derive(Debug, Default)]
pub(super) struct Unschedulable {
    groups: BTreeMap<GroupId, Group>,
    ids: HashMap<GroupKey, GroupId>,
    next_id: GroupId,
    by_rejector: BTreeMap<Rejector, BTreeSet<GroupId>>,
    /// Rejected pods by the time of their last attempt. Gated pods are not among them: time does not help them.
    by_time: BTreeSet<(Duration, EntryId)>,
    group_of: HashMap<EntryId, GroupId>,
    gated_len: usize,
}

/// Pods that are helped alike.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) profile: usize,
    pub(super) shape: Arc<PodShape>,
    pub(super) unschedulable: Rejectors,
    pub(super) pending: Rejectors,
    pub(super) gated_by: Option<Plugin>,
    pub(super) members: BTreeSet<EntryId>,
}

/// The key of a group. The address stands for the shape, which the group keeps alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    profile: usize,
    shape: usize,
    unschedulable: Rejectors,
    pending: Rejectors,
    gated_by: Option<Plugin>,
}

impl Group {
    fn index_rejectors(&self) -> Rejectors {
        self.gated_by
            .map_or(self.unschedulable.union(self.pending), |rejector| Rejectors::NONE.with(rejector))
    }

    fn key(&self) -> GroupKey {
        GroupKey {
            profile: self.profile,
            shape: Arc::as_ptr(&self.shape).addr(),
            unschedulable: self.unschedulable,
            pending: self.pending,
            gated_by: self.gated_by,
        }
    }
}

impl Unschedulable {
    pub(super) fn len(&self) -> usize {
        self.group_of.len()
    }

    pub(super) fn gated_len(&self) -> usize {
        self.gated_len
    }

    pub(super) fn insert(&mut self, entry: &Entry) {
        let group = Group {
            profile: entry.profile,
            shape: entry.facts.shape.clone(),
            unschedulable: entry.unschedulable,
            pending: entry.pending,
            gated_by: entry.gated_by,
            members: BTreeSet::new(),
        };
        let id = match self.ids.get(&group.key()) {
            Some(id) => *id,
            None => self.add_group(group),
        };
        self.groups.get_mut(&id).expect("a known id has a group").members.insert(entry.id);
        let before = self.group_of.insert(entry.id, id);
        debug_assert!(before.is_none(), "an entry is in one group");
        if entry.gated_by.is_some() {
            self.gated_len += 1;
        } else {
            self.by_time.insert((entry.queued_at, entry.id));
        }
    }

    fn add_group(&mut self, group: Group) -> GroupId {
        let id = self.next_id;
        self.next_id += 1;
        self.ids.insert(group.key(), id);
        for rejector in group.index_rejectors().iter() {
            self.by_rejector.entry(rejector).or_default().insert(id);
        }
        self.groups.insert(id, group);
        id
    }

    /// Takes out `entry`, which may have changed since it was put in, but for its time.
    pub(super) fn remove(&mut self, entry: &Entry) {
        let id = self.group_of.remove(&entry.id).expect("an unschedulable entry is in a group");
        let group = self.groups.get_mut(&id).expect("a known id has a group");
        group.members.remove(&entry.id);
        if group.gated_by.is_some() {
            self.gated_len -= 1;
        } else {
            self.by_time.remove(&(entry.queued_at, entry.id));
        }
        if group.members.is_empty() {
            let group = self.groups.remove(&id).expect("the group was just there");
            self.ids.remove(&group.key());
            for rejector in group.index_rejectors().iter() {
                self.by_rejector.entry(rejector).or_default().remove(&id);
            }
        }
    }

    /// The groups that one of `rejectors` rejected or gates, the oldest first.
    pub(super) fn groups_of(&self, rejectors: impl Iterator<Item = Rejector>) -> BTreeSet<GroupId> {
        rejectors.filter_map(|rejector| self.by_rejector.get(&rejector)).flatten().copied().collect()
    }

    /// The group called `id`.
    pub(super) fn group(&self, id: GroupId) -> &Group {
        &self.groups[&id]
    }

    /// The group of an entry.
    pub(super) fn group_of(&self, entry: EntryId) -> &Group {
        &self.groups[&self.group_of[&entry]]
    }

    /// Groups that are not gated.
    pub(super) fn rejected_groups(&self) -> BTreeSet<GroupId> {
        self.groups.iter().filter(|(_, group)| group.gated_by.is_none()).map(|(id, _)| *id).collect()
    }

    /// Pods whose last attempt was before `time`.
    pub(super) fn rejected_before(&self, time: Duration) -> Vec<EntryId> {
        self.by_time.range(..(time, 0)).map(|(_, id)| *id).collect()
    }

    /// The time of the oldest last attempt.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Numbers of pods by profile and rejector.
    pub(super) fn by_rejector(&self) -> BTreeMap<(usize, Rejector), usize> {
        let mut counts = BTreeMap::new();
        for group in self.groups.values() {
            for rejector in group.unschedulable.union(group.pending).iter() {
                *counts.entry((group.profile, rejector)).or_default() += group.members.len();
            }
        }
        counts
    }
}
