//! The matrices of resource versions for get and list, cell by cell, and the life of continue tokens.

use super::{Features, MAPS, Ordering, Server, json, map};

/// A server with `a` (changed once), `b` and `c`, and the revisions after each of the four writes.
async fn filled() -> (Server, Vec<u64>) {
    let server = Server::new().await;
    let mut revisions = Vec::new();
    for name in ["a", "b", "c"] {
        let created = server.create(MAPS, map(name, "1")).await;
        revisions.push(created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
    }
    let changed = server.merge(&format!("{MAPS}/a"), json!({"data": {"k": "2"}})).await.json();
    revisions.push(changed["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
    (server, revisions)
}

#[tokio::test(start_paused = true)]
async fn get_takes_a_version_as_a_lower_bound() {
    let (server, revisions) = filled().await;
    let newest = revisions[3];
    for version in [String::new(), "0".into(), "1".into(), newest.to_string()] {
        let answered = server.get(&format!("{MAPS}/a?resourceVersion={version}")).await;
        assert_eq!(answered.json()["data"]["k"], "2", "{version}");
    }
    let ahead = server.get(&format!("{MAPS}/a?resourceVersion={}", newest + 5)).await;
    assert_eq!((ahead.code.as_u16(), ahead.headers["retry-after"].to_str().unwrap()), (504, "1"));
    assert!(ahead.text.contains("Too large resource version"), "{}", ahead.text);
    assert_eq!(server.get(&format!("{MAPS}/a?resourceVersion=x")).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn list_reads_each_cell_of_the_matrix() {
    let (server, revisions) = filled().await;
    let (second, newest) = (revisions[1], revisions[3]);
    let cases = [
        (String::new(), 200, 3, newest),
        ("resourceVersion=0".into(), 200, 3, newest),
        (format!("resourceVersion={second}"), 200, 3, newest),
        ("limit=2".into(), 200, 2, newest),
        ("limit=2&resourceVersion=0".into(), 200, 3, newest),
        (format!("limit=1&resourceVersion={second}"), 200, 1, second),
        (format!("resourceVersionMatch=Exact&resourceVersion={second}"), 200, 2, second),
        (format!("resourceVersionMatch=Exact&resourceVersion={second}&limit=1"), 200, 1, second),
        (format!("resourceVersionMatch=NotOlderThan&resourceVersion={second}"), 200, 3, newest),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=0".into(), 200, 3, newest),
        (format!("resourceVersionMatch=NotOlderThan&resourceVersion={second}&limit=2"), 200, 2, newest),
        ("resourceVersionMatch=Exact".into(), 422, 0, 0),
        ("resourceVersionMatch=Exact&resourceVersion=0".into(), 422, 0, 0),
        ("resourceVersionMatch=NotOlderThan".into(), 422, 0, 0),
        ("resourceVersionMatch=Nope&resourceVersion=1".into(), 422, 0, 0),
        (format!("resourceVersion={}", newest + 9), 504, 0, 0),
        (format!("resourceVersionMatch=Exact&resourceVersion={}", newest + 9), 504, 0, 0),
        ("resourceVersion=-1".into(), 400, 0, 0),
    ];
    for (query, code, count, revision) in cases {
        let answered = server.get(&format!("{MAPS}?{query}")).await;
        assert_eq!(answered.code, code, "{query}: {}", answered.text);
        if code == 200 {
            assert_eq!(answered.names().len(), count, "{query}");
            assert_eq!(answered.json()["metadata"]["resourceVersion"], revision.to_string(), "{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_too_old_offers_one_that_goes_on() {
    let (server, _) = filled().await;
    let page = server.get(&format!("{MAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    server.create(MAPS, map("d", "1")).await;
    let next = server.get(&format!("{MAPS}?limit=5&continue={token}")).await;
    assert_eq!(next.names(), ["b", "c"], "the snapshot of the first page");
    server.clock.micros.fetch_add(301_000_000, Ordering::Relaxed);
    let gone = server.get(&format!("{MAPS}?limit=5&continue={token}")).await;
    assert_eq!((gone.code.as_u16(), &gone.json()["reason"]), (410, &json!("Expired")));
    let fresh = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = server.get(&format!("{MAPS}?limit=5&continue={fresh}")).await;
    assert_eq!(rest.names(), ["b", "c", "d"], "what there is now");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_for_the_list_it_was_given_for() {
    let (server, revisions) = filled().await;
    let page = server.get(&format!("{MAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    for path in [
        format!("/api/v1/configmaps?continue={token}"),
        format!("/api/v1/namespaces/ns/secrets?continue={token}"),
        format!("{MAPS}?continue=garbage"),
        format!("{MAPS}?continue={token}&resourceVersion={}", revisions[0]),
    ] {
        assert_eq!(server.get(&path).await.code, 400, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn chunking_can_be_turned_off() {
    let server = Server::with(Features { list_chunking: false, ..Features::default() }).await;
    for name in ["a", "b"] {
        server.create(MAPS, map(name, "1")).await;
    }
    let all = server.get(&format!("{MAPS}?limit=1")).await;
    assert_eq!(all.names(), ["a", "b"]);
    assert!(all.json()["metadata"].get("continue").is_none());
}
