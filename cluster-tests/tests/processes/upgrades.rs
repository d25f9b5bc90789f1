//! A program that is replaced under load by one of the same feature level, and put back; and one that is started on the data of a
//! cluster which has agreed on a later level.
//!
//! An older program is not at hand here: `make upgrade FROM=REVISION` builds one, and runs the first test with it. For the second one
//! the level in the data of a stopped member is raised beyond this program's.

use std::time::Duration;

use orch_cluster_tests::cluster::{Cluster, Options as ClusterOptions, program};
use orch_cluster_tests::upgrade::{Options, run};
use orch_proto::store::StoredObject;
use orch_raft::FEATURE_LEVEL_MAX;

use crate::objects::{COLLECTION, config_map, make_namespace};
use crate::stored::{change, kill_and_change};

/// The path of the store's own object with the agreed level.
const LEVEL: &str = "feature-level";

/// Time for a program to refuse its data. It loads the state first.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(30);

#[test]
fn members_are_replaced_one_by_one_under_load_and_may_go_back_at_the_same_level() {
    let options = Options { from: program("orch").unwrap(), writers: 16, seconds: 0 };
    let report = run(&options).unwrap();
    assert!(report.is_good() && !report.refused_older(), "{report}");
}

/// Sets the level that the cluster has agreed on, in the form of its record: by name, or by position as level 0 writes it.
fn set_level(object: &mut StoredObject, level: u32) {
    let index = object.index.as_mut().unwrap();
    match (index.named_fields.as_mut_slice(), index.fields.as_mut_slice()) {
        ([field], []) => field.value = level.to_string(),
        ([], [value]) => *value = level.to_string(),
        fields => panic!("the level is the only field: {fields:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_below_the_agreed_level_refuses_the_data_and_leaves_them_whole() {
    let flags = vec!["--watch-history=1s".into()];
    let mut cluster = Cluster::start(ClusterOptions { flags, ..ClusterOptions::nodes(1) }).await.unwrap();
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    client.post(COLLECTION, &config_map("kept", "1")).await.unwrap().success().unwrap();
    let later = FEATURE_LEVEL_MAX + 1;
    kill_and_change(&mut cluster, 0, LEVEL, |object| set_level(object, later)).await;
    let refusal = format!(
        "this program is too old: the cluster agreed on feature level {later}, it supports up to {FEATURE_LEVEL_MAX}"
    );
    // A supervisor starts it again and again.
    for starts in 1..=2 {
        cluster.respawn(0).unwrap();
        let ended = cluster.wait_end(0, REFUSAL_TIME_MAX).await.unwrap();
        assert!(ended.code.is_some_and(|code| code != 0), "{:?}\n{}", ended.code, ended.log);
        assert!(ended.log.matches(&refusal).count() >= starts, "{}", ended.log);
    }
    assert!(change(&cluster, 0, LEVEL, |object| set_level(object, FEATURE_LEVEL_MAX)));
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    let object = cluster.client(0).unwrap().get(&format!("{COLLECTION}/kept")).await.unwrap();
    assert_eq!(object.success().unwrap()["data"]["value"], "1");
}
