//! Reseeding: the store of a new cluster of one member, made from the objects of an earlier one.
//!
//!     recover: a survivor's disk ---> state at the end of its log --+
//!                                                                   +---> store beside it ---> takes its place
//!     restore: a snapshot's records --------------------------------+
//!     rehearse: a snapshot's records ---> objects in memory, read back, dropped
//!
//! Owns what the new cluster keeps and what it begins with. It keeps every object but those of the store's own that tell of
//! one cluster: its identity, its origin, and the starts of its members. It begins with another identity, one member, the feature
//! level at which its beginning is known, and a revision beyond every one that the earlier cluster can have given out (docs/decisions/0039).
//!
//! [`recover`] and [`restore`] do that in data directories. Their steps, [`Survivor::read`], [`fill`] and [`check`], work on
//! any disk.
//!
//! Invariant: the new cluster has another name than the earlier one, so that no member of that one takes part in it.
//! Invariant: no revision is given out twice: every object is at the beginning, and the first entry of the log behind it.
//! Invariant: no other process uses the data directory meanwhile, and a store that is not complete is never at its place
//! (see [`Remaking`]).

mod check;
mod fill;
mod rehearsal;
mod survivor;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;

pub use self::check::check;
#[cfg(test)]
pub(crate) use self::fill::fill_as;
pub use self::fill::{Filled, fill};
pub use self::rehearsal::{RehearsalError, rehearse};
#[cfg(test)]
pub(crate) use self::survivor::records;
pub use self::survivor::{Found, Survivor};
use crate::archive::Record;
use crate::disk::DiskError;
use crate::disk::cipher::RecordCipher;
use crate::disk::rocks::{DataDirectory, Held, OpenError, RemakeError, Remaking, RocksDisk};
use crate::encoding::{DecodeError, FEATURE_LEVEL_MAX};
use crate::member::feature::agreed_feature_level;
use crate::member::log::LogError;
use crate::member::options::ClusterSeed;
use crate::state::State;
use crate::transport::Peer;

/// Revisions that a cluster gives out in a second, at the very most: five times what was ever measured of one (18,200 writes
/// a second), and more than disks of today sync. Lower, it could be passed on better machines; higher, it costs nothing but
/// digits: a year is 3 * 10^12 of 1.8 * 10^19 revisions.
pub const REVISIONS_A_SECOND_MAX: u64 = 100_000;

/// Revisions that are left out in any case: ten seconds at that rate, for clocks of two machines that differ by as much.
pub const MARGIN_MIN: u64 = 1_000_000;

/// How much clocks of two machines may differ: what [`MARGIN_MIN`] covers, and far more than machines with a time service do.
pub const CLOCKS_DIFFER_MS_MAX: u64 = 10_000;

/// The time that counts as gone by where it is unknown: from 1970 to 2026, even if the clock of this machine was never set.
const LONG_AGO_MS: u64 = 1_767_225_600_000;

/// The highest beginning: far beyond every revision that a cluster reaches, and as far from where numbers end.
pub const BEGINNING_MAX: u64 = 1 << 62;

/// The point of an earlier cluster whose objects a new one is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The earlier cluster's name.
    pub cluster: Arc<str>,
    /// The newest revision in the objects.
    pub revision: u64,
    /// When that was the newest, by the clock of the machine that wrote it: milliseconds since 1970. 0 for unknown.
    pub time_ms: u64,
}

/// The member, the names and the beginning of a new cluster.
#[derive(Clone)]
pub struct NewCluster {
    /// Its only member. Others are added as to any cluster.
    pub member: Peer,
    /// Its name, the earlier one's being another, and the key of its tokens. The brand is that of the objects.
    pub seed: ClusterSeed,
    /// The name of the member's data directory: random. It tells the store from every other one while it is made, too.
    pub directory: String,
    /// The time of day: milliseconds since 1970.
    pub now_ms: u64,
    /// See [`beginning`].
    pub beginning: u64,
}

/// A new cluster whose store has been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The new cluster's name.
    pub cluster: Arc<str>,
    /// The name of its brand.
    pub brand: Arc<str>,
    /// The revision that it begins at.
    pub beginning: u64,
    /// Number of objects, the store's own included.
    pub objects: u64,
    /// Where the store of before is now, if there was one.
    pub kept: Option<PathBuf>,
}

