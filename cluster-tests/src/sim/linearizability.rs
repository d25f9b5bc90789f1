//! Checks that a client history is linearizable: an order of its calls, consistent with real time, explains every
//! outcome.
//!
//! Each key is a register of its own (linearizability composes), searched depth first after Wing and Gong with Lowe's
//! memory of configurations. A call with an unknown outcome may take effect at any time after the call, or never.
//! Beside the search, which ignores the order of revisions, [`check_order`] checks that revisions grow with real time.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use orch_raft::Revision;

use super::history::{Ask, Call, Guard, Tag, Told, Version};

/// A history that no correct store gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Anomaly {
    /// No order explains the outcomes on a key.
    #[error(
        "no order explains the answers about {path}; the search got to {reached} of {calls} calls, then:\n{stuck}"
    )]
    NotLinearizable {
        /// The key.
        path: Arc<str>,
        /// Largest number of calls that an order explained.
        reached: usize,
        /// Number of calls on the key.
        calls: usize,
        /// The calls that could not follow there.
        stuck: String,
    },
    /// An outcome has an older revision than one that was answered before the call.
    #[error("revision went back: {after} had been answered before this was asked: {call}")]
    WentBack {
        /// The call, printed.
        call: String,
        /// The newest revision answered before.
        after: Revision,
    },
    /// Two writes have the same revision.
    #[error("two writes have revision {revision}: {first} and {second}")]
    SharedRevision {
        /// The revision.
        revision: Revision,
        /// The first write's call, printed.
        first: String,
        /// The second write's call, printed.
        second: String,
    },
    /// One write has two revisions.
    #[error("the write of {tag:?} was seen at {first} and at {second}")]
    TwoRevisions {
        /// The write.
        tag: Tag,
        /// One of its revisions.
        first: Revision,
        /// The other revision.
        second: Revision,
    },
}

/// Checks the calls of every key, whose version before them all is that of `first`.
///
/// # Errors
/// A write with two revisions, or the first key whose calls no order explains.
pub fn check_registers(calls: &[Call], first: impl Fn(&str) -> Option<Version>) -> Result<(), Anomaly> {
    let seen = versions_seen(calls)?;
    let mut keys: BTreeMap<&Arc<str>, Vec<Move>> = BTreeMap::new();
    for call in calls {
        keys.entry(&call.path).or_default().extend(Move::of(call, &seen));
    }
    keys.into_iter().try_for_each(|(path, moves)| Search::new(&moves).run(path, register(first(path))))
}

/// Checks that revisions grow with real time over all keys, and that no two writes share one.
///
/// # Errors
/// Two writes with the same revision, or the first outcome that is older than one answered before the call.
pub fn check_order(calls: &[Call]) -> Result<(), Anomaly> {
    let mut writes: BTreeMap<Revision, &Call> = BTreeMap::new();
    let mut answers: Vec<&Call> = calls.iter().filter(|call| call.told.revision().is_some()).collect();
    for call in &answers {
        let Told::Applied { revision, .. } = call.told else { continue };
        if let Some(first) = writes.insert(revision, call) {
            let (first, second) = (format!("{first:?}"), format!("{call:?}"));
            return Err(Anomaly::SharedRevision { revision, first, second });
        }
    }
    let mut asked = answers.clone();
    asked.sort_by_key(|call| call.asked);
    answers.sort_by_key(|call| call.answered);
    let mut newest = Revision(0);
    let mut answers = answers.into_iter().peekable();
    for call in asked {
        while let Some(earlier) = answers.next_if(|earlier| earlier.answered < call.asked) {
            newest = newest.max(earlier.told.revision().unwrap_or_default());
        }
        let revision = call.told.revision().unwrap_or_default();
        let own = matches!(call.told, Told::Applied { .. } | Told::Refused { .. });
        if revision < newest || (own && revision == newest) {
            return Err(Anomaly::WentBack { call: format!("{call:?}"), after: newest });
        }
    }
    Ok(())
}

/// Revision of every write that an outcome shows, by its tag.
fn versions_seen(calls: &[Call]) -> Result<BTreeMap<Tag, Revision>, Anomaly> {
    let mut seen = BTreeMap::new();
    let mut note = |tag: Tag, revision: Revision| match seen.insert(tag, revision) {
        Some(first) if first != revision => Err(Anomaly::TwoRevisions { tag, first, second: revision }),
        _ => Ok(()),
    };
    for call in calls {
        if let Some(version) = call.told.seen() {
            note(version.tag, version.revision)?;
        }
        if let (Ask::Write { tag: Some(tag), .. }, Told::Applied { revision, .. }) = (call.ask, call.told) {
            note(tag, revision)?;
        }
    }
    Ok(seen)
}

/// The register: the newest version of the key, by revision and tag.
type Register = Option<(Revision, Tag)>;

fn register(version: Option<Version>) -> Register {
    version.map(|version| (version.revision, version.tag))
}

/// A call in the search: the register it needs and the register it leaves.
struct Move {
    asked: u64,
    answered: u64,
    needs: Needs,
    leaves: Option<Register>,
    printed: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Exactly this register.
    Exactly(Register),
    /// Any register under which the guard holds.
    Guard(Guard),
    /// Exactly this register, and the guard must not hold there.
    RefusedAt(Register, Guard),
}

