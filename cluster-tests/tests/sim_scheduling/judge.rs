//! The promises, recomputed from the ledger's changes and from what was sent.
//!
//! Owns what must hold at each moment of a run, and what the lease's one assumption excuses: a binding that arrives later
//! than the time between the end of one leadership and the next one's begin is no fault of its sender. Such bindings, and
//! overloads that follow from them, are counted. It shares no code with the product.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::links::Sent;
use super::timeline::{Change, Entry, Pod, Room, Timeline};
use super::users::ELSEWHERE;

/// How old the view of a leader may be that is cut off, stopped or behind. What a node offered within this time excuses a
/// binding; more than it ever offered does not.
const VIEW_AGE_MAX: Duration = Duration::from_secs(30);

/// The result of a judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Pods that got a node of the scheduler.
    pub(crate) bound: usize,
    /// Bindings that arrived later than a lease can know.
    pub(crate) late: usize,
    /// Overloads of nodes that hold a pod of such a binding.
    pub(crate) excused: usize,
}

#[derive(Default)]
struct Judge<'a> {
    sent: HashMap<&'a str, Vec<Duration>>,
    gap: Duration,
    /// The node of each pod that ever had one, by UID.
    bound: HashMap<String, String>,
    pods: BTreeMap<String, Arc<Pod>>,
    /// The room that each node offered, with the time from which it did; `None` while it was away.
    offers: BTreeMap<String, Vec<(Duration, Option<Room>)>>,
    late: HashMap<String, Duration>,
    judged: Judged,
}

/// Judges the changes of a run. `gap`: how long a request may travel.
///
/// # Errors
/// The first broken promise.
pub(crate) fn judge(timeline: &Timeline, sent: &[Sent], gap: Duration) -> Result<Judged, String> {
    let mut judge = Judge { gap, ..Judge::default() };
    for sent in sent {
        judge.sent.entry(&sent.pod).or_default().push(sent.at);
    }
    timeline.entries.iter().try_for_each(|entry| judge.take(entry))?;
    leadership(&timeline.entries, sent)?;
    Ok(judge.judged)
}

impl Judge<'_> {
    fn take(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.change {
            Change::Lease(_) => Ok(()),
            Change::Node(node) => {
                let offer = node.as_ref().map(|node| node.room);
                self.offers.entry(entry.name.clone()).or_default().push((entry.at, offer));
                Ok(())
            }
            Change::Pod(_, None) => {
                self.pods.remove(&entry.name);
                Ok(())
            }
            Change::Pod(old, Some(pod)) => {
                self.pods.insert(entry.name.clone(), pod.clone());
                let before = old.as_ref().filter(|old| old.uid == pod.uid).map_or("", |old| &old.node);
                match (before, pod.node.as_str()) {
                    (before, node) if before == node => Ok(()),
                    ("", _) => self.bind(entry, pod),
                    (before, node) => {
                        Err(format!("at {:?} pod {} moves from {before} to `{node}`", entry.at, entry.name))
                    }
                }
            }
        }
    }

    fn bind(&mut self, entry: &Entry, pod: &Pod) -> Result<(), String> {
        let (at, name, node) = (entry.at, &entry.name, &pod.node);
        if let Some(before) = self.bound.insert(pod.uid.clone(), node.clone()) {
            return Err(format!("at {at:?} pod {name} is bound to {node}, and was to {before}"));
        }
        if node == ELSEWHERE {
            return Ok(());
        }
        self.judged.bound += 1;
        if pod.is_gated {
            return Err(format!("at {at:?} pod {name} is bound, although it has gates"));
        }
        if self.is_late(name, at) {
            self.judged.late += 1;
            self.late.insert(pod.uid.clone(), at);
        }
        let on_node = || self.pods.values().filter(|pod| pod.node == *node && !pod.is_finished);
        let mut load = Room::default();
        on_node().for_each(|pod| load.add(pod.room));
        let is_late = |pod: &Pod| self.late.get(&pod.uid).is_some_and(|since| *since + VIEW_AGE_MAX > at);
        let has_late = on_node().any(|pod| is_late(pod));
        match self.offered(node, at) {
            Some(offer) if load.fits(offer) => Ok(()),
            _ if has_late => {
                self.judged.excused += 1;
                Ok(())
            }
            Some(offer) => Err(format!(
                "at {at:?} node {node} offers {offer:?} and has {load:?}, with pod {name} that was bound now"
            )),
            None => Err(format!("at {at:?} pod {name} is bound to {node}, which offers nothing for long")),
        }
    }

    /// The newest binding that was sent for the pod before `at` travelled for longer than a lease allows for.
    fn is_late(&self, pod: &str, at: Duration) -> bool {
        let sent = self.sent.get(pod).into_iter().flatten();
        sent.filter(|sent| **sent <= at).max().is_some_and(|sent| at - *sent > self.gap)
    }

    /// The most that `node` offered within the age of a view before `at`.
    fn offered(&self, node: &str, at: Duration) -> Option<Room> {
        let offers = self.offers.get(node)?;
        let since = at.saturating_sub(VIEW_AGE_MAX);
        // The offer that was in force when that time began, and all later ones.
        let first = offers.partition_point(|(from, _)| *from <= since).saturating_sub(1);
        offers[first..].iter().filter_map(|(_, offer)| *offer).reduce(Room::larger)
    }
}

