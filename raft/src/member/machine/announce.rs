//! Tells watchers that entries were applied, in a task of its own.
//!
//! Owns the subscriptions of every resource and the marks of what is still to be walked for them. Applying only marks: the
//! resources that changed since the last walk, so that changes applied during one are walked together. One task of the
//! member walks them, a turn of each resource after the other, so that a long walk of one delays no other.
//!
//! Invariant: a mark is set after its state is published, so that the walk finds the changes that it was set for.
//! Invariant: a mark that is set is walked; a signal that comes while the task is at work is kept for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::interest::{Hub, Interest, Subscription, Turn};
use crate::key::Revision;
use crate::state::State;

/// The subscriptions to one member's state, and the marks to walk for them.
#[derive(Default)]
pub(crate) struct Announcements {
    hubs: Mutex<Hubs>,
    marks: Mutex<Marks>,
    marked: Notify,
}

/// The hubs of the resources that have subscribers.
#[derive(Default)]
struct Hubs {
    by_resource: BTreeMap<Arc<str>, Hub>,
    /// The member has ended: so has a hub that is made from now on.
    is_closed: bool,
}

/// Changes that are not walked yet.
#[derive(Default)]
struct Marks {
    /// Resources with changes. Bounded by the resources there are.
    changed: BTreeSet<Arc<str>>,
    /// The state was replaced: every resource may have changed.
    all: bool,
}

impl Announcements {
    /// A subscription to changes of `resource` that concern `interest`. `applied`: the revision of a published state.
    pub(super) fn subscribe(
        &self,
        resource: &Arc<str>,
        interest: Interest,
        applied: Revision,
    ) -> Subscription {
        let hub = self.hubs.lock().of(resource);
        hub.subscribe(interest, applied)
    }

    /// Queues the resources that a batch changed.
    pub(super) fn mark(&self, mut changed: BTreeSet<Arc<str>>) {
        if changed.is_empty() {
            return;
        }
        self.marks.lock().changed.append(&mut changed);
        self.marked.notify_one();
    }

    /// Queues all resources: the state was replaced.
    pub(super) fn mark_all(&self) {
        self.marks.lock().all = true;
        self.marked.notify_one();
    }

    /// Wakes all watchers though no entry was applied: the state that they were shown is withdrawn.
    pub(crate) fn wake_all(&self) {
        self.all_hubs().iter().for_each(Hub::wake_all);
    }

    /// Ends every subscription.
    pub(super) fn close(&self) {
        self.hubs.lock().is_closed = true;
        self.all_hubs().iter().for_each(Hub::close);
    }

    /// Clones of all hubs: tasks are not woken under the lock.
    fn all_hubs(&self) -> Vec<Hub> {
        self.hubs.lock().by_resource.values().cloned().collect()
    }

    /// Walks what is marked, in the newest `state`; runs until the member ends.
    pub(crate) async fn announce(&self, state: impl Fn() -> Arc<State>) {
        loop {
            self.marked.notified().await;
            self.walk_marked(&state).await;
        }
    }

    /// Gives way after each turn of a walk, so that watchers whom it woke do not wait for its end.
    async fn walk_marked(&self, state: impl Fn() -> Arc<State>) {
        let marks = std::mem::take(&mut *self.marks.lock());
        // Clones the hubs, so that a new subscriber does not wait at the lock until all others are woken.
        let mut hubs: VecDeque<(Arc<str>, Hub)> = {
            let hubs = self.hubs.lock();
            let is_marked = |resource: &Arc<str>| marks.all || marks.changed.contains(resource);
            hubs.by_resource
                .iter()
                .filter(|(resource, _)| is_marked(resource))
                .map(|(a, b)| (a.clone(), b.clone()))
                .collect()
        };
        let state = state();
        while let Some((resource, hub)) = hubs.pop_front() {
            if hub.turn(&state.collection(&resource), state.applied()) == Turn::More {
                hubs.push_back((resource, hub));
                tokio::task::yield_now().await;
            } else if marks.all {
                // Even those who saw the same revision of the state before it.
                hub.wake_all();
            }
        }
    }
}

