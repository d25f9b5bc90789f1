//! Writes of custom kinds: tried on the thread of the connection, and begun again in the pool where they take long.

use std::time::Duration;

use super::undeclared::define_with;
use super::*;
use crate::http::pool::Pool;

const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";

/// Widgets whose numbers are compared with two hundred alternatives each.
async fn server() -> Server {
    let server = Server::new().await;
    let alternatives: Vec<Value> = (0..200).map(|at| json!({"enum": [at]})).collect();
    let numbers = json!({"type": "array", "items": {"type": "integer", "anyOf": alternatives}});
    define_with(&server, json!({"type": "object", "properties": {"numbers": numbers}})).await;
    server
}

/// A widget with `count` numbers that only the last alternative takes, and a field that its kind does not have.
fn widget(name: &str, count: usize) -> Body {
    let object = json!({"metadata": {"name": name}, "kind": "Widget", "apiVersion": "example.com/v1",
        "numbers": vec![199; count], "unknown": 1});
    Body::from(object.to_string())
}

#[test]
fn a_write_of_a_custom_kind_is_left_to_the_pool_when_it_takes_long_and_so_are_the_next() {
    block_on(async {
        let server = server().await;
        for name in ["a", "b"] {
            assert_eq!(server.send(Method::POST, WIDGETS, &[], widget(name, 1)).await.code, 201);
        }
        let api = server.api_over(server.store.clone());
        // A pool without threads: requests that need it never finish.
        let server = Server { router: Api { pool: Pool::of(0), ..api }.router(), ..server };
        let (one, status) = (format!("{WIDGETS}/a"), format!("{WIDGETS}/a/status"));
        for (at, (method, path, count, waits)) in [
            (Method::POST, WIDGETS, 1, false),
            (Method::PUT, &*one, 1, false),
            (Method::POST, WIDGETS, 4_000, true),
            (Method::POST, WIDGETS, 1, true),
            (Method::PUT, &*one, 1, true),
            (Method::PUT, &*status, 1, false),
            (Method::GET, &*one, 0, false),
            (Method::DELETE, &*one, 0, false),
        ]
        .into_iter()
        .enumerate()
        {
            let name = if method == Method::POST { format!("new{at}") } else { "a".to_owned() };
            let sent = server.send(method.clone(), path, &[], widget(&name, count));
            let sent = tokio::time::timeout(Duration::from_secs(5), sent).await;
            assert_eq!(sent.is_err(), waits, "{method} {path} {count}");
        }
    });
}

#[test]
fn a_write_that_was_begun_again_is_answered_like_one_that_was_not() {
    block_on(async {
        let server = server().await;
        for (name, count) in [("short", 1), ("long", 4_000)] {
            let answered = server.send(Method::POST, WIDGETS, &[], widget(name, count)).await;
            assert_eq!(answered.code, 201, "{}", answered.json());
            assert_eq!(answered.headers["warning"], "299 - \"unknown field \\\"unknown\\\"\"");
            let created = answered.json();
            assert_eq!(created["metadata"]["generation"], 1);
            let stored = server.get(&format!("{WIDGETS}/{name}")).await.json();
            assert_eq!(stored, created, "written once");
        }
    });
}
