//! Verbs, refusals, what is sent again, and fail-over.

use std::time::Duration;

use serde_json::json;

use crate::api::core::v1::{Node, Pod};
use crate::api::meta::v1::ObjectMeta;
use crate::client::testing::{FakeApi, Fault, pod};
use crate::client::{
    Bearer, Client, Config, ContentType, DeleteOptions, Error, ListQuery, Object, PatchType, Reason,
    WatchEvent,
};

fn node(name: &str) -> Node {
    let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
    Node { metadata: Some(metadata), ..Node::default() }
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted_in_either_representation() {
    for content_type in [ContentType::Protobuf, ContentType::Json] {
        let api = FakeApi::start().await;
        let client = api.client_of(content_type);
        let mut created = client.create("", &node("a")).await.unwrap().object().unwrap();
        assert_eq!(created.key().to_string(), "a");
        assert!(!created.resource_version().is_empty());
        created.metadata.as_mut().unwrap().labels.insert("x".to_owned(), "y".to_owned());
        let updated = client.update(&created, "").await.unwrap().object().unwrap();
        assert_ne!(updated.resource_version(), created.resource_version());
        let conflict = client.update(&created, "").await.unwrap_err();
        assert!(conflict.is(Reason::Conflict), "{conflict}");
        let patch = json!({ "metadata": { "labels": { "x": null, "z": "1" } } });
        let patched = client.patch::<Node>("", "a", "", PatchType::Merge, &patch).await.unwrap();
        let labels = patched.object().unwrap().metadata.unwrap().labels;
        assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("z".to_owned(), "1".to_owned())]);
        let other = DeleteOptions { uid: "other".to_owned(), ..DeleteOptions::default() };
        assert!(client.delete::<Node>("", "a", &other).await.unwrap_err().is(Reason::Conflict));
        client.delete::<Node>("", "a", &DeleteOptions::default()).await.unwrap();
        assert!(client.get::<Node>("", "a").await.unwrap_err().is(Reason::NotFound));
    }
}

#[tokio::test]
async fn lists_come_in_pages_of_one_revision() {
    let api = FakeApi::start().await;
    for index in 0..7 {
        api.store().put("pods", pod(&format!("p{index}")));
    }
    let client = api.client();
    let query = ListQuery::by_field("metadata.name!=p3");
    let first = client.list::<Pod>(&query, 4, "").await.unwrap();
    assert_eq!((first.items.len(), first.resource_version.as_str()), (4, "7"));
    let second = client.list::<Pod>(&query, 4, &first.continue_token).await.unwrap();
    assert_eq!((second.items.len(), second.continue_token.as_str()), (2, ""));
    assert_eq!(second.items[1].key().to_string(), "default/p6");
}

#[tokio::test]
async fn a_watch_tells_changes_in_either_representation() {
    for content_type in [ContentType::Protobuf, ContentType::Json] {
        let api = FakeApi::start().await;
        api.store().put("pods", pod("before"));
        let client = api.client_of(content_type);
        let query = ListQuery::by_field("status.phase!=Failed");
        let mut watch = client.watch::<Pod>(&query, "1", 60).await.unwrap();
        api.store().put("pods", pod("a"));
        let Some(WatchEvent::Added(added)) = watch.next().await.unwrap() else { panic!("not added") };
        assert_eq!(added.key().to_string(), "default/a");
        let mut failed = pod("a");
        failed["status"]["phase"] = "Failed".into();
        api.store().put("pods", failed);
        let Some(WatchEvent::Deleted(left)) = watch.next().await.unwrap() else { panic!("not deleted") };
        assert_eq!(left.key().to_string(), "default/a");
        api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
        assert_eq!(watch.next().await.unwrap(), Some(WatchEvent::Bookmark("4".to_owned())));
    }
}

#[tokio::test]
async fn a_watch_of_lost_history_is_expired() {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("a"));
    api.store().compact();
    let mut watch = api.client().watch::<Pod>(&ListQuery::default(), "0", 60).await.unwrap();
    assert!(watch.next().await.unwrap_err().is(Reason::Expired));
}

