//! Points in a member's work, at which crashes can be injected.
//!
//! Owns the armed points. The disk and the network report each point they pass; the schedule of faults arms one, for
//! example "the third purge of n2". A random moment seldom lies between a write and its sync; an armed point always
//! does.

use std::fmt;
use std::sync::Arc;

use orch_raft::transport::NodeId;
use parking_lot::Mutex;

/// A point in a member's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The vote was written and is not synced yet.
    Vote,
    /// Entries were appended and are not synced yet.
    Append,
    /// A sync has completed.
    Synced,
    /// The committed index was saved.
    Commit,
    /// Applied state was written.
    State,
    /// The log's end was removed.
    Truncate,
    /// The log's start was removed.
    Purge,
    /// The installation of a snapshot begins.
    InstallBegin,
    /// A snapshot was installed.
    InstallCommit,
    /// A snapshot is about to be sent.
    SnapshotSend,
}

/// All points.
pub const POINTS: [Point; 10] = [
    Point::Vote,
    Point::Append,
    Point::Synced,
    Point::Commit,
    Point::State,
    Point::Truncate,
    Point::Purge,
    Point::InstallBegin,
    Point::InstallCommit,
    Point::SnapshotSend,
];

/// The armed points of a run. Clones share them.
#[derive(Clone, Default)]
pub struct Points(Arc<Mutex<Vec<Armed>>>);

struct Armed {
    node: NodeId,
    point: Point,
    /// Passes to let go by first.
    passes: u64,
    act: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Points({} armed)", self.0.lock().len())
    }
}

impl Points {
    /// Calls `act` once, when `node` passes `point` after having passed it `passes` times.
    pub fn arm(&self, node: NodeId, point: Point, passes: u64, act: impl FnOnce() + Send + 'static) {
        self.0.lock().push(Armed { node, point, passes, act: Box::new(act) });
    }

    /// Removes all armed points.
    pub fn disarm(&self) {
        let armed = std::mem::take(&mut *self.0.lock());
        drop(armed);
    }

    /// Reports that `node` is at `point`.
    pub fn pass(&self, node: NodeId, point: Point) {
        let struck = {
            let mut armed = self.0.lock();
            let here = |one: &Armed| one.node == node && one.point == point;
            armed
                .iter_mut()
                .filter(|one| here(one))
                .for_each(|one| one.passes = one.passes.saturating_sub(1));
            armed.iter().position(|one| here(one) && one.passes == 0).map(|at| armed.remove(at))
        };
        if let Some(struck) = struck {
            (struck.act)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn an_armed_point_strikes_once_at_the_right_pass_of_the_right_member() {
        let (points, struck) = (Points::default(), Arc::new(AtomicU64::new(0)));
        let inner = struck.clone();
        points.arm(NodeId(1), Point::Vote, 2, move || _ = inner.fetch_add(1, Ordering::Relaxed));
        points.pass(NodeId(2), Point::Vote);
        points.pass(NodeId(1), Point::Append);
        points.pass(NodeId(1), Point::Vote);
        assert_eq!(struck.load(Ordering::Relaxed), 0);
        points.pass(NodeId(1), Point::Vote);
        points.pass(NodeId(1), Point::Vote);
        assert_eq!(struck.load(Ordering::Relaxed), 1);
    }
}
