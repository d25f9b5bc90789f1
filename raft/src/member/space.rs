//! Room on the members' disks: growth of the state is refused before a disk is full.
//!
//! Owns the measuring of this member's disk, the reports of the other members on theirs, and the refusal. A disk is under
//! one of three pressures, each left only well above where it is entered, so that it does not flap:
//!
//!     room for writes >= 1.5 reserves    none
//!                      < 1.5 reserves    tight: history leaves the disk, the log is cut short, files are compacted
//!                      < 1 reserve       short: besides, no member proposes writes that make the state larger
//!
//! A write is refused by the member where it arrives, before it is in the log: applying depends on the log alone, and a
//! refused write must take no room in it. The decision uses the state applied there and the last report of each member;
//! both may be seconds old, and the reserve covers that (docs/decisions/0018).
//!
//! Invariant: a write that helps to delete is never refused here, nor is a small write that does not make the state larger
//! (`State::is_allowed_when_short_of_space`).

mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::disk::Space;
use crate::member::options::SpaceOptions;
use crate::transport::NodeId;

/// Longest and shortest time between two measurements, each of which is a system call for each of some dozens of files.
const MEASURE_PAUSE_MAX: Duration = Duration::from_millis(250);
const MEASURE_PAUSE_MIN: Duration = Duration::from_millis(25);

/// Bytes that a disk may take in a millisecond, of log, tables and compactions together: a fast one takes 1 GB a second.
const BYTES_PER_MS: u64 = 1 << 20;

/// Rounds of the comparison (`agreement`) for which a member that reported to be short, and answers no more, still counts:
/// a lost answer does not permit growth, and a dead member does not prevent it.
const SILENT_ROUNDS_MAX: u32 = 3;

/// How urgently a disk needs space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// The disk has room, or there is no reserve to keep.
    #[default]
    None,
    /// History leaves the disk and the log is cut short.
    Tight,
    /// Also, writes that would make the state larger are refused.
    Short,
}

impl Pressure {
    /// The pressure that follows `self` when `room` bytes are left, with a reserve of `reserve` bytes.
    fn next(self, room: u64, reserve: u64) -> Pressure {
        let quarters = |count: u64| (reserve / 4).saturating_mul(count);
        match self {
            _ if room < reserve => Pressure::Short,
            Pressure::Short if room < quarters(5) => Pressure::Short,
            _ if room < quarters(6) => Pressure::Tight,
            Pressure::None => Pressure::None,
            _ if room < quarters(7) => Pressure::Tight,
            _ => Pressure::None,
        }
    }
}

/// Room on the members' disks, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceStatus {
    /// Bytes that this member's store takes. `None` before the first measurement, and on a disk without a bound.
    pub used: Option<u64>,
    /// Bytes that the store may still take: the lesser of the disk's and the quota's rest. `None` as above.
    pub room: Option<u64>,
    /// Bytes below which growth is refused; 0 for none.
    pub reserve: u64,
    /// This member's own pressure.
    pub pressure: Pressure,
    /// Members that last reported to be short, this one included: growth is refused unless this is empty.
    pub short: BTreeSet<NodeId>,
}

/// This member's last measurement, and the last reports of the others.
pub(crate) struct SpaceWatch {
    options: SpaceOptions,
    /// Whether any member is short. Checked first, without the lock, for every proposal.
    is_short: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    measured: Option<Space>,
    pressure: Pressure,
    /// The other members that reported to be short, by id.
    others: BTreeMap<u64, OtherSpace>,
}

#[derive(Clone, Copy)]
struct OtherSpace {
    rounds_left: u32,
    is_very_short: bool,
}

/// A member's lack of room, as sent to the other members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortness {
    /// Writes that would make the state larger must not be proposed.
    pub(crate) short: bool,
    /// Besides, large writes must not be proposed, even if they replace as much.
    pub(crate) very_short: bool,
}

impl SpaceWatch {
    pub(crate) fn new(options: SpaceOptions) -> Self {
        SpaceWatch { options, is_short: AtomicBool::new(false), known: Mutex::default() }
    }

    /// Takes a measurement; returns the pressure before and after it.
    fn measure(&self, space: Space) -> (Pressure, Pressure) {
        let mut known = self.known.lock();
        let before = known.pressure;
        known.measured = Some(space);
        known.pressure = before.next(self.room(space), self.options.reserve_bytes);
        self.publish(&known);
        (before, known.pressure)
    }

    /// Takes the answers of one round: the shortness of each other member, `None` if it did not answer. Forgets members that
    /// are not among them.
    pub(crate) fn hear(&self, answers: impl IntoIterator<Item = (u64, Option<Shortness>)>) {
        let mut known = self.known.lock();
        let before = std::mem::take(&mut known.others);
        known.others = answers
            .into_iter()
            .filter_map(|(member, answer)| match answer {
                Some(Shortness { short: true, very_short }) => {
                    let other = OtherSpace { rounds_left: SILENT_ROUNDS_MAX, is_very_short: very_short };
                    Some((member, other))
                }
                Some(_) => None,
                None => {
                    let other = *before.get(&member)?;
                    Some((member, OtherSpace { rounds_left: other.rounds_left.checked_sub(1)?, ..other }))
                }
            })
            .collect();
        self.publish(&known);
    }

    /// Takes the shortness that a member sent along with a request.
    pub(crate) fn hear_from(&self, member: NodeId, said: Shortness) {
        if said.short {
            let mut known = self.known.lock();
            let other = OtherSpace { rounds_left: SILENT_ROUNDS_MAX, is_very_short: said.very_short };
            known.others.insert(member.0, other);
            self.publish(&known);
        }
    }

