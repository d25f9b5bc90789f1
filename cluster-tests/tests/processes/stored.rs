//! Changes of a member's stored objects behind its back, while it is stopped.
//!
//! Owns the wait until an object is in the state on the disk: a member writes objects there once they have left its history in memory.
//! Members under test keep a second of history (`--watch-history=1s`). The changed record has a valid checksum.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use orch_cluster_tests::cluster::Cluster;
use orch_proto::store::StoredObject;
use orch_raft::disk::rocks::RocksDisk;
use orch_raft::disk::{Disk, StateBatch, StateWrite, StateWritten};
use prost::Message;

/// Starts of the member before an object that is not on its disk is given up.
const STARTS_MAX: usize = 10;

/// One second of history, and the time that the keeper takes to move it.
const MOVING_TIME: Duration = Duration::from_secs(3);

/// Changes the stored object at `path` of a stopped member. `false` while the state on the disk does not have the object yet.
pub(crate) fn change(
    cluster: &Cluster,
    node: usize,
    path: &str,
    change: impl FnOnce(&mut StoredObject),
) -> bool {
    let disk = RocksDisk::open(&cluster.data(node).join("store")).unwrap();
    let mut found = None;
    disk.read_state(&mut |resource, at, record| {
        if at == path {
            found = Some((resource.to_owned(), record));
        }
    })
    .unwrap();
    let Some((resource, record)) = found else { return false };
    let mut object = StoredObject::decode(record).unwrap();
    change(&mut object);
    let record = Some(Bytes::from(object.encode_to_vec()));
    let write = StateWrite { resource: resource.into(), path: path.into(), record };
    let batch =
        StateBatch { generation: disk.generation().unwrap(), writes: vec![write], ..StateBatch::default() };
    let (sender, receiver) = mpsc::channel();
    disk.write_state(batch, Box::new(move |written| sender.send(written).unwrap()));
    assert_eq!(receiver.recv().unwrap(), Ok(StateWritten::Written));
    true
}

/// Kills member `node` and changes its stored object at `path`. The member stays stopped.
pub(crate) async fn kill_and_change(
    cluster: &mut Cluster,
    node: usize,
    path: &str,
    changed: impl Fn(&mut StoredObject),
) {
    for _ in 0..STARTS_MAX {
        cluster.kill(node).unwrap();
        if change(cluster, node, path, &changed) {
            return;
        }
        cluster.respawn(node).unwrap();
        cluster.wait_ready(node).await.unwrap();
        tokio::time::sleep(MOVING_TIME).await;
    }
    panic!("{path} never reaches the state on the disk");
}
