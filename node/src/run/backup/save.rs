//! One backup: a place among the member's snapshots, its stream, the restore test of the file, and its name.
//!
//! Owns the order. The file has its name, and older ones are removed, only after a restore of what is on the disk gave back
//! the state that was saved. The work is done on threads of low priority beside the requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use orch_raft::{ClusterIdentity, Fingerprint, Store};
use orch_serving::Causes;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::folder::Backup;
use super::plan::Job;
use crate::run::snapshot::{Places, Point, root, stream, yield_to_requests};
use crate::run::store::Handle;
use crate::snapshot::{Copied, Existing, Output, Sink, Tested, copy_unnamed};

/// Longest wait for a place: streams of clients end within ten minutes.
const PLACE_MAX: Duration = Duration::from_secs(900);

/// The member that is saved.
pub(in crate::run) struct Source {
    handle: Handle,
    cluster: Arc<ClusterIdentity>,
    places: Places,
}

impl Source {
    /// The member of `handle`. A backup takes one of `places`, from its beginning to the end of its test.
    pub(in crate::run) fn new(handle: Handle, cluster: &ClusterIdentity, places: Places) -> Source {
        Source { handle, cluster: Arc::new(cluster.clone()), places }
    }

    /// The cluster's name.
    pub(super) fn cluster(&self) -> &str {
        &self.cluster.cluster
    }
}

/// A backup that was saved.
pub(super) struct Saved {
    pub(super) backup: Backup,
    /// Objects that its restore test gave back.
    pub(super) objects: u64,
}

/// Saves a backup, and then removes those that are not kept.
pub(super) async fn save(plan: &Arc<Job>, source: &Source) -> anyhow::Result<Saved> {
    let place = timeout(PLACE_MAX, source.places.take()).await;
    let place = place.context("other snapshots take this member's places all the time")?;
    source.handle.barrier().await.context("no state that is known to be the newest")?;
    let root = Arc::new(root(&source.handle, &source.cluster, Point::Newest));
    let saved = root.state.fingerprint();
    let pieces = stream(source.handle.clone(), root, 0, None).context("no thread for a backup")?;
    let (done, ended) = oneshot::channel();
    let plan = plan.clone();
    let thread = std::thread::Builder::new().name("backup".to_owned()).spawn(move || {
        let _place = place;
        yield_to_requests();
        // Without a receiver the node is stopping.
        let _ = done.send(write(&plan, pieces, saved));
    });
    thread.context("no thread for a backup")?;
    ended.await.context("the thread of a backup ended early")?
}

fn write(plan: &Job, pieces: Receiver<io::Result<Bytes>>, saved: Fingerprint) -> anyhow::Result<Saved> {
    let name = plan.names.now()?;
    let output = Output::file(&plan.folder.file(&name), Existing::Refuse)?;
    let Copied { header, written, .. } =
        copy_unnamed(io::empty(), pieces, Sink::new(output, &plan.recipients)?, None)?;
    let Tested { objects, digest } = written.rehearse(&header, saved)?;
    written.commit()?;
    let backup = plan.folder.made(&name, Some(digest))?;
    // The backup is there: a further one would only add to those that are not removed.
    if let Err(error) = plan.folder.retain(&backup, plan.keep) {
        let error = Causes(error.as_ref());
        tracing::warn!(%error, "older backups stay; the next backup removes them");
    }
    Ok(Saved { backup, objects })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use orch_raft::archive::{Header, write_state};
    use tokio::sync::mpsc::channel;

    use super::super::folder::Folder;
    use super::super::health::BackupHealth;
    use super::super::names::Names;
    use super::*;
    use crate::snapshot::testing::some_state;

    fn plan_for(path: &Path, keep: usize) -> Job {
        let names = Names::of("a", "one");
        Job {
            schedule: "1h".parse().unwrap(),
            folder: Folder::new(path, names.clone()),
            names,
            keep,
            recipients: Vec::new(),
            bucket: None,
            health: BackupHealth::default(),
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The outcome of [`write`] for a snapshot of 20 pods, by a member that had `saved` of them.
    fn write_state_of(plan: &Job, saved: u64) -> anyhow::Result<Saved> {
        let stream = write_state(Vec::new(), &Header::default(), &some_state(20)).unwrap();
        let (sender, receiver) = channel(1);
        sender.try_send(Ok(stream.into())).unwrap();
        drop(sender);
        write(plan, receiver, some_state(saved).fingerprint())
    }

    #[test]
    fn a_backup_counts_and_older_ones_go_only_after_its_restore_test() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan_for(folder.path(), 1);
        let old = format!("{}20201129T101500Z.snapshot", plan.names.begin());
        std::fs::write(folder.path().join(&old), "x").unwrap();
        let told = write_state_of(&plan, 19).err().map(|error| format!("{error:#}")).unwrap();
        assert!(told.contains("restore test"), "{told}");
        assert_eq!(names(folder.path()), [&*old], "nothing is kept of it, and nothing removed for it");

        let Saved { backup, objects } = write_state_of(&plan, 20).unwrap();
        assert_eq!(objects, 21);
        assert_eq!(names(folder.path()), [&*backup.name]);
        assert_eq!(std::fs::metadata(&backup.path).unwrap().len(), backup.bytes);
    }
}