    /// Time until the next measurement: short enough that the disk cannot fill much of its reserve meanwhile.
    fn pause(&self) -> Duration {
        let known = self.known.lock();
        match known.measured {
            None => MEASURE_PAUSE_MAX,
            Some(space) => {
                let above = self.room(space).saturating_sub(self.options.reserve_bytes);
                Duration::from_millis(above / BYTES_PER_MS).clamp(MEASURE_PAUSE_MIN, MEASURE_PAUSE_MAX)
            }
        }
    }

    fn publish(&self, known: &Known) {
        let is_short = known.pressure == Pressure::Short || !known.others.is_empty();
        self.is_short.store(is_short, Ordering::Release);
    }

    /// Bytes that may still be written.
    fn room(&self, space: Space) -> u64 {
        let of_quota = self.options.quota_bytes.map_or(u64::MAX, |quota| quota.saturating_sub(space.used));
        space.free.min(of_quota)
    }

    /// Whether any member is short.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }

    /// Whether any member has used up half of its reserve.
    fn is_anyone_very_short(&self) -> bool {
        let known = self.known.lock();
        self.is_very_short(&known) || known.others.values().any(|other| other.is_very_short)
    }

    /// Whether half of this member's own reserve is used up.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.is_very_short(&self.known.lock())
    }

    fn is_very_short(&self, known: &Known) -> bool {
        known.measured.is_some_and(|space| self.room(space) < self.options.reserve_bytes / 2)
    }

    /// This member's shortness, for the other members.
    pub(crate) fn shortness(&self) -> Shortness {
        let known = self.known.lock();
        Shortness {
            short: known.pressure == Pressure::Short,
            very_short: known.pressure == Pressure::Short && self.is_very_short(&known),
        }
    }

    /// This member's pressure.
    pub(crate) fn pressure(&self) -> Pressure {
        self.known.lock().pressure
    }

    pub(crate) fn status(&self, own: NodeId) -> SpaceStatus {
        let known = self.known.lock();
        let itself = (known.pressure == Pressure::Short).then_some(own);
        SpaceStatus {
            used: known.measured.map(|space| space.used),
            room: known.measured.map(|space| self.room(space)),
            reserve: self.options.reserve_bytes,
            pressure: known.pressure,
            short: known.others.keys().copied().map(NodeId).chain(itself).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVE: u64 = 400;

    #[test]
    fn a_pressure_is_left_well_above_where_it_is_entered() {
        let mut pressure = Pressure::None;
        let rooms =
            [(600, Pressure::None), (599, Pressure::Tight), (650, Pressure::Tight), (400, Pressure::Tight)];
        let rooms =
            rooms.into_iter().chain([(399, Pressure::Short), (499, Pressure::Short), (500, Pressure::Tight)]);
        for (room, then) in rooms.chain([(699, Pressure::Tight), (700, Pressure::None), (0, Pressure::Short)])
        {
            pressure = pressure.next(room, RESERVE);
            assert_eq!(pressure, then, "{room} left");
        }
        assert_eq!(pressure.next(5000, RESERVE), Pressure::None);
        assert_eq!(Pressure::None.next(0, 0), Pressure::None, "nothing to keep");
    }

    #[test]
    fn the_room_is_the_lesser_of_the_disks_and_the_quotas() {
        let watch = |quota_bytes| SpaceWatch::new(SpaceOptions { reserve_bytes: RESERVE, quota_bytes });
        let space = Space { used: 100, free: 1000 };
        assert_eq!(watch(None).room(space), 1000);
        assert_eq!(watch(Some(600)).room(space), 500);
        assert_eq!(watch(Some(50)).room(space), 0);
        assert_eq!(watch(Some(450)).measure(space).1, Pressure::Short);
        assert_eq!(watch(None).measure(space).1, Pressure::None);
    }

    #[test]
    fn a_disk_is_measured_more_often_the_nearer_it_is_to_its_reserve() {
        const MIB: u64 = 1 << 20;
        let watch = SpaceWatch::new(SpaceOptions { reserve_bytes: 100 * MIB, quota_bytes: None });
        assert_eq!(watch.pause(), MEASURE_PAUSE_MAX, "not known yet");
        for (free, pause) in [(1000, 250), (200, 100), (101, 25), (99, 25)] {
            watch.measure(Space { used: 0, free: free * MIB });
            assert_eq!(watch.pause(), Duration::from_millis(pause), "{free} MiB free");
        }
    }

    #[test]
    fn a_member_that_was_short_and_is_silent_counts_for_some_rounds() {
        let watch = SpaceWatch::new(SpaceOptions { reserve_bytes: RESERVE, quota_bytes: None });
        let said = |short| Some(Shortness { short, very_short: short });
        watch.hear([(1, said(false)), (2, said(true))]);
        assert_eq!(watch.status(NodeId(9)).short, [NodeId(2)].into());
        for _ in 0..SILENT_ROUNDS_MAX {
            watch.hear([(1, said(false)), (2, None)]);
            assert!(watch.is_short() && watch.is_anyone_very_short());
        }
        watch.hear([(1, None), (2, None)]);
        assert!(!watch.is_short() && !watch.is_anyone_very_short());
        watch.hear([(2, said(true))]);
        watch.hear([(2, said(false))]);
        assert!(!watch.is_short(), "it has room again");
        watch.hear([(2, said(true))]);
        watch.hear([]);
        assert!(!watch.is_short(), "it is no member any more");
    }
}
