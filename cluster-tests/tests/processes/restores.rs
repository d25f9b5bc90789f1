//! A snapshot is restored: files that are not whole are refused, a killed restore leaves nothing that a node starts on, and
//! clients live through it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use orch_cluster_tests::cluster::{Cluster, Options, program};
use tokio::time::sleep;

use crate::objects::{COLLECTION, config_map, list, make_namespace, version};
use crate::recovery::{Informer, clients_begin_anew};

/// Objects in the snapshot.
const OBJECTS: usize = 200;

/// Timeout of a step of an operator.
const STEP_MAX: Duration = Duration::from_secs(20);

/// Milliseconds after which a restore is killed: from its first steps to its end, on a slow machine and a fast one.
const KILLED_AFTER_MS: [u64; 8] = [10, 30, 60, 100, 160, 250, 400, 700];

fn restore(file: &Path, data: &Path) -> Command {
    let mut command = Command::new(program("orch").unwrap());
    command.args(["snapshot", "restore"]).arg(file).arg("--data-dir").arg(data);
    command
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Saves a snapshot of member 0.
fn save(cluster: &Cluster, file: &Path) {
    let server = cluster.doors()[0].0.authority();
    let config = cluster.certificates().join("admin.conf").display().to_string();
    let file = file.display().to_string();
    let saved =
        cluster.run(&["snapshot", "save", &file, "--server", &server, "--kubeconfig", &config]).unwrap();
    assert!(saved.status.success(), "{}", text(&saved));
}

/// Files that are not whole, and what is told of them.
fn refuse_damaged(whole: &[u8], data: &Path, folder: &Path) {
    let path = folder.join("damaged.snapshot");
    let mut flipped = whole.to_vec();
    flipped[whole.len() / 2] ^= 4;
    let trailing = [whole, b"x"].concat();
    let damaged: [(&[u8], &str); 4] = [
        (&whole[..whole.len() - 7], "cut short"),
        (&flipped, "damaged"),
        (&trailing, "bytes follow the end"),
        (b"something else", "not a snapshot"),
    ];
    for (bytes, expected) in damaged {
        fs::write(&path, bytes).unwrap();
        let refused = restore(&path, data).output().unwrap();
        let told = text(&refused);
        assert!(!refused.status.success() && told.contains(expected), "{expected}: {told}");
        for left in ["store", "store.new", "REMAKING"] {
            assert!(!data.join(left).exists(), "{expected}: {left} is left");
        }
    }
}

/// A disk without room for the store: it is said, and nothing half-made is left.
fn refuse_without_room(file: &Path, data: &Path) {
    let command = restore(file, data);
    // Blocks of 512 or 1024 bytes for one file: less than the objects take.
    let script = "ulimit -f 128; trap '' XFSZ; exec \"$0\" \"$@\"";
    let mut cramped = Command::new("sh");
    cramped.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    let refused = cramped.output().unwrap();
    let told = text(&refused);
    assert!(!refused.status.success() && told.contains("nothing was restored"), "{told}");
    assert!(told.contains("File too large"), "the reason is told: {told}");
    for left in ["store", "store.new", "REMAKING", "REMAKING.new"] {
        assert!(!data.join(left).exists(), "{left} is left: {told}");
    }
}

/// Text that compression makes half as long, and no shorter.
fn noise(seed: usize) -> String {
    let mut state = u64::try_from(seed).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    (0..313).map(|_| step()).collect()
}

/// Kills restores at several moments: no node starts on a directory that was left with a mark.
async fn kill_restores(cluster: &mut Cluster, file: &Path) {
    let data = cluster.data(0);
    let mut refused = 0;
    for after in KILLED_AFTER_MS {
        let mut restoring = restore(file, &data).spawn().unwrap();
        sleep(Duration::from_millis(after)).await;
        restoring.kill().unwrap();
        restoring.wait().unwrap();
        if data.join("REMAKING").exists() {
            cluster.respawn(0).unwrap();
            let ending = cluster.wait_end(0, STEP_MAX).await.unwrap();
            assert_eq!(ending.code, Some(1), "{}", ending.log);
            assert!(ending.log.contains("`orch snapshot restore` is under way or was interrupted"));
            refused += 1;
        } else if data.join("store").exists() {
            // The restore had ended before it was killed.
            fs::remove_dir_all(data.join("store")).unwrap();
        }
    }
    assert!(refused > 0, "no restore was killed at its work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_restored_and_its_clients_begin_anew() {
    let mut cluster = Cluster::start(Options { spares: 1, ..Options::nodes(1) }).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    for number in 0..OBJECTS {
        client
            .post(COLLECTION, &config_map(&format!("a{number}"), &noise(number)))
            .await
            .unwrap()
            .success()
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("monday.snapshot");
    save(&cluster, &file);
    let (before, _) = list(&client, "").await.unwrap();
    for number in 0..50 {
        client.post(COLLECTION, &config_map(&format!("b{number}"), "x")).await.unwrap().success().unwrap();
    }
    client.delete(&format!("{COLLECTION}/a0")).await.unwrap().success().unwrap();
    let informer = Informer::start(&client).await;
    let given_out = informer.cursor;

    let data = cluster.data(0);
    let in_use = restore(&file, &data).output().unwrap();
    assert!(text(&in_use).contains("has a store already"), "{}", text(&in_use));
    cluster.kill(0).unwrap();
    let has_store = restore(&file, &data).output().unwrap();
    assert!(text(&has_store).contains("has a store already"), "{}", text(&has_store));
    fs::remove_dir_all(data.join("store")).unwrap();
    refuse_damaged(&fs::read(&file).unwrap(), &data, folder.path());
    refuse_without_room(&file, &data);
    kill_restores(&mut cluster, &file).await;
    let restored = restore(&file, &data).output().unwrap();
    assert!(restored.status.success(), "{}", text(&restored));

    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    let client = cluster.client(0).unwrap();
    let (objects, at) = list(&client, "").await.unwrap();
    assert!(
        objects.keys().eq(before.keys()),
        "{} objects, and {} in the snapshot",
        objects.len(),
        before.len()
    );
    let oldest = *objects.values().min().unwrap();
    assert!(
        at > given_out && oldest > given_out,
        "{given_out} was given out, and {oldest} is older than that"
    );
    let kept = client.get(&format!("{COLLECTION}/a0")).await.unwrap().success().unwrap();
    assert_eq!(version(&kept).unwrap(), oldest);
    clients_begin_anew(&client, informer).await;

    let joined = cluster.add().await.unwrap();
    cluster.wait_ready(joined).await.unwrap();
    let name = cluster.name(joined).to_owned();
    cluster.operate_until_done(0, &["promote", &name], STEP_MAX).await.unwrap();
    let (objects, at) = list(&client, "").await.unwrap();
    cluster.wait_applied(joined, at).await.unwrap();
    assert_eq!(list(&cluster.client(joined).unwrap(), "").await.unwrap().0, objects);
}
