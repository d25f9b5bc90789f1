//! The resourceVersion matrices of get and list, cell by cell, and the life of continue tokens.

use orch_raft::Revision;

use super::{EARLIER_KEY, Features, MAPS, Ordering, Server, Timestamp, TokenKey, json, map};
use crate::paging::ContinueToken;

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
async fn the_forbidden_cells_say_why() {
    let (server, revisions) = filled().await;
    let page = server.get(&format!("{MAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let told = |detail: &str| {
        format!(
            "ListOptions.meta.orch.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch {detail}"
        )
    };
    let unset = told("is forbidden unless resourceVersion is provided");
    let zero = told("\"exact\" is forbidden for resourceVersion \"0\"");
    let paged = told("is forbidden when continue is provided");
    let version = revisions[1];
    for (query, code, message) in [
        ("resourceVersionMatch=Exact".to_owned(), 422, unset.as_str()),
        ("resourceVersionMatch=Exact&limit=1".into(), 422, &unset),
        ("resourceVersionMatch=NotOlderThan".into(), 422, &unset),
        ("resourceVersionMatch=NotOlderThan&limit=1".into(), 422, &unset),
        ("resourceVersionMatch=Exact&resourceVersion=0".into(), 422, &zero),
        ("resourceVersionMatch=Exact&resourceVersion=0&limit=1".into(), 422, &zero),
        (format!("resourceVersionMatch=Exact&resourceVersion={version}&continue={token}"), 422, &paged),
        (format!("resourceVersionMatch=NotOlderThan&resourceVersion=0&continue={token}"), 422, &paged),
        (
            format!("limit=1&resourceVersion={version}&continue={token}"),
            400,
            "specifying resource version is not allowed when using continue",
        ),
    ] {
        let answered = server.get(&format!("{MAPS}?{query}")).await;
        let reason = if code == 422 { "Invalid" } else { "BadRequest" };
        let status = answered.json();
        assert_eq!((answered.code.as_u16(), &status["reason"]), (code, &json!(reason)), "{query}");
        assert_eq!(status["message"], message, "{query}");
    }
    let rest = server.get(&format!("{MAPS}?limit=1&resourceVersion=0&continue={token}")).await;
    assert_eq!(rest.names(), ["b", "c"], "zero with a token is the token's, without pages");
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_no_numbers_are_refused() {
    let (server, _) = filled().await;
    for version in ["x", "-1", "%2B1", "1.0", "0x1", "%201", "99999999999999999999"] {
        for path in [MAPS.to_owned(), format!("{MAPS}/a"), format!("{MAPS}?watch=1")] {
            let joint = if path.contains('?') { '&' } else { '?' };
            let answered = server.get(&format!("{path}{joint}resourceVersion={version}")).await;
            assert_eq!(
                (answered.code.as_u16(), &answered.json()["reason"]),
                (400, &json!("BadRequest")),
                "{path} {version}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_to_come_is_waited_for_and_then_too_large() {
    let (server, revisions) = filled().await;
    let next = revisions[3] + 1;
    for query in [
        format!("/a?resourceVersion={next}"),
        format!("?resourceVersion={next}"),
        format!("?resourceVersionMatch=NotOlderThan&resourceVersion={next}"),
        format!("?resourceVersionMatch=NotOlderThan&resourceVersion={next}&limit=1"),
        format!("?resourceVersionMatch=Exact&resourceVersion={next}"),
        format!("?limit=1&resourceVersion={next}"),
        format!("?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={next}"),
    ] {
        let asked = tokio::time::Instant::now();
        let answered = server.get(&format!("{MAPS}{query}")).await;
        assert_eq!(asked.elapsed().as_secs(), 3, "{query}");
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("Timeout: Too large resource version: {next}, current: {}", next - 1),
            "reason": "Timeout",
            "details": {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
            "code": 504,
        });
        assert_eq!((answered.code.as_u16(), answered.json()), (504, expected), "{query}");
        assert_eq!(answered.headers["retry-after"], "1", "{query}");
    }
    let path = format!("{MAPS}?resourceVersion={next}");
    let (waited, _) = tokio::join!(server.get(&path), server.create(MAPS, map("d", "1")));
    assert_eq!(waited.names(), ["a", "b", "c", "d"], "it came while it was waited for");
}

#[tokio::test(start_paused = true)]
async fn forgotten_versions_are_gone_where_exactly_they_were_asked_for() {
    let (server, revisions) = filled().await;
    let page = server.get(&format!("{MAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    server.create(MAPS, map("d", "1")).await;
    server.store.forget_history();
    let old = revisions[1];
    for query in [
        format!("resourceVersionMatch=Exact&resourceVersion={old}"),
        format!("limit=1&resourceVersion={old}"),
    ] {
        let gone = server.get(&format!("{MAPS}?{query}")).await;
        let status = gone.json();
        assert_eq!((gone.code.as_u16(), &status["reason"]), (410, &json!("Expired")), "{query}");
        assert_eq!(status["message"], "The resourceVersion for the provided list is too old.", "{query}");
        assert_eq!(status["metadata"], json!({}), "nothing to go on with: {query}");
    }
    for query in [
        format!("resourceVersion={old}"),
        format!("resourceVersionMatch=NotOlderThan&resourceVersion={old}&limit=9"),
    ] {
        assert_eq!(server.get(&format!("{MAPS}?{query}")).await.names(), ["a", "b", "c", "d"], "{query}");
    }
    let gone = server.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    let message = gone.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(gone.code, 410);
    assert!(message.starts_with("The provided continue parameter is too old"), "{message}");
    // One page at the newest state; the following pages are of the same state.
    let fresh = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let next = server.get(&format!("{MAPS}?limit=1&continue={fresh}")).await;
    assert_eq!(next.names(), ["b"]);
    server.create(MAPS, map("e", "1")).await;
    let token = next.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = server.get(&format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!(rest.names(), ["c", "d"], "the state of the page before");
    assert_eq!(rest.json()["metadata"]["resourceVersion"], next.json()["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_not_gone_on_with_in_a_cluster_that_was_made_anew() {
    let (server, revisions) = filled().await;
    let token = ContinueToken {
        revision: Some(Revision(revisions[0])),
        issued: Timestamp(u64::MAX),
        after: "ns/a".to_owned(),
        sent: Some(1),
        is_earlier: false,
    };
    let token = TokenKey::new(EARLIER_KEY).seal(&token, ("configmaps", "ns"));
    let gone = server.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    let status = gone.json();
    assert_eq!((gone.code.as_u16(), &status["reason"]), (410, &json!("Expired")));
    assert_eq!(status["metadata"], json!({}), "nothing to go on with");
}

#[tokio::test(start_paused = true)]
async fn the_remaining_count_is_told_only_of_lists_without_selectors() {
    let (server, _) = filled().await;
    let metadata = |query: String| {
        let server = &server;
        async move { server.get(&format!("{MAPS}?{query}")).await.json()["metadata"].clone() }
    };
    let first = metadata("limit=1".into()).await;
    assert_eq!(first["remainingItemCount"], 2);
    let token = first["continue"].as_str().unwrap();
    assert_eq!(metadata(format!("limit=1&continue={token}")).await["remainingItemCount"], 1);
    for query in [
        "labelSelector=%21x",
        "fieldSelector=metadata.name%21%3Dc",
        "labelSelector=%21x&fieldSelector=metadata.name%21%3Dc",
    ] {
        let page = metadata(format!("limit=1&{query}")).await;
        assert!(page["continue"].is_string() && page["remainingItemCount"].is_null(), "{query}: {page}");
    }
    for query in ["limit=3", "limit=0", "limit=-1", ""] {
        let whole = metadata(query.into()).await;
        assert!(whole["continue"].is_null() && whole["remainingItemCount"].is_null(), "{query}: {whole}");
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