impl Move {
    /// `None` for a call without effect: a read without an outcome, a write that was not applied, or an unknown write
    /// that no outcome shows.
    fn of(call: &Call, seen: &BTreeMap<Tag, Revision>) -> Option<Move> {
        let (needs, leaves) = match (call.ask, call.told) {
            (_, Told::NotDone) | (Ask::Read, Told::Unknown | Told::Applied { .. } | Told::Refused { .. }) => {
                return None;
            }
            (_, Told::Found { current, .. }) => (Needs::Exactly(register(current)), None),
            (Ask::Write { guard, tag }, Told::Applied { revision, previous }) => {
                let previous = register(previous);
                let needs = if holds(guard, previous) {
                    Needs::Exactly(previous)
                } else {
                    // Applied although its guard did not hold: no order explains it.
                    Needs::RefusedAt(previous, Guard::Always)
                };
                (needs, Some(tag.map(|tag| (revision, tag))))
            }
            (Ask::Write { guard, .. }, Told::Refused { current, .. }) => {
                (Needs::RefusedAt(register(current), guard), None)
            }
            // Every outcome shows the version it found, so a version that none shows explains no outcome and can be
            // left out.
            (Ask::Write { guard, tag: Some(tag) }, Told::Unknown) => {
                (Needs::Guard(guard), Some(Some((*seen.get(&tag)?, tag))))
            }
            (Ask::Write { guard, tag: None }, Told::Unknown) => (Needs::Guard(guard), Some(None)),
        };
        let printed = format!("  {call:?}");
        Some(Move { asked: call.asked, answered: call.answered, needs, leaves, printed })
    }

    /// The register after this call takes effect on `register`; `None` if it cannot.
    fn step(&self, register: Register) -> Option<Register> {
        let possible = match self.needs {
            Needs::Exactly(needed) => needed == register,
            Needs::Guard(guard) => holds(guard, register),
            Needs::RefusedAt(needed, guard) => needed == register && !holds(guard, register),
        };
        possible.then(|| self.leaves.unwrap_or(register))
    }

    fn must_happen(&self) -> bool {
        self.answered != u64::MAX
    }
}

fn holds(guard: Guard, register: Register) -> bool {
    match guard {
        Guard::Always => true,
        Guard::Absent => register.is_none(),
        Guard::At(revision) => register.is_some_and(|(found, _)| found == revision),
    }
}

/// The set of calls that have taken effect, and the register after them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration {
    done: Vec<u64>,
    register: Register,
}

impl Configuration {
    fn has(&self, position: usize) -> bool {
        self.done[position / 64] & (1 << (position % 64)) != 0
    }

    fn with(&self, position: usize, register: Register) -> Configuration {
        let mut done = self.done.clone();
        done[position / 64] |= 1 << (position % 64);
        Configuration { done, register }
    }
}

struct Search<'a> {
    /// In order of their call times.
    moves: &'a [Move],
    tried: HashSet<Configuration>,
}

impl<'a> Search<'a> {
    fn new(moves: &'a [Move]) -> Self {
        debug_assert!(moves.is_sorted_by_key(|one| one.asked), "recorded in the order asked");
        Search { moves, tried: HashSet::new() }
    }

    fn run(mut self, path: &Arc<str>, first: Register) -> Result<(), Anomaly> {
        let required = self.moves.iter().filter(|one| one.must_happen()).count();
        let start = Configuration { done: vec![0; self.moves.len().div_ceil(64)], register: first };
        let mut open = vec![start];
        let (mut reached, mut furthest) = (0, BTreeSet::new());
        while let Some(configuration) = open.pop() {
            let configuration = self.absorb(configuration);
            if !self.tried.insert(configuration.clone()) {
                continue;
            }
            let missing = self.missing(&configuration);
            if missing == 0 {
                return Ok(());
            }
            if required - missing >= reached {
                reached = required - missing;
                furthest = self.candidates(&configuration).collect();
            }
            // The earliest call is tried first.
            let candidates: Vec<usize> = self.candidates(&configuration).collect();
            for position in candidates.into_iter().rev() {
                if let Some(register) = self.moves[position].step(configuration.register) {
                    open.push(configuration.with(position, register));
                }
            }
        }
        let stuck: Vec<&str> = furthest.iter().map(|at| self.moves[*at].printed.as_str()).collect();
        let stuck = stuck.join("\n");
        Err(Anomaly::NotLinearizable { path: path.clone(), reached, calls: required, stuck })
    }

    /// Places every call that can take effect now without a change of the register: placing it at once is never wrong.
    fn absorb(&self, mut configuration: Configuration) -> Configuration {
        loop {
            let quiet = self.candidates(&configuration).find(|position| {
                let one = &self.moves[*position];
                one.must_happen() && one.step(configuration.register) == Some(configuration.register)
            });
            let Some(position) = quiet else { return configuration };
            configuration = configuration.with(position, configuration.register);
        }
    }

    /// Calls that may take effect next: called before the first answer of a call that has not taken effect.
    fn candidates(&self, configuration: &Configuration) -> impl Iterator<Item = usize> {
        let waiting = |position: &usize| !configuration.has(*position);
        let bound =
            (0..self.moves.len()).filter(waiting).map(|at| self.moves[at].answered).min().unwrap_or(u64::MAX);
        (0..self.moves.len()).filter(move |at| waiting(at) && self.moves[*at].asked < bound)
    }

    fn missing(&self, configuration: &Configuration) -> usize {
        let required = |at: &usize| self.moves[*at].must_happen() && !configuration.has(*at);
        (0..self.moves.len()).filter(required).count()
    }
}

#[cfg(test)]
mod tests;