#[tokio::test]
async fn a_binding_is_sent_to_the_sub_resource() {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("p"));
    let binding = crate::api::core::v1::Binding {
        metadata: Some(ObjectMeta { name: "p".to_owned(), ..ObjectMeta::default() }),
        target: Some(crate::api::core::v1::ObjectReference { name: "n".to_owned(), ..Default::default() }),
    };
    let client = api.client();
    client.create_subresource::<Pod, _>("default", "p", "binding", &binding).await.unwrap();
    assert_eq!(api.store().get("pods", "default", "p").unwrap()["spec"]["nodeName"], "n");
    let again = client.create_subresource::<Pod, _>("default", "p", "binding", &binding).await.unwrap_err();
    assert!(again.is(Reason::Conflict));
}

#[tokio::test]
async fn refusals_with_retry_after_are_waited_for_by_writes_too() {
    let api = FakeApi::start().await;
    api.plant("POST", "/nodes", 1, Fault::Status(429, 1));
    api.client().create("", &node("a")).await.unwrap();
    assert_eq!(api.count("POST"), 2);
}

#[tokio::test]
async fn reads_are_tried_again_after_a_lost_answer_and_writes_are_not() {
    let api = FakeApi::start().await;
    api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    api.plant("GET", "/nodes", 2, Fault::LostBefore);
    api.client().get::<Node>("", "n").await.unwrap();
    api.plant("POST", "/nodes", 1, Fault::LostAfter);
    let lost = api.client().create("", &node("a")).await.unwrap_err();
    assert!(matches!(lost, Error::Lost { .. }) && lost.is_outcome_unknown(), "{lost}");
    assert_eq!(api.count("POST"), 1);
    assert!(api.store().get("nodes", "", "a").is_some());
}

#[tokio::test]
async fn a_failing_server_leaves_a_write_in_doubt() {
    let api = FakeApi::start().await;
    api.plant("POST", "/nodes", 1, Fault::Status(500, 0));
    let failed = api.client().create("", &node("a")).await.unwrap_err();
    assert!(failed.is_outcome_unknown(), "{failed}");
    assert_eq!(failed.status().map(|status| status.message.as_str()), Some("planted"));
}

#[tokio::test]
async fn a_request_that_takes_too_long_times_out() {
    let api = FakeApi::start().await;
    api.plant("POST", "/nodes", 1, Fault::Slow(Duration::from_secs(30)));
    let mut config = api.config();
    config.request_timeout = Duration::from_millis(100);
    let client = Client::new(&config, FakeApi::brand()).unwrap();
    let late = client.create("", &node("a")).await.unwrap_err();
    assert!(matches!(late, Error::Timeout { .. }) && late.is_outcome_unknown(), "{late}");
}

#[tokio::test]
async fn the_time_of_a_program_for_credentials_is_not_the_servers() {
    let api = FakeApi::start().await;
    let two = api.peer().await;
    api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let script = r#"sleep 1.5
        echo '{"apiVersion":"client.authentication.x/v1","kind":"ExecCredential","status":{"token":"t"}}'"#;
    let plugin = json!({
        "apiVersion": "client.authentication.x/v1", "command": "sh", "args": ["-c", script],
    });
    let mut config = Config::new(vec![api.endpoint(), two.endpoint()]);
    config.bearer = Bearer::Exec(serde_json::from_value(plugin).unwrap());
    config.request_timeout = Duration::from_secs(1);
    api.require_token("t");
    Client::new(&config, FakeApi::brand()).unwrap().get::<Node>("", "n").await.unwrap();
    assert_eq!((api.count("GET"), two.count("GET")), (1, 0), "no server is blamed");
}

fn of_all(apis: &[&FakeApi]) -> Client {
    let mut config = Config::new(apis.iter().map(|api| api.endpoint()).collect());
    config.qps = -1.0;
    Client::new(&config, FakeApi::brand()).unwrap()
}

#[tokio::test]
async fn a_dead_server_is_left_for_the_next_and_stays_left() {
    let one = FakeApi::start().await;
    let two = one.peer().await;
    one.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let client = of_all(&[&one, &two]);
    client.get::<Node>("", "n").await.unwrap();
    assert_eq!((one.count("GET"), two.count("GET")), (1, 0));
    one.kill();
    client.get::<Node>("", "n").await.unwrap();
    client.create("", &node("a")).await.unwrap();
    assert_eq!((two.count("GET"), two.count("POST")), (1, 1));
}

