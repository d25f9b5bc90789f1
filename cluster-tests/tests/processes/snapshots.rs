//! Snapshots as files: saved from a member under writers, looked into, encrypted, and refused where they are not whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_cluster_tests::client::{Client, Identity};
use orch_cluster_tests::cluster::{ALICE_TOKEN, Cluster, Options, program};
use orch_raft::archive::{ArchiveError, Reader};
use rand::Rng;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::load::Writers;
use crate::objects::{COLLECTION, NAMESPACE, list, make_namespace};

/// Clients that write while a snapshot is saved.
const WRITERS: usize = 16;

/// Acknowledged writes before the snapshot, and again after it: without load the test proves nothing.
const WRITES_MIN: usize = 200;

/// Objects that compression makes no smaller, and their size: more than sockets hold between a member and a slow client.
pub(crate) const LARGE_OBJECTS: usize = 640;
const LARGE_BYTES: usize = 100 << 10;

/// The path that sends a snapshot.
const PATH: &str = "/orch/v1/snapshot";

/// How long a command may take to get somewhere.
const PATIENCE: Duration = Duration::from_secs(30);

/// `orch snapshot save` with `arguments`, of member `node`.
fn save(cluster: &Cluster, node: usize, arguments: &[&str]) -> Command {
    let server = cluster.doors()[node].0.authority();
    let mut command = Command::new(program("orch").unwrap());
    command.args(["snapshot", "save"]).args(arguments).args(["--server", &server]);
    command.arg("--kubeconfig").arg(cluster.certificates().join("admin.conf"));
    command
}

pub(crate) fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

/// The standard error of a command that fails.
pub(crate) fn fail(mut command: Command) -> String {
    let output = command.output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    told
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn snapshot(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("orch").unwrap());
    command.arg("snapshot").args(arguments);
    command
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The revisions of the config maps in a snapshot, and its own revision.
pub(crate) fn config_maps(file: &[u8]) -> (BTreeMap<String, u64>, u64) {
    let mut reader = Reader::open(file).unwrap();
    let mut found = BTreeMap::new();
    for record in &mut reader {
        let record = record.unwrap();
        if let ("configmaps", Some((NAMESPACE, name))) = (&*record.resource, record.path.split_once('/')) {
            found.insert(name.to_owned(), record.object.revision.0);
        }
    }
    (found, reader.header().revision.0)
}

async fn wait_for_writes(writers: &Writers, count: usize) {
    let start = Instant::now();
    while writers.count() < count {
        assert!(start.elapsed() < PATIENCE, "only {} of {count} writes in time", writers.count());
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_a_follower_has_every_write_acknowledged_before_it_and_no_other_revision() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let follower = (cluster.leader().await.unwrap() + 1) % 3;
    let clients: Vec<_> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    make_namespace(&clients[0]).await.unwrap();
    let writers = Writers::start(WRITERS, &clients);
    wait_for_writes(&writers, WRITES_MIN).await;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("monday.snapshot");
    let began = Instant::now();
    let command = save(&cluster, follower, &[path.to_str().unwrap()]);
    let saved = tokio::task::spawn_blocking(move || succeed(command)).await.unwrap();
    wait_for_writes(&writers, writers.count() + WRITES_MIN).await;
    let acknowledged = writers.stop().await;
    let told = text(&saved.stderr);
    assert!(told.contains("--encrypt-to") && told.contains("verified"), "{told}");
    assert_eq!(names(folder.path()), ["monday.snapshot"]);

    let file = fs::read(&path).unwrap();
    let (found, revision) = config_maps(&file);
    for write in acknowledged.iter().filter(|write| write.answered < began) {
        assert!(found.contains_key(&write.name), "the acknowledged {} is not in it", write.name);
    }
    // The same revision, as the leader's history has it: nothing of a later one, and nothing that was never written.
    let query = format!("?resourceVersion={revision}&resourceVersionMatch=Exact");
    let (then, _) = list(&clients[0], &query).await.unwrap();
    assert!(found.len() >= WRITES_MIN && found == then, "{} in the file, {} then", found.len(), then.len());

    let shown = snapshot(&["inspect", path.to_str().unwrap(), "--output", "json"]);
    let shown: Value = serde_json::from_slice(&succeed(shown).stdout).unwrap();
    assert_eq!((&shown["revision"], &shown["encrypted"]), (&json!(revision), &json!(false)));
    assert_eq!(shown["member"], cluster.name(follower));
    assert_eq!(shown["members"].as_array().unwrap().len(), 3);
    let resources = shown["resources"].as_array().unwrap();
    let maps = resources.iter().find(|resource| resource["resource"] == "configmaps").unwrap();
    let records = Reader::open(&file[..]).unwrap().map(Result::unwrap);
    assert_eq!(maps["objects"], records.filter(|record| &*record.resource == "configmaps").count());
    assert_eq!(shown["fileBytes"], file.len());
}

/// Gives the user alice the right to read every path that is no resource, as monitoring often has it.
async fn let_read_all_paths(client: &Client) {
    let group = "rbac.authorization.orch.io";
    let at = |resource: &str| format!("/apis/{group}/v1/{resource}");
    let role =
        json!({"metadata": {"name": "reader"}, "rules": [{"nonResourceURLs": ["*"], "verbs": ["get"]}]});
    client.post(&at("clusterroles"), &role).await.unwrap().success().unwrap();
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    client.post(&at("clusterrolebindings"), &binding).await.unwrap().success().unwrap();
}

pub(crate) async fn make_large_objects(client: &Client) {
    for number in 0..LARGE_OBJECTS {
        let mut bytes = vec![0; LARGE_BYTES / 4 * 3];
        rand::rng().fill(&mut bytes[..]);
        let data = json!({"value": STANDARD.encode(bytes)});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("l{number}")}, "data": data});
        client.post(COLLECTION, &object).await.unwrap().success().unwrap();
    }
}

