//! Copies of this member's backups in a bucket.
//!
//! Owns the order: the newest backup of the folder is uploaded, read again and compared; only then older copies of this member
//! are removed. A file is sent only if its bytes are those that passed their restore test, so that the copy is compared with it
//! byte by byte. After a restart the digest of those bytes is unknown: a plain file is verified before it is sent, and no
//! object is replaced. A failure is tried again, with the backup that is the newest then, and holds up no backup of the folder.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use orch_serving::Causes;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::RETRY_MAX;
use super::figures::TargetFigures;
use super::folder::Backup;
use super::plan::Job;
use crate::object_store::{ObjectStore, ObjectStoreError};
use crate::snapshot::prove;

/// Longest copy, with its comparison: 64 GiB each way at 10 MiB a second. A slower one would hold up those after it.
const COPY_MAX: Duration = Duration::from_secs(4 * 3600);

/// Copies each backup that becomes the `newest`, until `stopped`.
pub(super) async fn keep_copying(
    plan: &Job,
    bucket: &ObjectStore,
    mut newest: watch::Receiver<Option<Backup>>,
    stopped: &CancellationToken,
) {
    let figures = TargetFigures::new("s3", plan.health.clone());
    let mut copied = None;
    loop {
        let backup = newest.borrow_and_update().clone();
        let mut has_failed = false;
        if let Some(backup) = backup {
            let began = Instant::now();
            // An upload that is given up removes its parts before the loop goes on.
            let given_up = stopped.child_token();
            let copying = copy(plan, bucket, &backup, &mut copied, &given_up);
            tokio::pin!(copying);
            let ended = match timeout(COPY_MAX, &mut copying).await {
                Ok(ended) => ended,
                Err(_) => {
                    given_up.cancel();
                    copying.await
                }
            };
            match ended {
                Ok(()) => {
                    let time = began.elapsed();
                    figures.took(time);
                    figures.show(&backup);
                    let (place, name, seconds) = (bucket.place(), &backup.name, time.as_secs_f64());
                    tracing::info!(%place, name, seconds, "a backup is in the bucket, and was read there again");
                }
                Err(error) => {
                    has_failed = true;
                    let (error, place) = (Causes(error.as_ref()), bucket.place());
                    figures.failed(&error.to_string());
                    tracing::warn!(%error, %place, "a backup was not copied to the bucket; it is tried again");
                }
            }
        }
        let next = async {
            match has_failed {
                // The pause is over: the same is tried again.
                true => timeout(RETRY_MAX, newest.changed()).await.unwrap_or(Ok(())),
                false => newest.changed().await,
            }
        };
        // Its sender ends with the node.
        if !matches!(stopped.run_until_cancelled(next).await, Some(Ok(()))) {
            return;
        }
    }
}

/// Copies `backup`, unless it is there, and then removes those that are not kept. `copied` is the last that was compared.
async fn copy(
    plan: &Job,
    bucket: &ObjectStore,
    backup: &Backup,
    copied: &mut Option<PathBuf>,
    given_up: &CancellationToken,
) -> anyhow::Result<()> {
    let stored = Box::pin(or_given_up(given_up, bucket.list(plan.names.begin()))).await?;
    if copied.as_ref() != Some(&backup.path) {
        // A node that was restarted finds what it copied before; so does one whose comparison failed.
        let is_listed = stored.iter().any(|one| one.name == backup.name);
        let expected = match &backup.tested {
            Some(tested) => tested.clone(),
            None => {
                let path = backup.path.clone();
                tokio::task::spawn_blocking(move || prove(&path)).await??
            }
        };
        if !is_listed || !Box::pin(or_given_up(given_up, bucket.holds(&backup.name, &expected))).await? {
            if is_listed && backup.tested.is_none() {
                // The file of the folder was not tested when it was made, so either may be the good one.
                bail!(
                    "{} in the bucket is another than the file in the folder: look at both, and remove the bad one",
                    backup.name
                );
            }
            Box::pin(bucket.upload(&backup.name, &backup.path, &expected, given_up)).await?;
        }
        *copied = Some(backup.path.clone());
    }
    let names = stored.iter().map(|one| &*one.name);
    for old in plan.names.surplus(names, &backup.name, plan.keep) {
        Box::pin(or_given_up(given_up, bucket.remove(old))).await?;
    }
    Ok(())
}