/// Why no new cluster was made. The data directory is as before, unless the error says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ReseedError {
    /// A store cannot be opened: a process has it, or it is damaged.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store cannot be made beside the data, or take its place.
    #[error(transparent)]
    Remake(#[from] RemakeError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The store on the disk cannot be read to its end.
    #[error("the store cannot be read: {reason}; recover from another survivor, or restore a snapshot")]
    Unreadable {
        /// The defect.
        reason: String,
    },
    /// A newer program wrote a part of the store.
    #[error("{reason}: use the program of that version, or a later one")]
    NewerProgram {
        /// The part, its version, and the highest one that this program reads.
        reason: String,
    },
    /// The caller's preparation of a restore failed.
    #[error("the restore cannot be prepared")]
    Unprepared(#[source] Box<dyn Error + Send + Sync>),
    /// The source of the records failed.
    #[error("the snapshot cannot be read")]
    Source(#[source] Box<dyn Error + Send + Sync>),
    /// The objects lack the identity of a cluster: the member was never part of one, or the snapshot is not whole.
    #[error("there is no cluster in it: it lacks the identity that the first write of every cluster makes")]
    NoCluster,
    /// The identity given is that of the earlier cluster.
    #[error("the new cluster must have another name than {0}, whose members could take part in it otherwise")]
    SameCluster(Arc<str>),
    /// The member is the only voter of its cluster: no quorum is lost.
    #[error("{0} is the only voter of its cluster, which has its quorum: start it with `orch serve`")]
    NotNeeded(Arc<str>),
    /// The member is not in its own membership, so that its address is not known.
    #[error("{0} is no member of its cluster any more: give its peer address with --peer-address")]
    NoAddress(Arc<str>),
    /// No cluster was made, and what was made of the store could not be taken away.
    #[error("no new cluster was made, and a part of its store is left ({cleanup}): run the command again")]
    Left {
        /// The failure.
        source: Box<ReseedError>,
        /// That of taking it away.
        cleanup: String,
    },
    /// The objects are newer than the beginning.
    #[error("the beginning {beginning} is not beyond revision {revision} of the objects")]
    BeginsTooEarly {
        /// The beginning.
        beginning: u64,
        /// A revision that was given out.
        revision: u64,
    },
}

impl From<LogError> for ReseedError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Decode(error) => error.into(),
            error => ReseedError::Unreadable { reason: error.to_string() },
        }
    }
}

impl From<DecodeError> for ReseedError {
    fn from(error: DecodeError) -> Self {
        let reason = error.to_string();
        if error.newer { ReseedError::NewerProgram { reason } } else { ReseedError::Unreadable { reason } }
    }
}

/// Requires that this program knows the feature level that the cluster of `state` had agreed on. Below it, objects may have forms
/// that this program takes for others.
fn require_known_level(state: &State) -> Result<(), ReseedError> {
    let agreed = agreed_feature_level(state);
    if agreed > FEATURE_LEVEL_MAX {
        let reason = format!(
            "the cluster is at feature level {agreed}, and this program knows levels up to {FEATURE_LEVEL_MAX}"
        );
        return Err(ReseedError::NewerProgram { reason });
    }
    Ok(())
}

/// Time from `time_ms` to `now_ms`, in milliseconds. `None` where it is unknown: `time_ms` is 0, or later than `now_ms` by
/// more than clocks of two machines may differ, so that one of them is wrong and neither can be believed.
pub fn elapsed_ms(time_ms: u64, now_ms: u64) -> Option<u64> {
    let is_known = time_ms != 0 && time_ms <= now_ms.saturating_add(CLOCKS_DIFFER_MS_MAX);
    is_known.then(|| now_ms.saturating_sub(time_ms))
}

/// The revision at which a new cluster begins that is made at `now_ms` from `origin`: beyond what the earlier cluster gave
/// out since, and no lower than `floor`. At most [`BEGINNING_MAX`]. An unknown time counts as long ago.
///
/// A clock that was ahead when `origin` was written, and one that is behind now, make the time since then look shorter. At the
/// rate that is assumed, a fifth of the true time is enough; where less can be seen, only `floor` helps.
pub fn beginning(origin: &Origin, now_ms: u64, floor: u64) -> u64 {
    let long_ago_ms = || LONG_AGO_MS.max(origin.time_ms).max(now_ms);
    let since_ms = elapsed_ms(origin.time_ms, now_ms).unwrap_or_else(long_ago_ms);
    let given_out = since_ms.saturating_mul(REVISIONS_A_SECOND_MAX / 1000);
    let margin = given_out.saturating_add(MARGIN_MIN);
    origin.revision.saturating_add(margin).max(floor).min(BEGINNING_MAX)
}

/// A survivor's disk, read to its end. No node starts on it while this is there.
pub struct Examined {
    survivor: Survivor,
    disk: RocksDisk,
    lock: Held,
}

impl Examined {
    /// The description of the disk, for an operator's decision.
    pub fn found(&self) -> &Found {
        self.survivor.found()
    }