async fn only_those_with_the_right_take_snapshots(cluster: &Cluster, client: &Client) {
    let alice = cluster.client_as(0, Identity::Token(ALICE_TOKEN.into())).unwrap();
    assert_eq!(alice.post(PATH, &json!({})).await.unwrap().status, 403);
    let other = client.post(&format!("{PATH}?point=other"), &json!({})).await.unwrap();
    assert_eq!(other.status, 400);
    let_read_all_paths(client).await;
    assert_eq!(alice.get("/orch/v1/cluster").await.unwrap().status, 200, "the role is in force");
    assert_eq!(alice.post(PATH, &json!({})).await.unwrap().status, 403, "a reader takes no snapshot");
    assert_eq!(alice.get(PATH).await.unwrap().status, 405, "nothing is sent to a GET");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_whole_or_not_there() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    make_large_objects(&client).await;
    only_those_with_the_right_take_snapshots(&cluster, &client).await;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let name = path.to_str().unwrap();
    // Killed under way: the name is not taken, and what is left is no snapshot.
    let slow = |path: &Path| -> Child {
        let mut command = save(&cluster, 0, &[path.to_str().unwrap(), "--rate-limit", "64KiB"]);
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let partial = folder.path().join("s.part");
    let grows = |partial: &Path| fs::metadata(partial).is_ok_and(|found| found.len() > 200_000);
    let mut killed = slow(&path);
    let other = folder.path().join("t");
    let mut second = slow(&other);
    wait_until(|| grows(&partial) && grows(&folder.path().join("t.part"))).await;
    let busy = fail(save(&cluster, 0, &[name]));
    assert!(busy.contains("another process is writing"), "{busy}");
    let third = fail(save(&cluster, 0, &[folder.path().join("u").to_str().unwrap()]));
    assert!(third.contains("2 snapshots are being sent"), "{third}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(names(folder.path()), ["s.part", "t.part"]);
    let left = fs::read(&partial).unwrap();
    let read = Reader::open(&left[..]).and_then(Reader::verify);
    assert!(matches!(read, Err(ArchiveError::Truncated { .. })), "{:?}", read.map(|(header, _)| header));
    second.kill().unwrap();
    second.wait().unwrap();
    fs::remove_file(folder.path().join("t.part")).unwrap();

    // No room for more than a megabyte: said so, and nothing is kept. The member notices within moments that its two slow
    // clients are gone, and refuses a third until then.
    let cramped = || {
        let server = save(&cluster, 0, &[name]);
        let script = "ulimit -f 1024; trap '' XFSZ; exec \"$0\" \"$@\"";
        let mut cramped = Command::new("sh");
        cramped.arg("-c").arg(script).arg(server.get_program()).args(server.get_args());
        fail(cramped)
    };
    wait_until(|| {
        let full = cramped();
        full.contains("cannot write") && full.contains("nothing was kept")
    })
    .await;
    assert_eq!(names(folder.path()), [""; 0]);

    succeed(save(&cluster, 0, &[name]));
    let exists = fail(save(&cluster, 0, &[name]));
    assert!(exists.contains("exists"), "{exists}");
    let whole = fs::read(&path).unwrap();
    assert_eq!(config_maps(&whole).0.len(), LARGE_OBJECTS);
    let streamed = succeed(save(&cluster, 0, &["-"])).stdout;
    assert_eq!(config_maps(&streamed).0, config_maps(&whole).0);

    // A changed bit, a cut and bytes behind the end are three faults.
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 4;
    for (file, expected) in [
        (changed, "damaged"),
        (whole[..whole.len() - 1].to_vec(), "cut short"),
        ([whole, vec![0]].concat(), "follow the end"),
    ] {
        fs::write(&path, file).unwrap();
        for command in [snapshot(&["inspect", name]), snapshot(&["extract", name])] {
            let told = fail(command);
            assert!(told.contains(expected) && told.contains("use another copy"), "{told}");
        }
    }
}

pub(crate) async fn wait_until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "the condition did not come about");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_snapshot_shows_nothing_without_its_key() {
    /// Text of a secret, and its form in base64.
    const CANARY_BASE64: &str = "Y2FuYXJ5LW9mLWEtc2VjcmV0LWluLWEtc25hcHNob3Q=";
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap();
    let secret = json!({"metadata": {"name": "db"}, "data": {"password": CANARY_BASE64}});
    client.post("/api/v1/namespaces/default/secrets", &secret).await.unwrap().success().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let key = text(&succeed(snapshot(&["new-key", &at("key")])).stdout);
    succeed(snapshot(&["new-key", &at("other-key")]));
    let saved = succeed(save(&cluster, 0, &[&at("sealed"), "--encrypt-to", key.trim()]));
    assert!(!text(&saved.stderr).contains("warning"), "{}", text(&saved.stderr));
    let told = fail(snapshot(&["inspect", &at("sealed")]));
    assert!(told.contains("--identity"), "{told}");
    let told = fail(snapshot(&["inspect", &at("sealed"), "--identity", &at("other-key")]));
    assert!(told.contains("none of the private keys"), "{told}");
    let shown = text(&succeed(snapshot(&["inspect", &at("sealed"), "--identity", &at("key")])).stdout);
    assert!(
        shown.contains("encrypted") && shown.contains("secrets") && shown.contains("is whole"),
        "{shown}"
    );
    let whole = fs::read(at("sealed")).unwrap();
    fs::write(at("sealed"), &whole[..whole.len() - 1]).unwrap();
    let told = fail(snapshot(&["inspect", &at("sealed"), "--identity", &at("key")]));
    assert!(told.contains("cut short or damaged"), "{told}");
    fs::write(at("sealed"), whole).unwrap();

    let wanted =
        ["extract", &at("sealed"), "--identity", &at("key"), "--resource", "secrets", "--name", "db"];
    let yaml = text(&succeed(snapshot(&wanted)).stdout);
    assert!(yaml.contains("kind: Secret") && yaml.contains(&format!("password: {CANARY_BASE64}")), "{yaml}");
    let out = at("out");
    succeed(snapshot(&[&wanted[..], &["--output", &out]].concat()));
    let file = fs::read_to_string(folder.path().join("out/secrets/default/db.yaml")).unwrap();
    assert_eq!(format!("---\n{file}"), yaml);
    let none = fail(snapshot(&["extract", &at("sealed"), "--identity", &at("key"), "--name", "nothing"]));
    assert!(none.contains("no such object"), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_saves_backups_by_itself_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let backups = folder.path().join("backups");
    fs::create_dir(&backups).unwrap();
    let key = text(&succeed(snapshot(&["new-key", folder.path().join("key").to_str().unwrap()])).stdout);
    let flags = vec![
        "--backup-schedule=1h".to_owned(),
        format!("--backup-dir={}", backups.display()),
        format!("--backup-encrypt-to={}", key.trim()),
    ];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    wait_until(|| matches!(&names(&backups)[..], [name] if name.ends_with(".snapshot"))).await;
    let first = names(&backups);
    assert!(first[0].starts_with("a-"), "{first:?}");
    let path = backups.join(&first[0]);
    let identity = folder.path().join("key");
    let shown = snapshot(&["inspect", path.to_str().unwrap(), "--identity", identity.to_str().unwrap()]);
    assert!(text(&succeed(shown).stdout).contains("is whole"));

    let size = fs::metadata(&path).unwrap().len();
    let expected = format!("orch_backup_size_bytes{{target=\"directory\"}} {size}");
    wait_for_metric(&cluster, &expected).await;
    cluster.kill(0).unwrap();
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    // Known again after the restart, which makes no backup an hour too early.
    wait_for_metric(&cluster, &expected).await;
    wait_for_metric(&cluster, "orch_backup_failures_total{target=\"directory\"} 0").await;
    assert_eq!(names(&backups), first);
}

async fn wait_for_metric(cluster: &Cluster, line: &str) {
    let client = cluster.client(0).unwrap();
    let start = Instant::now();
    loop {
        let shown = text(&client.get("/metrics").await.unwrap().body);
        if shown.lines().any(|found| found == line) {
            return;
        }
        let ours: Vec<&str> = shown.lines().filter(|found| found.contains("backup")).collect();
        assert!(start.elapsed() < PATIENCE, "no line {line}: {ours:?}");
        sleep(Duration::from_millis(50)).await;
    }
}
