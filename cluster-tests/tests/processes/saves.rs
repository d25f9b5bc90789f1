//! Saves whose stream breaks, or that are killed: they go on where the member has the state, begin anew where it has not, and leave
//! nothing that passes for a snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options, program};
use orch_raft::archive::{MAGIC, Reader};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::objects::{COLLECTION, config_map, make_namespace};
use crate::snapshots::{
    LARGE_OBJECTS, config_maps, fail, make_large_objects, names, snapshot, succeed, text, wait_until,
};

/// Bytes after which a connection breaks: far more than sockets hold, and a part of the whole.
const BREAKS_AFTER: u64 = 12 << 20;

/// A way to a member on which the first connections break.
pub(crate) struct Way {
    pub(crate) address: String,
    /// The member's address.
    pub(crate) target: Arc<Mutex<String>>,
    broke: Arc<Notify>,
}

impl Way {
    /// A way to `target` on which the first connections break after so many bytes from the member.
    pub(crate) async fn breaking(target: String, limits: &[u64]) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (target, broke) = (Arc::new(Mutex::new(target)), Arc::new(Notify::new()));
        let (to, breaks) = (target.clone(), broke.clone());
        let mut limits: std::collections::VecDeque<u64> = limits.iter().copied().collect();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = to.lock().clone();
                // A member that is down: the connection ends.
                let Ok(member) = TcpStream::connect(target).await else { continue };
                let (limit, breaks) = (limits.pop_front(), breaks.clone());
                tokio::spawn(async move {
                    forward(client, member, limit.unwrap_or(u64::MAX)).await;
                    if limit.is_some() {
                        breaks.notify_one();
                    }
                });
            }
        });
        Way { address, target, broke }
    }
}

async fn forward(mut client: TcpStream, mut member: TcpStream, limit: u64) {
    let (mut from_client, mut to_client) = client.split();
    let (from_member, mut to_member) = member.split();
    let mut from_member = from_member.take(limit);
    tokio::select! {
        _ = copy(&mut from_client, &mut to_member) => {}
        _ = copy(&mut from_member, &mut to_client) => {}
    }
}

/// `orch snapshot save PATH` of the member at `server`.
fn save(cluster: &Cluster, server: &str, path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program("orch").unwrap());
    command.args(["snapshot", "save"]).arg(path).args(arguments).args(["--server", server]);
    command.arg("--kubeconfig").arg(cluster.certificates().join("admin.conf"));
    command
}

/// Runs `command` beside this task, and returns what it tells.
async fn told(command: Command) -> String {
    let output = tokio::task::spawn_blocking(move || succeed(command)).await.unwrap();
    text(&output.stderr)
}

fn revision(file: &Path) -> u64 {
    Reader::open(&fs::read(file).unwrap()[..]).unwrap().header().revision.0
}

fn server(cluster: &Cluster) -> String {
    cluster.doors()[0].0.authority()
}

/// The file of a save of `path` that is not whole.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// The same of an encrypted one, which no other command resumes.
fn sealed_part_of(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.partial", path.file_name().unwrap().to_str().unwrap()))
}

/// Kills a save of `path` under way, with some of it on the disk.
async fn kill_save(cluster: &Cluster, path: &Path, arguments: &[&str]) {
    let slowly = [arguments, &["--rate-limit", "256KiB"]].concat();
    let mut saving = save(cluster, &server(cluster), path, &slowly).stderr(Stdio::null()).spawn().unwrap();
    let is_sealed = arguments.contains(&"--encrypt-to");
    let part = if is_sealed { sealed_part_of(path) } else { part_of(path) };
    wait_until(|| fs::metadata(&part).is_ok_and(|found| found.len() > 600_000)).await;
    saving.kill().unwrap();
    saving.wait().unwrap();
    assert!(!path.exists());
}