/// The outcome of `work`, unless it is `given_up` before.
async fn or_given_up<T>(
    given_up: &CancellationToken,
    work: impl Future<Output = Result<T, ObjectStoreError>>,
) -> anyhow::Result<T> {
    let ended = given_up.run_until_cancelled(work).await;
    Ok(ended.ok_or_else(|| anyhow!("it was given up: it took too long, or the node stops"))??)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use sha2::{Digest as _, Sha256};

    use super::super::folder::Folder;
    use super::super::health::BackupHealth;
    use super::super::names::Names;
    use super::*;
    use crate::object_store::Digest;
    use crate::object_store::testing::{SECRET, Server, Trouble};
    use crate::snapshot::testing::some_state;

    /// A server, a folder, and the plan of a member called `a` that keeps two backups in both.
    struct Setting {
        server: Server,
        plan: Job,
        bucket: Arc<ObjectStore>,
        root: tempfile::TempDir,
    }

    impl Setting {
        async fn new() -> Setting {
            let (server, root) = (Server::start().await, tempfile::tempdir().unwrap());
            let bucket = Arc::new(server.bucket(root.path(), SECRET, 1000));
            let names = Names::of("a", "one");
            let folder = Folder::new(root.path(), names.clone());
            let plan = Job {
                schedule: "1h".parse().unwrap(),
                folder,
                names,
                keep: 2,
                recipients: Vec::new(),
                bucket: Some(bucket.clone()),
                health: BackupHealth::default(),
            };
            Setting { server, plan, bucket, root }
        }

        /// The backup of a day, which is a file.
        fn backup(&self, day: u8) -> Backup {
            let name = format!("{}202511{day:02}T101500Z.snapshot", self.plan.names.begin());
            let content = vec![day; 2500];
            std::fs::write(self.root.path().join(&name), &content).unwrap();
            let tested = Digest { sha256: Sha256::digest(&content).into(), bytes: 2500 };
            self.plan.folder.made(&name, Some(tested)).unwrap()
        }

        async fn copy(&self, backup: &Backup, copied: &mut Option<PathBuf>) -> anyhow::Result<()> {
            copy(&self.plan, &self.bucket, backup, copied, &CancellationToken::new()).await
        }

        /// The days whose backups are whole in the bucket.
        fn days(&self) -> Vec<u8> {
            let contents = self.server.contents.lock();
            let objects = contents.objects.iter().filter(|(_, object)| object.len() == 2500);
            objects
                .filter(|(key, _)| key.contains("T101500Z") && key.starts_with("orch/prod/a-"))
                .map(|(_, object)| object[0])
                .collect()
        }
    }

    #[tokio::test]
    async fn the_newest_are_kept_in_the_bucket_and_other_objects_stay() {
        let setting = Setting::new().await;
        let foreign = ["orch/prod/b-20251101T101500Z.snapshot", "orch/prod/a-notes", "other"];
        for key in foreign {
            setting.server.contents.lock().objects.insert(key.to_owned(), "x".into());
        }
        for day in 1..=4 {
            setting.copy(&setting.backup(day), &mut None).await.unwrap();
        }
        assert_eq!(setting.days(), [3, 4]);
        let contents = setting.server.contents.lock();
        assert!(foreign.iter().all(|key| contents.objects.contains_key(*key)));
    }

    #[tokio::test]
    async fn nothing_is_removed_for_a_copy_that_failed() {
        let setting = Setting::new().await;
        for day in 1..=2 {
            setting.copy(&setting.backup(day), &mut None).await.unwrap();
        }
        setting.server.order("part 3", Trouble::Refused(403, "AccessDenied"), 1);
        let third = setting.backup(3);
        assert!(setting.copy(&third, &mut None).await.is_err());
        assert_eq!(setting.days(), [1, 2]);
        assert!(setting.server.contents.lock().uploads.is_empty());
        setting.copy(&third, &mut None).await.unwrap();
        assert_eq!(setting.days(), [2, 3]);
    }

    #[tokio::test]
    async fn a_copy_is_compared_again_after_a_restart_and_sent_again_only_if_it_differs() {
        let setting = Setting::new().await;
        let (backup, mut copied) = (setting.backup(1), None);
        setting.copy(&backup, &mut copied).await.unwrap();
        setting.server.take_calls();
        setting.copy(&backup, &mut copied).await.unwrap();
        assert_eq!(setting.server.take_calls(), ["list"], "it was compared before");
        setting.copy(&backup, &mut None).await.unwrap();
        assert_eq!(setting.server.take_calls(), ["list", "read"]);

        let key = format!("orch/prod/{}", backup.name);
        setting.server.contents.lock().objects.insert(key, vec![9; 2500].into());
        setting.copy(&backup, &mut None).await.unwrap();
        assert_eq!(setting.days(), [1]);
    }

    #[tokio::test]
    async fn a_file_that_rotted_replaces_no_copy_and_is_no_new_one() {
        let setting = Setting::new().await;
        let backup = setting.backup(1);
        setting.copy(&backup, &mut None).await.unwrap();
        std::fs::write(&backup.path, vec![8; 2500]).unwrap();
        // Known to have been tested: the copy is still the good one.
        setting.copy(&backup, &mut None).await.unwrap();
        setting.server.take_calls();
        // After a restart.
        let stream =
            orch_raft::archive::write_state(Vec::new(), &Default::default(), &some_state(3)).unwrap();
        std::fs::write(&backup.path, &stream).unwrap();
        let unknown = setting.plan.folder.made(&backup.name, None).unwrap();
        let told = setting.copy(&unknown, &mut None).await.unwrap_err().to_string();
        assert!(told.contains("look at both"), "{told}");
        assert_eq!(setting.days(), [1]);

        let mut rotten = stream.clone();
        rotten[stream.len() / 2] ^= 1;
        let (other, place) = (setting.backup(2), |path: &Path, content: &[u8]| std::fs::write(path, content));
        let unknown = setting.plan.folder.made(&other.name, None).unwrap();
        place(&unknown.path, &rotten).unwrap();
        assert!(setting.copy(&unknown, &mut None).await.is_err());
        assert!(!setting.server.take_calls().contains(&"create".to_owned()), "nothing of it was sent");
        place(&unknown.path, &stream).unwrap();
        setting.copy(&unknown, &mut None).await.unwrap();
        let key = format!("orch/prod/{}", unknown.name);
        assert!(setting.server.contents.lock().objects[&key] == stream);
    }

    #[tokio::test]
    async fn each_new_backup_is_copied_until_the_node_stops() {
        let setting = Setting::new().await;
        let (sender, receiver) = watch::channel(None);
        let stopped = CancellationToken::new();
        let keeping = keep_copying(&setting.plan, &setting.bucket, receiver, &stopped);
        let acting = async {
            for day in 1..=3 {
                sender.send_replace(Some(setting.backup(day)));
                let begin = Instant::now();
                while setting.days().last() != Some(&day) {
                    assert!(begin.elapsed() < Duration::from_secs(30), "{day}: {:?}", setting.days());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            stopped.cancel();
        };
        tokio::join!(keeping, acting);
        assert!(setting.days().contains(&3));
        assert!(Path::new(&setting.backup(3).path).exists());
    }
}