impl Hubs {
    fn of(&mut self, resource: &Arc<str>) -> Hub {
        let new = if self.is_closed { Hub::closed } else { Hub::default };
        self.by_resource.entry(resource.clone()).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::FutureExt;

    use super::*;
    use crate::key::Key;
    use crate::object::Index;
    use crate::transaction::{Operation, Put, Transaction};

    fn resource(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    /// A state that grows, and the announcements of its changes.
    #[derive(Default)]
    struct Fixture {
        announcements: Announcements,
        state: Mutex<State>,
    }

    impl Fixture {
        fn subscribe(&self, name: &str) -> Subscription {
            let applied = self.state.lock().applied();
            self.announcements.subscribe(&resource(name), Interest::Everything, applied)
        }

        fn change(&self, changes: &[(&str, u64)]) {
            for (name, revision) in changes {
                let key = Key::new(&resource(name), "", "a").unwrap();
                let json = Bytes::from_static(b"{\"v\":\"\"}");
                let put = Put { key, json, revision_at: 6, index: Index::default() };
                let operations = vec![Operation::Put(put)];
                self.state
                    .lock()
                    .apply(Revision(*revision), &Transaction { operations, ..Transaction::default() });
            }
            self.announcements.mark(changes.iter().map(|(name, _)| resource(name)).collect());
        }

        async fn announce(&self) {
            self.announcements.announce(|| Arc::new(self.state.lock().clone())).await;
        }
    }

    fn told(subscription: &mut Subscription) -> Option<Revision> {
        subscription.changed().now_or_never().flatten()
    }

    #[test]
    fn marks_of_one_resource_are_walked_once_to_the_newest() {
        let fixture = Fixture::default();
        let (mut pods, mut nodes) = (fixture.subscribe("pods"), fixture.subscribe("nodes"));
        fixture.change(&[("pods", 3), ("nodes", 4)]);
        fixture.change(&[("pods", 5), ("secrets", 6)]);
        assert_eq!(told(&mut pods), None, "applying walks nothing by itself");
        let mut task = Box::pin(fixture.announce());
        assert!((&mut task).now_or_never().is_none());
        assert_eq!((told(&mut pods), told(&mut nodes)), (Some(Revision(6)), Some(Revision(6))));
        assert_eq!(told(&mut pods), None);
        assert!(
            fixture.announcements.marks.lock().changed.is_empty(),
            "a mark without subscribers is not kept"
        );
    }

    #[test]
    fn a_mark_set_while_the_task_was_busy_is_not_lost() {
        let fixture = Fixture::default();
        let mut pods = fixture.subscribe("pods");
        let mut task = Box::pin(fixture.announce());
        for revision in 1..4 {
            // The first mark is set before the task has first waited, the others after.
            fixture.change(&[("pods", revision)]);
            assert!((&mut task).now_or_never().is_none());
            assert_eq!(told(&mut pods), Some(Revision(revision)));
        }
    }

    #[test]
    fn a_replaced_state_is_announced_to_every_resource() {
        let fixture = Fixture::default();
        let (mut pods, mut nodes) = (fixture.subscribe("pods"), fixture.subscribe("nodes"));
        fixture.change(&[("pods", 12)]);
        fixture.announcements.mark_all();
        assert!(Box::pin(fixture.announce()).now_or_never().is_none());
        assert_eq!((told(&mut pods), told(&mut nodes)), (Some(Revision(12)), Some(Revision(12))));
        fixture.announcements.close();
        assert_eq!(pods.changed().now_or_never(), Some(None));
        for late in ["pods", "secrets"] {
            let mut late = fixture.subscribe(late);
            assert_eq!(late.changed().now_or_never(), Some(None), "a subscription after the end has ended");
        }
    }

    #[test]
    fn a_long_walk_gives_way_and_wakes_meanwhile() {
        let fixture = Fixture::default();
        let interest = || Interest::Object("a".into());
        let mut subscribed: Vec<_> = (0..5_000)
            .map(|_| fixture.announcements.subscribe(&resource("pods"), interest(), Revision(0)))
            .collect();
        let changes: Vec<_> = (1..=3).map(|revision| ("pods", revision)).collect();
        fixture.change(&changes);
        let mut task = Box::pin(fixture.announce());
        assert!((&mut task).now_or_never().is_none());
        assert_eq!(told(&mut subscribed[0]), Some(Revision(1)), "the first of two turns");
        assert!((&mut task).now_or_never().is_none());
        assert_eq!(told(&mut subscribed[1]), Some(Revision(3)));
    }

    #[test]
    fn a_long_walk_of_one_resource_delays_no_other() {
        let fixture = Fixture::default();
        let interest = || Interest::Object("a".into());
        let _maps: Vec<_> = (0..5_000)
            .map(|_| fixture.announcements.subscribe(&resource("configmaps"), interest(), Revision(0)))
            .collect();
        let mut pods = fixture.subscribe("pods");
        let changes: Vec<_> = (1..=3).map(|revision| ("configmaps", revision)).chain([("pods", 4)]).collect();
        fixture.change(&changes);
        let mut task = Box::pin(fixture.announce());
        // The first turn of config maps, and then of pods.
        assert!((&mut task).now_or_never().is_none() && (&mut task).now_or_never().is_none());
        assert_eq!(told(&mut pods), Some(Revision(4)));
    }
}