async fn connections_that_break_are_gone_on_from(cluster: &Cluster, folder: &Path, key: &str) {
    let way = Way::breaking(server(cluster), &[BREAKS_AFTER, 2 * BREAKS_AFTER]).await;
    let plain = folder.join("plain");
    let said = told(save(cluster, &way.address, &plain, &[])).await;
    assert_eq!(said.matches("broke after").count(), 2, "{said}");
    assert_eq!(said.matches("resumed after").count(), 2, "{said}");
    assert!(!said.contains("begins anew"), "{said}");
    assert_eq!(config_maps(&fs::read(&plain).unwrap()).0.len(), LARGE_OBJECTS);

    let way = Way::breaking(server(cluster), &[BREAKS_AFTER]).await;
    let sealed = folder.join("sealed");
    let said = told(save(cluster, &way.address, &sealed, &["--encrypt-to", key])).await;
    assert!(said.contains("resumed after"), "{said}");
    let identity = folder.join("key").display().to_string();
    let shown = succeed(snapshot(&["inspect", sealed.to_str().unwrap(), "--identity", &identity]));
    assert!(text(&shown.stdout).contains("is whole"));

    let way = Way::breaking(server(cluster), &[BREAKS_AFTER]).await;
    let command = save(cluster, &way.address, Path::new("-"), &[]);
    let streamed = tokio::task::spawn_blocking(move || succeed(command)).await.unwrap().stdout;
    assert_eq!(config_maps(&streamed).0, config_maps(&fs::read(&plain).unwrap()).0);
}

/// A stream has no byte behind its end: a part that is none of it is answered 400, and ends nothing of the stream.
async fn a_byte_behind_the_end_is_refused(client: &Client, part: &Path) {
    let name = Reader::open(&fs::read(part).unwrap()[..]).unwrap().stream().to_owned();
    let behind = format!("/orch/v1/snapshot?resume={name}&from={}", 1_u64 << 40);
    let begin = Instant::now();
    let answer = loop {
        let answer = client.post(&behind, &json!({})).await.unwrap();
        // The member notices within moments that the killed client is gone, whose place this needs.
        if answer.status != 429 {
            break answer;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "the place is never free");
        sleep(Duration::from_millis(50)).await;
    };
    let told = String::from_utf8_lossy(&answer.body);
    assert!(
        answer.status == 400 && told.contains("before the one that is asked for"),
        "{}: {told}",
        answer.status
    );
}

/// A terminal that is gone takes no line, and the save goes on where its connection breaks.
async fn lines_that_nobody_takes_end_no_save(cluster: &Cluster, folder: &Path) {
    let way = Way::breaking(server(cluster), &[BREAKS_AFTER]).await;
    let path = folder.join("silent");
    let mut command = save(cluster, &way.address, &path, &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(writer);
    let ended = tokio::task::spawn_blocking(move || command.status()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(config_maps(&fs::read(&path).unwrap()).0.len(), LARGE_OBJECTS);
    assert!(!part_of(&path).exists());
}

/// A save without a name removes what a killed one left, and nothing of a save with a name, whatever that is.
async fn a_save_without_a_name_leaves_those_with_names_alone(cluster: &Cluster, folder: &Path) {
    let here = folder.join("here");
    fs::create_dir(&here).unwrap();
    kill_save(cluster, &here.join("orch-monday.snapshot"), &[]).await;
    fs::write(here.join(".orch-20261129T101500Z.snapshot.partial"), "left").unwrap();
    let mut command = Command::new(program("orch").unwrap());
    command.current_dir(&here).args(["snapshot", "save", "--server", &server(cluster)]);
    command.arg("--kubeconfig").arg(cluster.certificates().join("admin.conf"));
    let said = told(command).await;
    assert!(said.contains("removed") && said.contains("orch-20261129T101500Z.snapshot.partial"), "{said}");
    let left = names(&here);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|name| name == "orch-monday.snapshot.part"), "{left:?}");
    fs::remove_dir_all(&here).unwrap();
}