#[tokio::test]
async fn streams_that_break_together_leave_their_server_once() {
    let one = FakeApi::start().await;
    let others = [one.peer().await, one.peer().await];
    one.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let client = of_all(&[&one, &others[0], &others[1]]);
    for broken in [&one, &others[0]] {
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(client.watch::<Node>(&ListQuery::default(), "1", 60).await.unwrap());
        }
        assert_eq!(broken.count("GET /api/v1/nodes?"), 3);
        // Its streams break, and the server lives on: whoever returns to it is answered.
        broken.store().break_watches();
        for mut stream in streams {
            while stream.next().await.is_ok() {}
            client.leave_server_of(&stream);
        }
    }
    client.get::<Node>("", "n").await.unwrap();
    let gets = [&one, &others[0], &others[1]].map(|api| api.count("GET /api/v1/nodes/n"));
    assert_eq!(gets, [0, 0, 1]);
}

#[tokio::test]
async fn requests_that_time_out_together_leave_their_server_once() {
    let one = FakeApi::start().await;
    let two = one.peer().await;
    one.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    one.plant("POST", "/nodes", 2, Fault::Slow(Duration::from_secs(30)));
    let mut config = Config::new(vec![one.endpoint(), two.endpoint()]);
    config.request_timeout = Duration::from_millis(500);
    let client = Client::new(&config, FakeApi::brand()).unwrap();
    let late = ["a", "b"].map(|name| {
        let client = client.clone();
        async move { client.create("", &node(name)).await.unwrap_err() }
    });
    for error in futures::future::join_all(late).await {
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }
    client.get::<Node>("", "n").await.unwrap();
    assert_eq!((one.count("GET"), two.count("GET")), (0, 1));
}

#[tokio::test]
async fn no_server_at_all_is_an_error_that_says_so() {
    let api = FakeApi::start().await;
    let client = of_all(&[&api]);
    api.kill();
    // The listener closes with its task.
    crate::client::testing::eventually("the port is closed", || {
        std::net::TcpStream::connect(api.endpoint().to_string().trim_start_matches("http://")).is_err()
    })
    .await;
    let error = client.create("", &node("a")).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }) && !error.is_outcome_unknown(), "{error}");
}

#[tokio::test]
async fn requests_keep_to_the_rate() {
    let api = FakeApi::start().await;
    api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let mut config = api.config();
    (config.qps, config.burst) = (50.0, 1);
    let client = Client::new(&config, FakeApi::brand()).unwrap();
    let begin = tokio::time::Instant::now();
    let gets = (0..11).map(|_| client.get::<Node>("", "n"));
    assert!(futures::future::join_all(gets).await.into_iter().all(|answer| answer.is_ok()));
    // A lower bound holds on any machine: ten requests after the first, one each 20 ms.
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn answers_come_in_the_accepted_form_whatever_is_sent() {
    for (sent, accepted) in
        [(ContentType::Protobuf, ContentType::Json), (ContentType::Json, ContentType::Protobuf)]
    {
        let api = FakeApi::start().await;
        let config = api.config().with_limits(sent, -1.0, 0).accepting(accepted);
        let client = Client::new(&config, FakeApi::brand()).unwrap();
        let created = client.create("", &node("a")).await.unwrap().object().unwrap();
        assert_eq!(created.key().to_string(), "a", "{sent:?} {accepted:?}");
        let listed = client.list::<Node>(&ListQuery::default(), 10, "").await.unwrap();
        assert_eq!(listed.items, [created]);
        let mut watch =
            client.watch::<Node>(&ListQuery::default(), &listed.resource_version, 60).await.unwrap();
        api.store().put("nodes", json!({ "metadata": { "name": "b" } }));
        let event = watch.next().await.unwrap();
        assert!(matches!(event, Some(WatchEvent::Added(node)) if node.key().to_string() == "b"));
    }
}
