//! Rebuilds the planner from a new list.
//!
//! Owns the moment of it. The tables of the planner only grow, so that a cluster where objects come and go for months, or a user
//! who makes and deletes pods with thousands of labels, would fill the memory. All objects are then forgotten and listed again,
//! as after a restart; pods wait for seconds in large clusters.
//!
//! Never forgets a job that is under way: its pod could be bound twice. The caller does not forget an eviction either: its
//! preemptor would be planned again, and choose more victims.

use std::collections::HashMap;
use std::time::Duration;

use crate::queue::{Queue, Shapes};

use super::super::input::Effect;
use super::super::planning::Planning;
use super::super::stored::Followed;
use super::{Executor, Objects};

/// The conditions under which all objects are forgotten and listed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuild {
    /// Least size of the tables that only grow.
    pub bytes_min: usize,
    /// Least growth of these tables, as a multiple of their size at the last beginning.
    pub factor: usize,
    /// Shortest time between two beginnings.
    pub interval_min: Duration,
    /// Longest pause of planning, in which the jobs under way may end; after it the beginning is put off by an interval.
    pub pause_max: Duration,
}

impl Default for Rebuild {
    fn default() -> Self {
        Self {
            // About the texts of 100,000 pods with a dozen labels each of their own.
            bytes_min: 128 << 20,
            // Two thirds are waste then, unless the cluster has grown, which makes the next beginning come later.
            factor: 3,
            // The lists of a large cluster take some seconds, and a user who creates and deletes pods without pause must not
            // have the scheduler do nothing else.
            interval_min: Duration::from_secs(30),
            // A binding takes milliseconds, but its outcome may stay unknown for ever.
            pause_max: Duration::from_secs(10),
        }
    }
}

/// The part of the planner's memory that objects which are gone may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wear {
    /// A little part.
    Light,
    /// The larger part: a rebuild is due at a quiet moment.
    Worn,
    /// So large a part that jobs which wait for volumes or devices are cancelled for the rebuild.
    Heavy,
}

/// The limit of [`Wear::Heavy`], as a multiple of that of [`Wear::Worn`].
const HEAVY_FACTOR: usize = 4;

impl<P: Planning> Executor<P> {
    /// Whether a rebuild is due.
    pub fn wear(&self) -> Wear {
        let Rebuild { bytes_min, factor, .. } = self.options.rebuild;
        let Some(known) = self.known_bytes else { return Wear::Light };
        let (bytes, limit) = (self.planning.worn_bytes(), bytes_min.max(known.saturating_mul(factor)));
        match bytes {
            _ if bytes > limit.saturating_mul(HEAVY_FACTOR) => Wear::Heavy,
            _ if bytes > limit => Wear::Worn,
            _ => Wear::Light,
        }
    }

    /// Every kind has been listed: the memory in use is that of a rebuilt planner.
    pub(super) fn all_known(&mut self) {
        if self.known_bytes.is_none() {
            self.known_bytes = Some(self.planning.worn_bytes());
        }
    }

    /// Cancels the jobs that still wait for volumes or devices. Jobs whose binding is sent end by themselves.
    pub fn cancel_preparing(&mut self, effects: &mut Vec<Effect>) {
        let jobs = self.pending.values_mut().filter_map(|pending| pending.preparing.take());
        effects.extend(jobs.map(Effect::Cancel));
    }

    /// Forgets the cluster. It counts as known again once every kind was listed whole after `request`.
    ///
    /// No job may be under way: [`Executor::bindings`] is 0.
    pub fn rebuild(&mut self, request: u64) {
        assert_eq!(self.bindings(), 0, "a job that ends later would find its pod unknown");
        let Self {
            planning,
            queue,
            shapes,
            options,
            pending,
            assigned,
            uids,
            nodes,
            objects,
            preempting,
            giving_way,
            unsynced,
            lists_wanted,
            known_bytes,
            bindings: _,
            preparing: _,
            // Planning time that namespaces took is not forgotten, nor when was warned.
            costly: _,
            unplannable: _,
        } = self;
        planning.rebuild();
        // Counters of metrics never go back.
        *queue = Queue::continuing(options.queue.clone(), queue);
        *shapes = Shapes::default();
        *pending = HashMap::new();
        *assigned = HashMap::new();
        *uids = HashMap::new();
        *nodes = HashMap::new();
        *objects = Objects::default();
        *preempting = HashMap::new();
        *giving_way = HashMap::new();
        *unsynced = Followed::ALL.iter().copied().collect();
        *lists_wanted = request;
        *known_bytes = None;
    }
}
