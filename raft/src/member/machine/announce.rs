//! Wakes watchers after entries were applied, in a task of its own.
//!
//! Owns the subscriptions of every resource and the changes still to be announced to them. Applying only marks: one slot
//! for each resource holds its newest revision, so that changes applied while watchers are woken are announced once.
//! One task of the member wakes them, in the order of resources and of subscriptions.
//!
//! Invariant: a mark is set after its state is published, so a woken watcher finds the revision it was woken for.
//! Invariant: a mark that is set is announced; a signal that comes while the task is at work is kept for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::key::Revision;
use crate::notify::{Announcer, Subscription};

/// The subscriptions to one member's state, and the marks to announce to them.
#[derive(Default)]
pub(crate) struct Announcements {
    subscribers: Mutex<BTreeMap<Arc<str>, Announcer>>,
    marks: Mutex<Marks>,
    marked: Notify,
}

/// Changes that are not announced yet.
#[derive(Default)]
struct Marks {
    /// The newest change of each resource. Bounded by the resources there are.
    changed: BTreeMap<Arc<str>, Revision>,
    /// The revision of a state that replaced the one before: every resource may have changed up to it.
    all: Option<Revision>,
}

impl Announcements {
    /// A subscription to changes of `resource`.
    pub(super) fn subscribe(&self, resource: &Arc<str>) -> Subscription {
        self.subscribers.lock().entry(resource.clone()).or_default().subscribe()
    }

    /// Queues the changes of a batch for announcement: the newest revision of each resource.
    pub(super) fn mark(&self, changed: BTreeMap<Arc<str>, Revision>) {
        if changed.is_empty() {
            return;
        }
        let mut marks = self.marks.lock();
        if marks.changed.is_empty() {
            marks.changed = changed;
        } else {
            marks.changed.extend(changed);
        }
        drop(marks);
        self.marked.notify_one();
    }

    /// Queues an announcement to all resources: the state was replaced by one at `revision`.
    pub(super) fn mark_all(&self, revision: Revision) {
        self.marks.lock().all = Some(revision);
        self.marked.notify_one();
    }

    /// Wakes all watchers though no entry was applied: the state that they were shown is withdrawn.
    pub(crate) fn wake_all(&self) {
        self.subscribers.lock().values().for_each(Announcer::wake_all);
    }

    /// Ends every subscription.
    pub(super) fn close(&self) {
        self.subscribers.lock().values().for_each(Announcer::close);
    }

    /// Announces marks to watchers; runs until the member ends.
    pub(crate) async fn announce(&self) {
        loop {
            self.marked.notified().await;
            self.announce_marked();
        }
    }

    fn announce_marked(&self) {
        let marks = std::mem::take(&mut *self.marks.lock());
        // Clones the announcers, so that a new subscriber does not wait at the lock until all others are woken.
        let announcers: Vec<(Announcer, Revision)> = {
            let subscribers = self.subscribers.lock();
            match marks.all {
                Some(all) => {
                    let newest = |resource| marks.changed.get(resource).copied().unwrap_or(all).max(all);
                    subscribers.iter().map(|(resource, one)| (one.clone(), newest(resource))).collect()
                }
                None => {
                    let one = |(resource, revision): (&Arc<str>, &Revision)| {
                        Some((subscribers.get(resource)?.clone(), *revision))
                    };
                    marks.changed.iter().filter_map(one).collect()
                }
            }
        };
        for (announcer, revision) in announcers {
            announcer.announce(revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn resource(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    fn changes(of: &[(&str, u64)]) -> BTreeMap<Arc<str>, Revision> {
        of.iter().map(|(name, revision)| (resource(name), Revision(*revision))).collect()
    }

    fn told(subscription: &mut Subscription) -> Option<Revision> {
        subscription.changed().now_or_never().flatten()
    }

    #[test]
    fn marks_of_one_resource_are_announced_once_with_the_newest() {
        let announcements = Announcements::default();
        let (mut pods, mut nodes) =
            (announcements.subscribe(&resource("pods")), announcements.subscribe(&resource("nodes")));
        announcements.mark(changes(&[("pods", 3), ("nodes", 4)]));
        announcements.mark(changes(&[("pods", 5), ("secrets", 6)]));
        assert_eq!(told(&mut pods), None, "applying announces nothing by itself");
        let mut task = Box::pin(announcements.announce());
        assert!((&mut task).now_or_never().is_none());
        assert_eq!((told(&mut pods), told(&mut nodes)), (Some(Revision(5)), Some(Revision(4))));
        assert_eq!(told(&mut pods), None);
        assert!(announcements.marks.lock().changed.is_empty(), "a mark without subscribers is not kept");
    }

    #[test]
    fn a_mark_set_while_the_task_was_busy_is_not_lost() {
        let announcements = Announcements::default();
        let mut pods = announcements.subscribe(&resource("pods"));
        let mut task = Box::pin(announcements.announce());
        for revision in 1..4 {
            // The first mark is set before the task has first waited, the others after.
            announcements.mark(changes(&[("pods", revision)]));
            assert!((&mut task).now_or_never().is_none());
            assert_eq!(told(&mut pods), Some(Revision(revision)));
        }
    }

    #[test]
    fn a_replaced_state_is_announced_to_every_resource() {
        let announcements = Announcements::default();
        let mut pods = announcements.subscribe(&resource("pods"));
        let mut nodes = announcements.subscribe(&resource("nodes"));
        announcements.mark(changes(&[("pods", 12)]));
        announcements.mark_all(Revision(10));
        assert!(Box::pin(announcements.announce()).now_or_never().is_none());
        assert_eq!((told(&mut pods), told(&mut nodes)), (Some(Revision(12)), Some(Revision(10))));
        announcements.close();
        assert_eq!(pods.changed().now_or_never(), Some(None));
    }
}
