//! Opening the database: RocksDB's options, and its errors.
//!
//! The whole server must stay under 180 MB, of which the objects in memory need the most, so every buffer here is
//! small: 4 MiB write buffers, two per large column family, and a block cache of 4 MiB (state and log are read in
//! order; the member also keeps the log's tail in memory).
//!
//! Invariant: no option here trades durability or the order of writes for speed.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, DBRecoveryMode, LogLevel, Options,
};

use super::state::is_generation;
use super::{CF_LOG, CF_META, Db, OpenError};

const MIB: usize = 1 << 20;
/// Bytes of one memtable of log or state: two of each are 16 MiB at most. At 5,000 writes a second of 1 kB one memtable
/// is flushed every half second, which a single background thread keeps up with.
pub(super) const WRITE_BUFFER_BYTES: usize = 4 * MIB;
/// Bytes of one memtable of the small values, which are overwritten all the time.
const META_BUFFER_BYTES: usize = 2 * MIB;
/// One memtable fills while the other is flushed.
const WRITE_BUFFERS_MAX: i32 = 2;
/// Reads are sequential and rare, so the cache serves iterators, not hot keys.
const CACHE_BYTES: usize = 4 * MIB;
/// Tables in level 0 of one column family at which RocksDB slows all writers down.
const LEVEL0_SLOWDOWN_FILES: u64 = 20;
/// Sequential reads want large blocks, which also compress better.
const BLOCK_BYTES: usize = 16 << 10;
/// Bounds the replay at start (well under half a second); reaching it flushes the oldest memtable.
const WAL_BYTES_MAX: u64 = 32 << 20;
/// Two cores run the whole server; one thread may flush memtables while the other compacts.
const BACKGROUND_JOBS: i32 = 2;
/// Table files kept open: bounds the memory of their readers.
const OPEN_FILES_MAX: i32 = 256;
/// Spreads the write-back of tables, so that it does not pile up before a sync of the log.
const BYTES_PER_SYNC: u64 = 1 << 20;
/// Bytes of level 1: about those of level 0 (four memtables), with which it is merged whole. The disk space that a
/// compaction needs grows with it; RocksDB's default of 256 MiB would be the whole of a small state.
const LEVEL_BYTES: u64 = 32 << 20;
/// Bytes of one table. Below level 1 a compaction merges one or two of them with about ten of the next level.
const TABLE_BYTES: u64 = 8 << 20;
/// Target input of one compaction, in bytes: RocksDB splits larger manual ones.
const COMPACTION_BYTES_MAX: u64 = 64 << 20;
/// RocksDB's own text log: two files of a megabyte are enough to investigate a failure.
const TEXT_LOG_FILES: usize = 2;
const TEXT_LOG_BYTES: usize = MIB;

/// Opens the database in `path`; only a new directory may get a new database. Also returns the column families of the
/// generations in it.
pub(super) fn open(path: &Path, is_new: bool) -> Result<(Db, Vec<String>), OpenError> {
    let options = database(is_new);
    let mut generations = Vec::new();
    if path.join("CURRENT").exists() {
        generations = Db::list_cf(&options, path).map_err(|error| refusal(path, error))?;
        generations.retain(|name| is_generation(name));
    }
    let cache = Cache::new_lru_cache(CACHE_BYTES);
    let large = generations.iter().map(String::as_str).chain([CF_LOG]);
    let families = large
        .map(|name| ColumnFamilyDescriptor::new(name, large_family(&cache)))
        .chain([ColumnFamilyDescriptor::new(CF_META, meta_family(&cache))]);
    let db = Db::open_cf_descriptors(&options, path, families).map_err(|error| refusal(path, error))?;
    Ok((db, generations))
}

/// Opens the log and the small values of the database in `path` to read them: nothing is written there.
pub(super) fn open_to_read(path: &Path) -> Result<Db, OpenError> {
    let cache = Cache::new_lru_cache(MIB);
    let families = [
        ColumnFamilyDescriptor::new(CF_LOG, large_family(&cache)),
        ColumnFamilyDescriptor::new(CF_META, meta_family(&cache)),
    ];
    let db = Db::open_cf_descriptors_read_only(&database(false), path, families, false);
    db.map_err(|error| refusal(path, error))
}

/// Options of a column family created after opening: a generation of the state. It has a small cache of its own, since
/// it is read in order, once.
pub(super) fn generation_family() -> Options {
    large_family(&Cache::new_lru_cache(MIB))
}

fn database(is_new: bool) -> Options {
    let mut options = Options::default();
    options.create_if_missing(is_new);
    options.create_missing_column_families(is_new);
    options.set_paranoid_checks(true);
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_max_total_wal_size(WAL_BYTES_MAX);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_max_open_files(OPEN_FILES_MAX);
    options.set_bytes_per_sync(BYTES_PER_SYNC);
    options.set_keep_log_file_num(TEXT_LOG_FILES);
    options.set_max_log_file_size(TEXT_LOG_BYTES);
    options.set_log_level(LogLevel::Warn);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options
}

fn large_family(cache: &Cache) -> Options {
    let mut options = family(cache);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

fn meta_family(cache: &Cache) -> Options {
    let mut options = family(cache);
    options.set_write_buffer_size(META_BUFFER_BYTES);
    options.set_compression_type(DBCompressionType::None);
    options
}

fn family(cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_cache_index_and_filter_blocks(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_max_write_buffer_number(WRITE_BUFFERS_MAX);
    options.set_level_zero_slowdown_writes_trigger(i32::try_from(LEVEL0_SLOWDOWN_FILES).unwrap_or(i32::MAX));
    options.set_max_bytes_for_level_base(LEVEL_BYTES);
    options.set_target_file_size_base(TABLE_BYTES);
    options.set_max_compaction_bytes(COMPACTION_BYTES_MAX);
    options
}

/// Classifies an error of RocksDB at open by its text.
fn refusal(path: &Path, error: rocksdb::Error) -> OpenError {
    let reason = error.into_string();
    let path = path.to_owned();
    if reason.contains("Permission denied") {
        OpenError::Permission { path, reason }
    } else if reason.contains("lock file") || reason.contains("lock hold") {
        OpenError::InUse { path, holder: "another process".to_owned() }
    } else {
        OpenError::Unreadable { path, reason }
    }
}
