//! No name, namespace, selector or continue token widens what a request reads: whoever may read one namespace sees no
//! byte of another, and an administrator's request for one namespace reads that one alone.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{Method, Uri};
use orch_schema::json;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

use super::{Server, map};
use crate::request::{Query, Target, TargetPath, Verb, parse_path};

/// Requests that are tried as each user; a few seconds.
const CASES: u32 = 1_500;

/// Stands in every object outside the namespace `ns`.
const CANARY: &str = "canary-of-another-namespace";

/// Segments of paths that some server took for more than a name.
const SEGMENTS: [&str; 26] = [
    "ns",
    "other",
    "n",
    "there",
    "..",
    ".",
    "%2e%2e",
    "%2E",
    "%2f",
    "%2F..%2Fother",
    "ns%2F",
    "ns%2f..%2fother",
    "..%2fother",
    "%00",
    "ns%00",
    "%c0%ae%c0%ae",
    "%25%32%65",
    "*",
    "ns*",
    "n%FF",
    "",
    "ns%20",
    "%5c",
    "configmaps",
    "watch",
    "namespaces",
];

/// Queries with selectors that name other places; `{}` is a continue token.
const QUERIES: [&str; 14] = [
    "",
    "limit=1",
    "limit=1&continue={}",
    "continue={}",
    "limit=1&continue={}&resourceVersion=0",
    "fieldSelector=metadata.namespace%3Dother",
    "fieldSelector=metadata.namespace!%3Dns",
    "fieldSelector=metadata.name%3D..%2Fother%2Fthere",
    "fieldSelector=metadata.name%3Dthere",
    "labelSelector=a%20notin%20(b)",
    "resourceVersion=0",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "watch=1&timeoutSeconds=1&resourceVersion=0",
    "watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D..",
];

/// A request for objects of the namespace `ns` in its sender's words.
#[derive(Clone, Debug)]
struct Case {
    namespace: String,
    name: Option<String>,
    query: String,
    token: Index,
    /// A character of the token that is replaced.
    edit: Option<(Index, char)>,
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(&SEGMENTS[..]).prop_map(str::to_owned),
        1 => "[a-z./%0-9A-F~*-]{0,12}",
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let namespace = prop_oneof![3 => Just("ns".to_owned()), 2 => segment()];
    let name = proptest::option::weighted(0.4, segment());
    let edit = proptest::option::of((any::<Index>(), select(&['A', 'x', '0', '-', '_', '=', '/'][..])));
    (namespace, name, select(&QUERIES[..]), any::<Index>(), edit).prop_map(
        |(namespace, name, query, token, edit)| Case {
            namespace,
            name,
            query: query.to_owned(),
            token,
            edit,
        },
    )
}

impl Case {
    /// Path and query; `None` where an HTTP client could not send them.
    fn uri(&self, tokens: &[String]) -> Option<String> {
        let mut token: Vec<char> = self.token.get(tokens).chars().collect();
        if let Some((at, character)) = &self.edit {
            *at.get_mut(&mut token) = *character;
        }
        let query = self.query.replace("{}", &token.into_iter().collect::<String>());
        let name = self.name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        let uri = format!("/api/v1/namespaces/{}/configmaps{name}?{query}", self.namespace);
        uri.parse::<Uri>().is_ok().then_some(uri)
    }
}

/// A server with objects in two namespaces, and continue tokens of all lists of them.
async fn server() -> (Server, Vec<String>) {
    let server = Server::new().await;
    server.create("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    for name in ["there", "two", "n"] {
        server.create("/api/v1/namespaces/ns/configmaps", map(name, "x")).await;
        server.create("/api/v1/namespaces/other/configmaps", map(name, CANARY)).await;
    }
    let mut tokens = BTreeSet::new();
    for path in ["namespaces/ns/configmaps", "namespaces/other/configmaps", "configmaps", "namespaces"] {
        for more in ["", "&labelSelector=a!%3Db"] {
            let list = server.get(&format!("/api/v1/{path}?limit=1{more}")).await.json();
            tokens.extend(list["metadata"]["continue"].as_str().map(str::to_owned));
        }
    }
    let (roles, group) = ("/apis/rbac.authorization.orch.io/v1/namespaces/ns", "rbac.authorization.orch.io");
    let rules = json!([{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"]}]);
    server.create(&format!("{roles}/roles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let subjects = json!([{"kind": "User", "name": "ann", "apiGroup": group}]);
    let role = json!({"kind": "Role", "name": "r", "apiGroup": group});
    let binding = json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": subjects});
    server.create(&format!("{roles}/rolebindings"), binding).await;
    (server, tokens.into_iter().collect())
}

/// The namespace that a request is about, as every stage behind the parser sees it.
fn target(uri: &str) -> Option<Target> {
    let (path, query) = uri.split_once('?')?;
    match parse_path(path) {
        TargetPath::Resource(target) => {
            Verb::of(&Method::GET, &target, &Query::parse(query))?;
            Some(target)
        }
        TargetPath::Other | TargetPath::Malformed => None,
    }
}

#[test]
fn no_name_namespace_selector_or_token_widens_the_key_range() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (server, tokens) = runtime.block_on(server());
    assert!(tokens.len() >= 4, "{tokens:?}");
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&case(), |case| {
        let Some(uri) = case.uri(&tokens) else { return Ok(()) };
        for (user, headers) in [("ann", &[("impersonate-user", "ann")][..]), ("administrator", &[])] {
            let found = runtime.block_on(server.send(Method::GET, &uri, headers, Body::empty()));
            let may_see_other =
                user == "administrator" && target(&uri).is_none_or(|target| target.namespace != "ns");
            prop_assert!(may_see_other || !found.text.contains(CANARY), "{user} {uri}: {}", found.text);
            prop_assert!(found.code.as_u16() < 500 || found.code == 504, "{user} {uri}: {found:?}");
        }
        Ok(())
    });
    outcome.unwrap();
    for (uri, code) in
        [("/api/v1/namespaces/ns/configmaps/there", 200), ("/api/v1/namespaces/other/configmaps", 403)]
    {
        let found =
            runtime.block_on(server.send(Method::GET, uri, &[("impersonate-user", "ann")], Body::empty()));
        assert_eq!(found.code, code, "{uri}");
    }
    let everything = runtime.block_on(server.get("/api/v1/configmaps"));
    assert!(everything.text.contains(CANARY), "the test can see it");
}
