//! A cluster that has lost its quorum for good is recovered from one survivor.
//!
//! Two of three members are killed under writers, and the command several times while it runs. Nothing that the survivor had is lost,
//! nothing else is in the new cluster, its versions are beyond all of before, clients begin anew once, and the old members are
//! refused with their data.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options, program};
use serde_json::Value;
use tokio::time::sleep;

use crate::load::{Acknowledged, Writers};
use crate::objects::{COLLECTION, config_map, list, make_namespace, name, version};

/// Timeout of a step of an operator.
const STEP_MAX: Duration = Duration::from_secs(20);

/// Writers at the time of the loss.
const WRITERS: usize = 64;

/// Milliseconds after which a recovery is killed, from the moment at which its mark is there: while it makes the new store.
const KILLED_AFTER_MS: [u64; 4] = [0, 1, 2, 5];

/// Timeout of an event.
const EVENT_MAX: Duration = Duration::from_secs(10);

fn recover(cluster: &Cluster, node: usize, flags: &[&str]) -> (Output, String) {
    let data = cluster.data(node).display().to_string();
    let output = cluster.run(&[&["cluster", "recover", "--data-dir", &data][..], flags].concat()).unwrap();
    let text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (output, text)
}

/// The word behind `label` in what the command tells.
fn told<'a>(text: &'a str, label: &str) -> &'a str {
    let line = text.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}: {text}"));
    line[label.len()..].split_whitespace().next().unwrap()
}

async fn wait_for_writes(writers: &Writers, count: usize) {
    let deadline = Instant::now() + STEP_MAX;
    while writers.count() < count {
        assert!(Instant::now() < deadline, "{} writes, {count} wanted", writers.count());
        sleep(Duration::from_millis(5)).await;
    }
}

/// A cache of the config maps as an informer keeps it: by name, up to a version.
pub(crate) struct Informer {
    pub(crate) known: BTreeSet<String>,
    pub(crate) cursor: u64,
    /// A token for the rest of a list, from before.
    token: String,
}

impl Informer {
    /// Lists. There are three objects at least.
    pub(crate) async fn start(client: &Client) -> Self {
        let page = client.get(&format!("{COLLECTION}?limit=2")).await.unwrap().success().unwrap();
        let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
        let (objects, cursor) = list(client, "").await.unwrap();
        Informer { known: objects.into_keys().collect(), cursor, token }
    }

    /// Watches from the cursor. `false`: the version has expired.
    pub(crate) async fn follow(
        &mut self,
        client: &Client,
        is_done: impl Fn(&BTreeSet<String>) -> bool,
    ) -> bool {
        let path = format!("{COLLECTION}?watch=1&resourceVersion={}", self.cursor);
        let mut watch = match client.watch(&path).await {
            Ok(watch) => watch,
            Err(error) => {
                assert!(error.to_string().contains("410"), "{error:#}");
                return false;
            }
        };
        while !is_done(&self.known) {
            let event = watch.next(EVENT_MAX).await.unwrap().expect("the watch goes on");
            match event["type"].as_str() {
                Some("ADDED") => drop(self.known.insert(name(&event["object"]).unwrap())),
                Some("ERROR") => {
                    assert_eq!(event["object"]["code"], 410, "{event}");
                    return false;
                }
                _ => panic!("{event}"),
            }
            self.cursor = self.cursor.max(version(&event["object"]).unwrap());
        }
        true
    }
}

/// Kills all three members, two of them under writers. Returns the acknowledged writes.
async fn lose_the_quorum(cluster: &mut Cluster, survivor: usize) -> Vec<Acknowledged> {
    let clients: Vec<_> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    let writers = Writers::start(WRITERS, &clients);
    wait_for_writes(&writers, 1_000).await;
    let (_, refused) = recover(cluster, survivor, &[]);
    assert!(refused.contains("is in use by process"), "{refused}");
    for node in (0..3).filter(|node| *node != survivor) {
        cluster.kill(node).unwrap();
    }
    sleep(Duration::from_millis(200)).await;
    cluster.kill(survivor).unwrap();
    writers.stop().await
}

