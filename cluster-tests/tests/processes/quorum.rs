//! Any member answers any request, and shows all acknowledged writes.

use orch_cluster_tests::cluster::{Cluster, Options};

use crate::objects::{COLLECTION, config_map, list, make_namespace, version};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_through_a_follower_is_read_at_once_by_quorum_through_the_third() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let (follower, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let (writer, reader) = (cluster.client(follower).unwrap(), cluster.client(third).unwrap());
    make_namespace(&writer).await.unwrap();
    for number in 0..50 {
        let name = format!("q{number}");
        let made = writer.post(COLLECTION, &config_map(&name, "x")).await.unwrap();
        assert_eq!(made.status, 201, "{made:?}");
        let read = reader.get(&format!("{COLLECTION}/{name}")).await.unwrap();
        assert_eq!(read.json().unwrap(), made.json().unwrap(), "the third member answered otherwise");
        let (objects, _) = list(&reader, "").await.unwrap();
        assert_eq!(objects.len(), number + 1, "a quorum list misses an acknowledged object");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_shows_a_client_its_own_writes_at_any_version() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    make_namespace(&cluster.client(0).unwrap()).await.unwrap();
    for node in 0..3 {
        let client = cluster.client(node).unwrap();
        let name = format!("own{node}");
        let made = client.post(COLLECTION, &config_map(&name, "x")).await.unwrap().success().unwrap();
        let read =
            client.get(&format!("{COLLECTION}/{name}?resourceVersion=0")).await.unwrap().success().unwrap();
        assert_eq!(version(&read).unwrap(), version(&made).unwrap());
    }
}
