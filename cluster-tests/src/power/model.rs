//! Operations of a member on its disk, the facts it prints about them, and the content they should give.
//!
//! Every operation has a number, unique in its directory. Everything it writes carries that number and can be computed
//! from it, so that the number tells whether a value is the right one and whole.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The two streams of a member's writes. Each is issued by one thread; a running member appends while it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Log, vote and the other small values.
    Log,
    /// The applied state.
    State,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Saves the vote, synced.
    Vote,
    /// Saves the committed log id, unsynced.
    Committed,
    /// Appends the entries from the first to the second index, synced.
    Append(u64, u64),
    /// Removes the entries after an index.
    Truncate(u64),
    /// Forgets the entries up to an index.
    Purge(u64),
    /// Changes objects (`true` writes, `false` removes) and the mark, which names the applied index.
    Write(u64, BTreeMap<String, bool>),
    /// Replaces all objects and the mark, synced.
    Install(u64, Vec<String>),
}

/// One line of a member's standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// The disk was opened and holds this, which counts as durable from now on.
    Shown(Shown),
    /// The disk could not be opened or read, or an operation failed.
    Refused(String),
    /// An operation begins.
    Try(Stream, u64, Operation),
    /// Its call has returned: an operation that begins now is written after it.
    Done(Stream, u64),
    /// The operation was reported as durable.
    Durable(Stream, u64),
}

/// Content of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The log's side.
    pub log: LogShown,
    /// The state's side.
    pub state: StateShown,
}

/// Vote, log and other small values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogShown {
    /// The operation that saved the vote.
    pub vote: Option<u64>,
    /// The operation that saved the committed log id.
    pub committed: Option<u64>,
    /// The last purge: its operation and its index.
    pub purged: Option<(u64, u64)>,
    /// Index and operation of each entry.
    pub entries: BTreeMap<u64, u64>,
}

/// The applied state and its history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateShown {
    /// The operation of the mark, and the applied index in it.
    pub mark: Option<(u64, u64)>,
    /// The operation that wrote each object.
    pub objects: BTreeMap<String, u64>,
    /// The operations that wrote blocks of history.
    pub history: BTreeSet<u64>,
}

/// Expected content of one side of a disk.
pub trait Side: Clone + PartialEq + Serialize {
    /// Applies one operation.
    fn apply(&mut self, number: u64, operation: &Operation);
}

impl Side for LogShown {
    fn apply(&mut self, number: u64, operation: &Operation) {
        match operation {
            Operation::Vote => self.vote = Some(number),
            Operation::Committed => self.committed = Some(number),
            Operation::Append(first, last) => {
                self.entries.extend((*first..=*last).map(|index| (index, number)));
            }
            Operation::Truncate(after) => self.entries.retain(|index, _| index <= after),
            Operation::Purge(through) => {
                self.purged = Some((number, *through));
                self.entries.retain(|index, _| index > through);
            }
            Operation::Write(..) | Operation::Install(..) => {}
        }
    }
}

impl Side for StateShown {
    fn apply(&mut self, number: u64, operation: &Operation) {
        match operation {
            Operation::Write(applied, objects) => {
                self.mark = Some((number, *applied));
                if has_history(number) {
                    self.history.insert(number);
                }
                for (path, is_written) in objects {
                    if *is_written {
                        self.objects.insert(path.clone(), number);
                    } else {
                        self.objects.remove(path);
                    }
                }
            }
            Operation::Install(applied, objects) => {
                self.mark = Some((number, *applied));
                self.history.clear();
                self.objects = objects.iter().map(|path| (path.clone(), number)).collect();
            }
            _ => {}
        }
    }
}

/// Sizes of values: most are small, some cross pages, a few fill a memtable.
const SIZES: [usize; 8] = [24, 40, 100, 300, 700, 2_000, 9_000, 40_000];

/// The value that operation `number` writes at `place`, an index or [`place_of`] a path.
pub fn value(number: u64, place: u64) -> Vec<u8> {
    let size_of_operation = SIZES[usize::try_from(mix(number) % 8).unwrap_or(0)];
    let mut chance = mix(number ^ mix(place));
    let size = 16 + size_of_operation / 2 + usize::try_from(chance % 64).unwrap_or(0);
    let mut bytes = [number.to_le_bytes(), place.to_le_bytes()].concat();
    while bytes.len() < size {
        chance = mix(chance);
        bytes.extend_from_slice(&chance.to_le_bytes());
    }
    bytes
}

/// Entries of this operation are large, so that it should not write many.
pub fn is_large(number: u64) -> bool {
    mix(number) % 8 >= 5
}

/// A write of the state with this number brings a block of history.
pub fn has_history(number: u64) -> bool {
    number % 4 == 1 && !is_large(number)
}

/// Number of the operation that wrote `bytes` at `place`; `None` if they are damaged.
pub fn writer_of(bytes: &[u8], place: u64) -> Option<u64> {
    let number = u64::from_le_bytes(*bytes.first_chunk()?);
    (value(number, place) == bytes).then_some(number)
}

/// The place of an object: a hash of its path.
pub fn place_of(path: &str) -> u64 {
    path.bytes().fold(17, |place, byte| mix(place ^ u64::from(byte)))
}

/// A bijection that leaves no pattern (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
