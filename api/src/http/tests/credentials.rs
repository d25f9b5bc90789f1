//! Credentials over HTTP: watches end with theirs, and headers of identity count from front proxies alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, HeaderName, Method};
use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::{Answered, MAPS, Server};
use crate::authn::front_proxy::{FrontProxy, IdentityHeaders};
use crate::authn::{
    self, AnonymousAccess, Authenticator, Finding, Found, GROUP_MASTERS, LiveTokens, Moment, Peer,
    TokenTable, Unauthenticated, User, found,
};
use crate::gate::Gate;
use crate::http::Api;
use crate::paging::TokenKey;
use crate::pipeline::{Features, Pipeline};
use crate::registry::Registry;

const WHO: &str = "/apis/authentication.orch.io/v1/selfsubjectreviews";

fn table(text: &str) -> TokenTable {
    TokenTable::parse(text.as_bytes()).unwrap()
}

/// A server that knows the users of `tokens`, seen by a front proxy or by an ordinary client without a certificate.
async fn server(tokens: &LiveTokens, is_front_proxy: bool) -> Server {
    let authenticator = Authenticator::new(&ORCH, tokens.clone(), AnonymousAccess::Refused);
    server_with(authenticator, is_front_proxy).await
}

/// The same with users that `authenticator` finds.
async fn server_with(authenticator: Authenticator, is_front_proxy: bool) -> Server {
    let mut server = Server::new().await;
    let names = |names: &[&'static str]| names.iter().map(|&name| HeaderName::from_static(name)).collect();
    let headers = IdentityHeaders {
        usernames: names(&["x-remote-user"]),
        uids: names(&["x-remote-uid"]),
        groups: names(&["x-remote-group"]),
        extra_prefixes: vec!["x-remote-extra-".to_owned()],
    };
    let gate = Gate::builtin(&ORCH, authenticator.behind(FrontProxy::new(headers)));
    let (store, clock) = (server.store.clone(), server.clock.clone());
    let (registry, key) = (Registry::builtin(&ORCH), TokenKey::new([7; 32]));
    let pipeline = Arc::new(Pipeline::new(store, registry, key, clock, Features::default(), gate));
    server.router = Api::new(pipeline, server.stopping.clone()).router();
    let address = "127.0.0.1:1".parse().unwrap();
    server.peer = Arc::new(Peer { address, certificate: None, local_admin: false, is_front_proxy });
    server
}

/// Seconds that a watch lasts which a change after 90 seconds may end.
async fn watched(server: &Server, headers: &[(&str, &str)], change: impl FnOnce()) -> u64 {
    let began = tokio::time::Instant::now();
    let path = format!("{MAPS}?watch=true&timeoutSeconds=600");
    let watch = server.send(Method::GET, &path, headers, Body::empty());
    let changed = async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        change();
    };
    let (answered, ()) = tokio::join!(watch, changed);
    assert_eq!(answered.code, 200, "{}", answered.text);
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_within_a_minute_of_its_token() {
    let masters = "first,ann,1,system:masters\nsecond,bob,2,system:masters\n";
    let bearer = [("authorization", "Bearer first")];
    for (case, later, expected) in [
        ("nothing changed", masters, 600),
        ("another token is gone", "first,ann,1,system:masters\n", 600),
        ("more groups", "first,ann,1,\"system:masters,devs\"\n", 600),
        ("the token is gone", "second,bob,2,system:masters\n", 120),
        ("the token is another user's", "first,bob,2,system:masters\n", 120),
        ("the token is of another user of the name", "first,ann,3,system:masters\n", 120),
        ("the user lost the group", "first,ann,1\n", 120),
    ] {
        let tokens = LiveTokens::from(table(masters));
        let server = server(&tokens, false).await;
        let lasted = watched(&server, &bearer, || tokens.replace(table(later))).await;
        assert_eq!(lasted, expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_as_another_ends_with_the_right_to_act_as_them() {
    let tokens = LiveTokens::from(table("first,ann,1,system:masters\n"));
    let server = server(&tokens, false).await;
    let headers = [
        ("authorization", "Bearer first"),
        ("impersonate-user", "tom"),
        ("impersonate-group", "system:masters"),
    ];
    assert_eq!(watched(&server, &headers, || ()).await, 600);
    assert_eq!(watched(&server, &headers, || tokens.replace(table("first,ann,1\n"))).await, 120);
}

/// A method that asks a server whose answer the test chooses.
#[derive(Clone, Debug)]
struct Remote(Arc<Mutex<Found<Arc<User>>>>);

impl authn::Method for Remote {
    fn user<'a>(&'a self, _: &'a Peer, _: &'a HeaderMap, _: Moment<'a>) -> Finding<'a, Arc<User>> {
        found(self.0.lock().clone())
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_for_ten_minutes_without_an_answer_and_ends_with_a_refusal() {
    let masters = vec![GROUP_MASTERS.to_owned()];
    let ann = Arc::new(User { name: "ann".to_owned(), groups: masters, ..User::default() });
    let known = || Ok(Some(ann.clone()));
    let undecided = || Err(Unauthenticated::Undecided("no answer".to_owned()));
    let refused = || Err(Unauthenticated::Token("expired".to_owned()));
    // The answers after 90 and after 630 seconds.
    for (case, second, third, expected) in [
        ("known", known(), known(), 1200),
        ("refused", refused(), refused(), 120),
        ("no answer", undecided(), undecided(), 720),
        ("no answer for a time", undecided(), known(), 1200),
        ("refused after no answer", undecided(), refused(), 660),
    ] {
        let remote = Remote(Arc::new(Mutex::new(known())));
        let tokens = LiveTokens::from(table("first,bob,1\n"));
        let authenticator = Authenticator::new(&ORCH, tokens, AnonymousAccess::Refused);
        let server = server_with(authenticator.with_remote(Box::new(remote.clone())), false).await;
        let began = tokio::time::Instant::now();
        let watch = async {
            let path = format!("{MAPS}?watch=true&timeoutSeconds=1200");
            let answered = server.send(Method::GET, &path, &[], Body::empty()).await;
            assert_eq!(answered.code, 200, "{case}: {}", answered.text);
            began.elapsed().as_secs()
        };
        let changed = async {
            for minute in 0..20 {
                tokio::time::sleep(Duration::from_secs(if minute == 0 { 30 } else { 60 })).await;
                server.clock.micros.fetch_add(60_000_000, Ordering::Relaxed);
                match minute {
                    1 => *remote.0.lock() = second.clone(),
                    10 => *remote.0.lock() = third.clone(),
                    _ => {}
                }
            }
        };
        let (lasted, ()) = tokio::join!(watch, changed);
        assert_eq!(lasted, expected, "{case}");
    }
}

async fn who(server: &Server, headers: &[(&str, &str)]) -> Answered {
    server.send(Method::POST, WHO, headers, Body::from(json!({}).to_string())).await
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_front_proxy_connection_are_of_many_users() {
    let tokens = LiveTokens::from(table("first,ann,1,system:masters\n"));
    let proxy = server(&tokens, true).await;
    let masters = ("x-remote-group", "system:masters");
    for name in ["ann", "tom"] {
        let headers =
            [("x-remote-user", name), masters, ("x-remote-uid", "u"), ("x-remote-extra-team", "red")];
        let found = who(&proxy, &headers).await.json()["status"]["userInfo"].clone();
        let groups = json!(["system:masters", "system:authenticated"]);
        let expected = json!({"username": name, "uid": "u", "groups": groups, "extra": {"team": ["red"]}});
        assert_eq!(found, expected);
    }
    let refused = who(&proxy, &[("x-remote-user", "tom")]).await;
    assert_eq!(refused.code, 403, "the groups are of the request alone: {}", refused.text);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(r#"User "tom" cannot create"#), "{message}");
    assert_eq!(who(&proxy, &[]).await.code, 401);
    let watch = [("x-remote-user", "tom"), masters];
    assert_eq!(watched(&proxy, &watch, || ()).await, 600, "a watch keeps the identity of its request");
}

#[tokio::test(start_paused = true)]
async fn headers_of_identity_from_anybody_else_change_nothing() {
    let tokens = LiveTokens::from(table("first,ann,1,system:masters\n"));
    let server = server(&tokens, false).await;
    let spoofed: [&[(&str, &str)]; 5] = [
        &[("x-remote-user", "root"), ("x-remote-group", "system:masters")],
        &[("X-REMOTE-USER", "root"), ("x-remote-user", "system:admin")],
        &[("x_remote_user", "root"), ("x_remote_group", "system:masters")],
        &[("x-remote-user", "root"), ("x-remote-extra-scopes", "all"), ("x-remote-uid", "0")],
        &[("impersonate_user", "root"), ("impersonate_group", "system:masters")],
    ];
    for headers in spoofed {
        assert_eq!(who(&server, headers).await.code, 401, "{headers:?}");
        let with_token = [headers, &[("authorization", "Bearer first")]].concat();
        let found: Value = who(&server, &with_token).await.json()["status"]["userInfo"].clone();
        assert_eq!((&found["username"], &found["uid"]), (&json!("ann"), &json!("1")), "{headers:?}");
        assert!(found["extra"].is_null(), "{found}");
    }
    for (headers, code) in [
        (&[("impersonate-user", "root"), ("impersonate-group", "system:masters")][..], 401),
        (&[("authorization", "Bearer first"), ("impersonate-uid", "0")], 400),
        (&[("authorization", "Bearer first"), ("impersonate-usr", "root")], 400),
        (&[("authorization", "Bearer wrong"), ("x-remote-user", "root")], 401),
    ] {
        assert_eq!(who(&server, headers).await.code, code, "{headers:?}");
    }
}