    /// The point whose objects are kept.
    pub fn origin(&self) -> Origin {
        self.survivor.origin()
    }
}

/// Opens the store in `data_dir`, whose member is stopped, and replays its log, for [`recover`]. The store is opened to be
/// written, as at every start: the torn end of its last write, which a power loss leaves, is cut off, and its files may be
/// compacted. No entry, object or vote in it is changed. A store that an interrupted recovery had moved away is put back.
///
/// # Errors
/// The store is in use, or cannot be read; a newer program wrote it; it never was part of a cluster; its member is the only voter.
pub fn examine(data_dir: &Path, keys: Option<Arc<dyn RecordCipher>>) -> Result<Examined, ReseedError> {
    Remaking::undo_interrupted(data_dir)?;
    let store = Remaking::existing_store(data_dir)?;
    let directory = DataDirectory::lock(&store)?;
    let lock = directory.hold()?;
    let disk = RocksDisk::open_locked(directory, keys)?;
    Ok(Examined { survivor: Survivor::read(&disk)?, disk, lock })
}

/// Makes the store of a new cluster from what is on a survivor's disk, in its place. The old one is kept beside it.
///
/// # Errors
/// See [`ReseedError`].
pub fn recover(
    data_dir: &Path,
    keys: Option<Arc<dyn RecordCipher>>,
    examined: Examined,
    new: &NewCluster,
) -> Result<Made, ReseedError> {
    let Examined { survivor, disk, lock } = examined;
    let remaking = Remaking::of_survivor(data_dir, &new.directory)?;
    let (term, origin) = (survivor.next_term(), survivor.origin());
    let filled = build(&remaking, keys.clone(), &origin, new, term, survivor.records());
    // Before the new state is read: one of them is in memory at a time.
    drop((survivor, disk));
    let made = finish(remaking, keys, filled);
    // The old store stays locked until the new one has its place: no node starts on it meanwhile.
    drop(lock);
    made
}

/// Makes the store of a new cluster from the `records` of a snapshot, in a data directory without a store. `prepare` gives the keys
/// of the new store. It is called once the directory is this restore's: until the end no node and no other restore begins in it.
///
/// # Errors
/// See [`ReseedError`].
pub fn restore<P: Into<Box<dyn Error + Send + Sync>>, E: Into<Box<dyn Error + Send + Sync>>>(
    data_dir: &Path,
    prepare: impl FnOnce() -> Result<Option<Arc<dyn RecordCipher>>, P>,
    origin: &Origin,
    new: &NewCluster,
    records: impl Iterator<Item = Result<Record, E>>,
) -> Result<Made, ReseedError> {
    let remaking = Remaking::of_nothing(data_dir, &new.directory)?;
    let keys = match prepare() {
        Ok(keys) => keys,
        Err(error) => return Err(abandon(remaking, ReseedError::Unprepared(error.into()))),
    };
    let records = records.map(|record| record.map_err(|error| ReseedError::Source(error.into())));
    let filled = build(&remaking, keys.clone(), origin, new, FIRST_TERM, records);
    finish(remaking, keys, filled)
}

/// The term of a restored log's beginning: no member of the new cluster has voted in any.
pub const FIRST_TERM: u64 = 1;

/// Fills the new store, and closes it.
fn build(
    remaking: &Remaking,
    keys: Option<Arc<dyn RecordCipher>>,
    origin: &Origin,
    new: &NewCluster,
    term: u64,
    records: impl Iterator<Item = Result<Record, ReseedError>>,
) -> Result<Filled, ReseedError> {
    let draft = RocksDisk::open_locked(DataDirectory::lock(&remaking.draft())?, keys)?;
    block_on(fill(&draft, origin, new, term, records))
}

/// Reads what was made and puts it at its place, or takes it away.
fn finish(
    remaking: Remaking,
    keys: Option<Arc<dyn RecordCipher>>,
    filled: Result<Filled, ReseedError>,
) -> Result<Made, ReseedError> {
    let read_back = |filled: Filled| {
        let draft = RocksDisk::open_locked(DataDirectory::lock(&remaking.draft())?, keys)?;
        check(&draft, &filled)?;
        Ok(filled.made)
    };
    match filled.and_then(read_back) {
        Ok(made) => Ok(Made { kept: remaking.finish()?, ..made }),
        Err(error) => Err(abandon(remaking, error)),
    }
}

/// Takes away what was made before `error`, and tells both where that fails, too.
fn abandon(remaking: Remaking, error: ReseedError) -> ReseedError {
    match remaking.abandon() {
        Ok(()) => error,
        Err(cleanup) => ReseedError::Left { source: Box::new(error), cleanup: cleanup.with_cause() },
    }
}