/// Kills the command while it makes the new store, several times: no node starts on what it leaves. Returns whether the last one had
/// ended before it was killed.
async fn kill_recoveries(cluster: &mut Cluster, survivor: usize, id: &str) -> bool {
    let (data, path) = (cluster.data(survivor), cluster.data(survivor).join("REMAKING"));
    // Each run makes a mark of its own.
    let mut last = None;
    for after in KILLED_AFTER_MS {
        let mut command = Command::new(program("orch").unwrap());
        command.args(["cluster", "recover", "--confirm", id, "--data-dir"]).arg(&data);
        let mut recovering = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + STEP_MAX;
        let mark = loop {
            let mark = fs::read(&path).ok();
            if mark.is_some() && mark != last {
                break mark;
            }
            assert!(recovering.try_wait().unwrap().is_none() && Instant::now() < deadline, "it made no mark");
            std::thread::yield_now();
        };
        sleep(Duration::from_millis(after)).await;
        recovering.kill().unwrap();
        recovering.wait().unwrap();
        if !path.exists() {
            assert!(last.is_some(), "no recovery was killed at its work");
            return true;
        }
        last = mark;
        cluster.respawn(survivor).unwrap();
        let ending = cluster.wait_end(survivor, STEP_MAX).await.unwrap();
        assert_eq!(ending.code, Some(1), "{}", ending.log);
        let refusal = "`orch cluster recover` is under way or was interrupted";
        assert!(ending.log.contains(refusal), "{}", ending.log);
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_becomes_a_new_cluster_and_old_members_are_refused() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    // A follower, so that writes may have been acknowledged without it.
    let survivor = (leader + 1) % 3;
    let client = cluster.client(survivor).unwrap();
    make_namespace(&client).await.unwrap();
    for number in 0..5 {
        client
            .post(COLLECTION, &config_map(&format!("early{number}"), "x"))
            .await
            .unwrap()
            .success()
            .unwrap();
    }
    let members = cluster.status(survivor).await.unwrap().members;
    let mut informer = Informer::start(&client).await;
    assert!(informer.follow(&client, |known| known.len() >= 5).await);
    let acknowledged = lose_the_quorum(&mut cluster, survivor).await;
    informer.cursor = informer.cursor.max(acknowledged.iter().map(|write| write.version).max().unwrap());
    let given_out = informer.cursor;

    let (asked, text) = recover(&cluster, survivor, &[]);
    assert!(!asked.status.success() && text.contains("standard input is no terminal"), "{text}");
    let (id, last) = (told(&text, "cluster").to_owned(), told(&text, "last entry").parse::<u64>().unwrap());
    let (_, wrong) = recover(&cluster, survivor, &["--confirm", "something"]);
    assert!(wrong.contains("is not the cluster's id"), "{wrong}");

    if !kill_recoveries(&mut cluster, survivor, &id).await {
        let (made, text) = recover(&cluster, survivor, &["--confirm", &id]);
        assert!(made.status.success(), "{text}");
        assert!(text.contains("made cluster") && text.contains("store.before"), "{text}");
    }
    cluster.respawn(survivor).unwrap();
    cluster.wait_ready(survivor).await.unwrap();
    let client = cluster.client(survivor).unwrap();
    nothing_is_lost_but_the_end(&client, &acknowledged, last, given_out).await;
    clients_begin_anew(&client, informer).await;
    old_members_are_refused(&mut cluster, survivor, &id).await;

    for node in (0..3).filter(|node| *node != survivor) {
        cluster.kill(node).unwrap();
    }
    for node in (0..3).filter(|node| *node != survivor) {
        let own = cluster.name(node).to_owned();
        let address = &members.iter().find(|member| member.name == own).unwrap().address;
        cluster.operate_until_done(survivor, &["add", &own, address], STEP_MAX).await.unwrap();
        cluster.empty_disk(node).unwrap();
        cluster.respawn(node).unwrap();
        cluster.wait_ready(node).await.unwrap();
        cluster.operate_until_done(survivor, &["promote", &own], STEP_MAX).await.unwrap();
    }
    let (objects, at) = list(&client, "").await.unwrap();
    for node in 0..3 {
        cluster.wait_applied(node, at).await.unwrap();
        let copied = list(&cluster.client(node).unwrap(), "").await.unwrap().0;
        assert_eq!(copied, objects, "{} differs", cluster.name(node));
    }
}

async fn nothing_is_lost_but_the_end(
    client: &Client,
    acknowledged: &[Acknowledged],
    last: u64,
    given_out: u64,
) {
    let (objects, at) = list(client, "").await.unwrap();
    assert!(at > given_out, "the list is at {at}, and {given_out} was given out before");
    let oldest = objects.values().min().unwrap();
    assert!(*oldest > given_out, "an object has version {oldest}, and {given_out} was given out before");
    let lost: Vec<_> = acknowledged.iter().filter(|write| !objects.contains_key(&write.name)).collect();
    let early: Vec<_> = lost.iter().filter(|write| write.version <= last).collect();
    eprintln!("{} of {} acknowledged writes lost, the last kept is {last}", lost.len(), acknowledged.len());
    assert!(early.is_empty(), "lost though the survivor had them up to {last}: {early:?}");
    let made = client.post(COLLECTION, &config_map("after", "x")).await.unwrap().success().unwrap();
    assert!(version(&made).unwrap() > at);
}

/// The informer's watch, its token, and reads of its version have expired, once.
pub(crate) async fn clients_begin_anew(client: &Client, mut informer: Informer) {
    assert!(!informer.follow(client, |_| false).await, "the watch went on over the recovery");
    let elsewhere = "/api/v1/secrets?watch=1&resourceVersion=";
    let refused = client.get(&format!("{elsewhere}{}&timeoutSeconds=1", informer.cursor)).await.unwrap();
    assert!(String::from_utf8_lossy(&refused.body).contains("410"), "{refused:?}");
    let token = informer.token;
    let expired = client.get(&format!("{COLLECTION}?limit=2&continue={token}")).await.unwrap();
    assert_eq!((expired.status, &expired.json().unwrap()["reason"]), (410, &Value::from("Expired")));
    let exact = format!("{COLLECTION}?resourceVersionMatch=Exact&resourceVersion={}", informer.cursor);
    assert_eq!(client.get(&exact).await.unwrap().status, 410);

    informer = Informer::start(client).await;
    client.post(COLLECTION, &config_map("followed", "x")).await.unwrap().success().unwrap();
    assert!(informer.follow(client, |known| known.contains("followed")).await, "a second 410");
}

/// The old members, started with their data, are a majority of the old cluster, and nothing to the new one.
async fn old_members_are_refused(cluster: &mut Cluster, survivor: usize, id: &str) {
    for node in (0..3).filter(|node| *node != survivor) {
        cluster.respawn(node).unwrap();
    }
    for node in (0..3).filter(|node| *node != survivor) {
        cluster.wait_ready(node).await.unwrap();
    }
    let refusal = format!("this member does not belong to cluster {id}");
    let deadline = Instant::now() + STEP_MAX;
    while !cluster.log(survivor).unwrap().contains(&refusal) {
        assert!(Instant::now() < deadline, "no old member was refused for its cluster");
        sleep(Duration::from_millis(20)).await;
    }
    let status = cluster.status(survivor).await.unwrap();
    assert_eq!(status.leader_name(), Some(cluster.name(survivor)));
    assert_eq!(status.members.len(), 1, "{status:?}");
}