/// A process sends bindings only while the lease names it: its time ends before another may write itself in.
fn leadership(entries: &[Entry], sent: &[Sent]) -> Result<(), String> {
    let leases = entries.iter().filter_map(|entry| match &entry.change {
        Change::Lease(holder) => Some((entry.at, holder.as_str())),
        Change::Pod(..) | Change::Node(_) => None,
    });
    let holders: Vec<_> = leases.collect();
    for Sent { at, by, pod } in sent {
        let known = holders.partition_point(|(from, _)| from <= at);
        let holder = known.checked_sub(1).map_or("", |last| holders[last].1);
        if !holder.starts_with(&format!("{by}_")) {
            return Err(format!("at {at:?} {by} binds {pod}, while the lease names `{holder}`: two lead"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Node;

    fn pod(uid: &str, node: &str) -> Arc<Pod> {
        let (uid, node, room) = (uid.to_owned(), node.to_owned(), Room { cpu: 3_000, pods: 1 });
        Arc::new(Pod { uid, node, room, ..Pod::default() })
    }

    fn entry(seconds: u64, name: &str, change: Change) -> Entry {
        Entry { at: Duration::from_secs(seconds), name: name.to_owned(), change }
    }

    fn of(entries: Vec<Entry>, sent: &[Sent]) -> Result<Judged, String> {
        let node = Node { room: Room { cpu: 4_000, pods: 9 }, ..Node::default() };
        let mut all = vec![
            entry(0, "w0", Change::Node(Some(node))),
            entry(0, "scheduler", Change::Lease("s0_1".to_owned())),
        ];
        all.extend(entries);
        let mut timeline = Timeline::default();
        timeline.entries = all;
        judge(&timeline, sent, Duration::from_secs(1))
    }

    fn binding(seconds: u64, name: &str, uid: &str) -> Entry {
        entry(seconds, name, Change::Pod(Some(pod(uid, "")), Some(pod(uid, "w0"))))
    }

    #[test]
    fn a_second_binding_of_a_pod_is_found() {
        assert!(of(vec![binding(1, "a", "1")], &[]).is_ok());
        let again = binding(2, "a", "1");
        assert!(of(vec![binding(1, "a", "1"), again], &[]).unwrap_err().contains("and was to w0"));
        let moved = entry(2, "a", Change::Pod(Some(pod("1", "w0")), Some(pod("1", "w1"))));
        assert!(of(vec![binding(1, "a", "1"), moved], &[]).unwrap_err().contains("moves from w0"));
    }

    #[test]
    fn an_overload_is_found_unless_a_binding_came_late() {
        let both = || vec![binding(1, "a", "1"), binding(9, "b", "2")];
        assert!(of(both(), &[]).unwrap_err().contains("offers"));
        let sent = |at| Sent { at: Duration::from_secs(at), by: "s0".to_owned(), pod: "b".to_owned() };
        assert!(of(both(), &[sent(9)]).is_err());
        assert_eq!(of(both(), &[sent(5)]), Ok(Judged { bound: 2, late: 1, excused: 1 }));
    }

    #[test]
    fn a_binding_of_a_process_that_the_lease_does_not_name_is_found() {
        let sent = |by: &str| Sent { at: Duration::from_secs(1), by: by.to_owned(), pod: "a".to_owned() };
        assert!(of(Vec::new(), &[sent("s0")]).is_ok());
        assert!(of(Vec::new(), &[sent("s1")]).unwrap_err().contains("two lead"));
    }
}
