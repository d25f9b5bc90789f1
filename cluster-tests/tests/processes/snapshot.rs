//! A member too far behind for the log gets a snapshot from a real peer, and restarts on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use tokio::task::JoinSet;

use crate::objects::{COLLECTION, config_map, list, make_namespace, version};

/// Log entries after which the first ones are purged: the log is cut to its last 60,000 when it has 110,000
/// (`LogOptions`), which takes a moment.
const ENTRIES: u64 = 120_000;

/// Objects that are rewritten again and again, by one client each.
const WRITERS: u64 = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_member_behind_the_log_gets_a_snapshot_and_starts_again_on_it() {
    // The first revision is read in the end, however long the writes take.
    let flags = vec!["--watch-history=1h".into()];
    let mut cluster = Cluster::start(Options { spares: 1, flags, ..Options::nodes(1) }).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    let began = Instant::now();
    write_entries(&client).await;
    eprintln!("{ENTRIES} entries in {:?}", began.elapsed());

    let began = Instant::now();
    let new = cluster.add().await.unwrap();
    cluster.wait_ready(new).await.unwrap();
    eprintln!("the new member is ready after {:?}", began.elapsed());
    let name = cluster.name(new).to_owned();
    cluster.operate_until_done(0, &["promote", &name], Duration::from_secs(20)).await.unwrap();
    let (objects, last) = list(&client, "").await.unwrap();
    assert_eq!(objects.len() as u64, WRITERS);
    cluster.wait_applied(new, last).await.unwrap();
    let (copied, _) = list(&cluster.client(new).unwrap(), "?resourceVersion=0").await.unwrap();
    assert_eq!(copied, objects, "the new member has other objects");
    let first =
        client.get(&format!("{COLLECTION}?resourceVersion=2&resourceVersionMatch=Exact")).await.unwrap();
    // This revision is far before the history in memory, and read from the disk.
    let first = first.success().unwrap();
    assert_eq!(first["items"], serde_json::json!([]), "there was nothing at revision 2: {first}");

    cluster.kill(new).unwrap();
    cluster.respawn(new).unwrap();
    cluster.wait_ready(new).await.unwrap();
    let (kept, _) = list(&cluster.client(new).unwrap(), "").await.unwrap();
    assert_eq!(kept, objects, "the new member has other objects after a restart");
    let log = cluster.log(new).unwrap();
    assert!(log.contains("installed a snapshot"), "no snapshot was needed: {log}");
}

async fn write_entries(client: &Client) {
    let left = Arc::new(AtomicU64::new(ENTRIES));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (client, left) = (client.clone(), left.clone());
        writers.spawn(async move {
            let name = format!("w{writer}");
            let made = client.post(COLLECTION, &config_map(&name, "x")).await.unwrap().success().unwrap();
            assert!(version(&made).unwrap() > 0);
            let path = format!("{COLLECTION}/{name}");
            let headers = [("content-type", "application/json")];
            while let Ok(number) =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            {
                let body = Bytes::from(config_map(&name, &number.to_string()).to_string());
                let answer = client.send(Method::PUT, &path, &headers, body).await.unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        });
    }
    writers.join_all().await;
}
