//! The consensus library's own contract of a log, held against ours.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft_rt_sim::SimRuntime;

use super::disk::MemoryDisk;
use crate::Runtime;
use crate::member::consensus::Types;
use crate::member::fatal::Fatal;
use crate::member::feature::FeatureLevel;
use crate::member::log::{Log, Settle};
use crate::member::machine::{Applied, Machine};
use crate::member::options::HistoryOptions;
use crate::member::proposals::Proposals;

type SimTypes = Types<SimRuntime>;
type SimLog = Log<SimRuntime, MemoryDisk>;
type SimMachine = Machine<SimRuntime, MemoryDisk>;

/// The suite purges entries without applying them.
struct Settled;

impl Settle for Settled {
    fn settle(&self, _: u64) -> bool {
        true
    }
}

struct Builder;

impl StoreBuilder<SimTypes, SimLog, SimMachine, ()> for Builder {
    async fn build(&self) -> Result<((), SimLog, SimMachine), StorageError<SimTypes>> {
        let (disk, fatal) = (Arc::new(MemoryDisk::default()), Fatal::default());
        let proposals = Arc::new(Proposals::new(1, 1, FeatureLevel::of(1)));
        let applied = Applied::load(disk.clone(), HistoryOptions::default(), proposals, fatal.clone());
        let applied = Arc::new(applied.unwrap());
        let log = Log::open(disk, Arc::new(Settled), fatal, FeatureLevel::of(1)).unwrap();
        Ok(((), log, Machine::new(applied)))
    }
}

#[test]
fn the_log_and_the_machine_keep_the_librarys_contract() {
    let result = SimRuntime::with_seed(1).block_on(Suite::test_all(Builder));
    // The last case alone installs a snapshot as it was built. Ours are received first; scenarios cover that.
    let last_case = result.unwrap_err().to_string();
    assert!(last_case.contains("a snapshot to send was given to install"), "{last_case}");
}