async fn a_killed_save_is_gone_on_with(cluster: &Cluster, client: &Client, folder: &Path, key: &str) {
    let path = folder.join("killed");
    let part = folder.join("killed.part");
    kill_save(cluster, &path, &[]).await;
    let begun = revision(&part);
    a_byte_behind_the_end_is_refused(client, &part).await;
    client.post(COLLECTION, &config_map("later", "x")).await.unwrap().success().unwrap();
    let said = told(save(cluster, &server(cluster), &path, &[])).await;
    assert!(said.contains("resuming") && !said.contains("discarded"), "{said}");
    assert_eq!((revision(&path), part.exists()), (begun, false));
    assert!(
        !config_maps(&fs::read(&path).unwrap()).0.contains_key("later"),
        "it is of the first command's time"
    );

    // An encryption cannot be resumed by another process, which leaves a part of that name alone; and a part that is no
    // snapshot is resumed by none.
    let path = folder.join("killed-sealed");
    kill_save(cluster, &path, &["--encrypt-to", key]).await;
    fs::write(part_of(&path), "age-encryption.org/v1\nanother's").unwrap();
    let said = told(save(cluster, &server(cluster), &path, &["--encrypt-to", key])).await;
    assert!(!said.contains("resum") && !sealed_part_of(&path).exists(), "{said}");
    assert_eq!(fs::read(part_of(&path)).unwrap(), b"age-encryption.org/v1\nanother's");
    fs::remove_file(part_of(&path)).unwrap();
    let (path, part) = (folder.join("other"), folder.join("other.part"));
    fs::write(&part, "something else").unwrap();
    let command = save(cluster, &server(cluster), &path, &[]);
    let said = tokio::task::spawn_blocking(move || fail(command)).await.unwrap();
    assert!(said.contains("other.part is there and is no part of a snapshot"), "{said}");
    assert_eq!(fs::read(&part).unwrap(), b"something else");
    fs::write(&part, [&MAGIC[..], b"something else"].concat()).unwrap();
    let said = told(save(cluster, &server(cluster), &path, &[])).await;
    assert!(said.contains("no beginning of a snapshot"), "{said}");
    assert!(config_maps(&fs::read(&path).unwrap()).0.contains_key("later"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_that_breaks_is_gone_on_with_or_begins_anew() {
    let mut cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    make_large_objects(&client).await;
    let folder = tempfile::tempdir().unwrap();
    let key = text(&succeed(snapshot(&["new-key", folder.path().join("key").to_str().unwrap()])).stdout);
    connections_that_break_are_gone_on_from(&cluster, folder.path(), key.trim()).await;
    lines_that_nobody_takes_end_no_save(&cluster, folder.path()).await;
    a_save_without_a_name_leaves_those_with_names_alone(&cluster, folder.path()).await;
    a_killed_save_is_gone_on_with(&cluster, &client, folder.path(), key.trim()).await;

    // The state is lost with the process of the member: another one of a later revision is saved.
    let killed = folder.path().join("lost");
    kill_save(&cluster, &killed, &[]).await;
    let begun = revision(&part_of(&killed));
    let way = Way::breaking(server(&cluster), &[BREAKS_AFTER]).await;
    let path = folder.path().join("anew");
    let saving = tokio::spawn(told(save(&cluster, &way.address, &path, &[])));
    way.broke.notified().await;
    cluster.kill(0).unwrap();
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    *way.target.lock() = server(&cluster);
    let said = saving.await.unwrap();
    assert!(said.contains("it cannot be resumed") && said.contains("begins anew"), "{said}");
    assert!(config_maps(&fs::read(&path).unwrap()).0.contains_key("later"));
    let said = told(save(&cluster, &server(&cluster), &killed, &[])).await;
    assert!(said.contains("cannot be resumed, and is discarded"), "{said}");
    assert!(revision(&killed) > begun, "{said}");
    let left = names(folder.path());
    assert!(left.iter().all(|name| !name.contains("part")), "{left:?}");
}
