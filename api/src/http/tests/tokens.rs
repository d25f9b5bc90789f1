//! Service account tokens over HTTP: requested, used, limited, and ended with the objects that they are bound to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt;
use http::Method;
use orch_proto::brand::ORCH;
use orch_raft::Store;
use orch_schema::json;
use orch_schema::value::Value;

use super::audits::{MemorySink, auditor};
use super::{Answered, Server};
use crate::audit::Auditor;
use crate::authn::bootstrap_token::BootstrapTokens;
use crate::authn::service_account::testing::{accounts, elliptic};
use crate::authn::service_account::{Keys, ObjectRef, SecretClaims, ServiceAccounts, Settings};
use crate::authn::{AnonymousAccess, Authenticator, TokenTable};
use crate::gate::Gate;
use crate::http::Api;
use crate::paging::TokenKey;
use crate::pipeline::{Features, Pipeline};
use crate::registry::Registry;
use crate::testing::{Lag, ProposalOutcome, ScriptedStore};

const ACCOUNTS: &str = "/api/v1/namespaces/ns/serviceaccounts";

impl Server {
    /// A server with the account `robot`, whose tokens have these settings, and with bootstrap tokens.
    async fn with_tokens(change: impl FnOnce(&mut Settings)) -> Server {
        Server::with_tokens_audited(change, None).await
    }

    /// The same, audited by `auditor` if there is one.
    pub(super) async fn with_tokens_audited(
        change: impl FnOnce(&mut Settings),
        auditor: Option<Arc<Auditor>>,
    ) -> Server {
        let server = Server::new().await;
        let mut settings = accounts(elliptic()).settings().clone();
        change(&mut settings);
        let tokens = ServiceAccounts::new(&ORCH, settings, Keys::new(Some(elliptic()), Vec::new()));
        let server = server.with_tokens_over(server.store.clone(), &Arc::new(tokens), auditor);
        server.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
        server
    }

    /// A member over `store` of the same cluster, with these tokens and with bootstrap tokens.
    fn with_tokens_over<S: Store>(
        &self,
        store: S,
        tokens: &Arc<ServiceAccounts>,
        auditor: Option<Arc<Auditor>>,
    ) -> Server {
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused)
            .with(Box::new(BootstrapTokens::new(&ORCH)));
        let gate = Gate::with_service_accounts(&ORCH, authenticator, tokens.clone());
        let (registry, key) = (Registry::builtin(&ORCH), TokenKey::new([7; 32]));
        let features = Features::default();
        let pipeline = Pipeline::new(store, registry, key, self.clock.clone(), features, gate);
        let api = Api::new(Arc::new(pipeline), self.stopping.clone());
        let router = api.audited_by(auditor).router();
        let (store, clock) = (self.store.clone(), self.clock.clone());
        Server { router, store, clock, stopping: self.stopping.clone(), peer: self.peer.clone() }
    }

    pub(super) async fn request_token(&self, spec: Value) -> Answered {
        let request =
            json!({"apiVersion": "authentication.orch.io/v1", "kind": "TokenRequest", "spec": spec});
        let path = format!("{ACCOUNTS}/robot/token");
        self.send(Method::POST, &path, &[], Body::from(request.to_string())).await
    }

    /// The name of the user who holds `token`, as the refusal of a request tells it; or the code of another answer.
    async fn holder(&self, token: &str) -> Result<String, u16> {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str())];
        let answered = self.send(Method::GET, super::MAPS, &headers, Body::empty()).await;
        if answered.code != 403 {
            return Err(answered.code.as_u16());
        }
        let message = answered.json()["message"].as_str().unwrap_or_default().to_owned();
        Ok(message.split('"').nth(1).unwrap_or_default().to_owned())
    }
}

fn token_in(answered: &Answered) -> String {
    assert_eq!(answered.code, 201, "{}", answered.text);
    answered.json()["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_token_is_its_accounts_until_the_account_is_gone() {
    let server = Server::with_tokens(|_| {}).await;
    let token = token_in(&server.request_token(json!({})).await);
    let robot = || Ok("system:serviceaccount:ns:robot".to_owned());
    assert_eq!(server.holder(&token).await, robot());
    assert_eq!(server.delete(&format!("{ACCOUNTS}/robot")).await.code, 200);
    assert_eq!(server.holder(&token).await, Err(401));
    server.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(server.holder(&token).await, Err(401), "another account of the same name");
}

#[tokio::test(start_paused = true)]
async fn a_bound_token_ends_with_its_secret() {
    let server = Server::with_tokens(|_| {}).await;
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "s"}})).await;
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
    let token = token_in(&server.request_token(json!({"boundObjectRef": reference})).await);
    assert!(server.holder(&token).await.is_ok());
    server.delete("/api/v1/namespaces/ns/secrets/s").await;
    assert_eq!(server.holder(&token).await, Err(401));
}

#[tokio::test(start_paused = true)]
async fn the_version_of_a_bound_object_is_not_looked_at_and_other_kinds_are_refused() {
    let server = Server::with_tokens(|_| {}).await;
    server.create("/api/v1/namespaces/ns/secrets", json!({"metadata": {"name": "s"}})).await;
    for (version, kind, expected) in [
        ("", "Secret", None),
        ("v9", "Secret", None),
        ("a/b/c", "Secret", None),
        ("v1", "ConfigMap", Some("cannot bind token to object of type /v1, Kind=ConfigMap")),
        ("apps/v1", "Secret", Some("cannot bind token to object of type apps/v1, Kind=Secret")),
    ] {
        let reference = json!({"apiVersion": version, "kind": kind, "name": "s"});
        let answered = server.request_token(json!({"boundObjectRef": reference})).await;
        let message = answered.json()["message"].as_str().map(str::to_owned);
        assert_eq!(message.as_deref(), expected, "{version:?} {kind}");
        assert_eq!(answered.code, if expected.is_some() { 400 } else { 201 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_longer_life_than_allowed_is_shortened_with_a_warning() {
    let server = Server::with_tokens(|settings| settings.life_s_max = Some(3600)).await;
    let answered = server.request_token(json!({"expirationSeconds": 7200})).await;
    assert_eq!(answered.json()["spec"]["expirationSeconds"], 3600);
    let warning = answered.headers["warning"].to_str().unwrap().to_owned();
    assert!(warning.contains("requested expiration of 7200 seconds shortened to 3600 seconds"), "{warning}");
    assert!(!server.request_token(json!({})).await.headers.contains_key("warning"));
    let refused = server.request_token(json!({"expirationSeconds": 599})).await;
    assert!(refused.text.contains("may not specify a duration less than 10 minutes"), "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn mounted_tokens_are_extended_where_the_settings_say_so() {
    for (extends, expected) in [(true, 365 * 24 * 3600), (false, 3607)] {
        let server = Server::with_tokens(|settings| settings.extends_mounted = extends).await;
        let containers = json!([{"name": "c", "image": "i"}]);
        let spec = json!({"containers": containers, "serviceAccountName": "robot"});
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        server.create("/api/v1/namespaces/ns/pods", pod).await;
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
        let answered =
            server.request_token(json!({"expirationSeconds": 3607, "boundObjectRef": reference})).await;
        let token = token_in(&answered);
        let second = 1_000_000;
        let move_to = |seconds: u64| {
            let start = 1_767_322_145_000_000;
            server.clock.micros.store(start + seconds * second, std::sync::atomic::Ordering::Relaxed);
        };
        move_to(expected - 1);
        assert!(server.holder(&token).await.is_ok(), "{extends}");
        move_to(expected);
        assert_eq!(server.holder(&token).await, Err(401), "{extends}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_token_lets_a_node_in_while_its_secret_is_there() {
    let server = Server::with_tokens(|_| {}).await;
    server.create("/api/v1/namespaces", json!({"metadata": {"name": "orch-system"}})).await;
    let data = json!({
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
    });
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.orch.io/token", "stringData": data,
    });
    let secrets = "/api/v1/namespaces/orch-system/secrets";
    let token = "abcdef.0123456789abcdef";
    assert_eq!(server.holder(token).await, Err(401));
    server.create(secrets, secret).await;
    assert_eq!(server.holder(token).await, Ok("system:bootstrap:abcdef".to_owned()));
    assert_eq!(server.holder("abcdef.0123456789abcdee").await, Err(401));
    server.delete(&format!("{secrets}/bootstrap-token-abcdef")).await;
    assert_eq!(server.holder(token).await, Err(401));
}

#[tokio::test(start_paused = true)]
async fn verifiers_find_the_keys_unless_the_issuer_is_no_url() {
    let paths = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
    let server = Server::with_tokens(|_| {}).await;
    for path in paths {
        assert_eq!(server.get(path).await.code, 200, "{path}");
        let posted = server.send(Method::POST, path, &[], Body::empty()).await;
        assert_eq!(posted.code, 405, "{path}");
    }
    let document = server.get(paths[0]).await.json();
    assert_eq!(document["jwks_uri"], "https://127.0.0.1:6443/openid/v1/jwks");
    let server = Server::with_tokens(|settings| settings.issuers = vec!["cluster".to_owned()]).await;
    for path in paths {
        assert_eq!(server.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_reviewed_for_the_audiences_that_are_asked_for() {
    let server = Server::with_tokens(|_| {}).await;
    let token = token_in(&server.request_token(json!({"audiences": ["shop"]})).await);
    assert_eq!(server.holder(&token).await, Err(401));
    for (audiences, expected) in
        [(json!(["shop", "bank"]), json!(["shop"])), (json!(["bank"]), Value::Null), (json!([]), Value::Null)]
    {
        let spec = json!({"token": token.as_str(), "audiences": audiences});
        let review = json!({"apiVersion": "authentication.orch.io/v1", "kind": "TokenReview", "spec": spec});
        let path = "/apis/authentication.orch.io/v1/tokenreviews";
        let answered = server.send(Method::POST, path, &[], Body::from(review.to_string())).await;
        let status = answered.json()["status"].clone();
        assert_eq!(status["audiences"], expected, "{status}");
        let error = status["error"].as_str().unwrap_or_default();
        assert_eq!(error.contains("[invalid bearer token, token audiences"), expected.is_null(), "{status}");
    }
}

/// Two members of a cluster: one has applied everything, the other what `lag` says.
async fn leader_and_laggard() -> (Server, Server, Arc<Lag>) {
    let (server, lag) = (Server::new().await, Arc::new(Lag::default()));
    let tokens = Arc::new(accounts(elliptic()));
    let store = ScriptedStore {
        below: server.store.clone(),
        leads: Arc::new(AtomicBool::new(false)),
        fate: ProposalOutcome::Applied,
        lag: lag.clone(),
    };
    let laggard = server.with_tokens_over(store, &tokens, None);
    (server.with_tokens_over(server.store.clone(), &tokens, None), laggard, lag)
}

const SYSTEM_SECRETS: &str = "/api/v1/namespaces/orch-system/secrets";
const BOOTSTRAP_TOKEN: &str = "abcdef.0123456789abcdef";

fn bootstrap_secret() -> Value {
    let data = json!({
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
    });
    json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.orch.io/token", "stringData": data})
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_on_a_member_that_has_not_applied_its_making() {
    let (leader, laggard, lag) = leader_and_laggard().await;
    leader.create("/api/v1/namespaces", json!({"metadata": {"name": "orch-system"}})).await;
    let before = leader.store.state();
    let fall_behind = || *lag.behind.lock() = Some(before.clone());
    leader.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    leader.create(SYSTEM_SECRETS, bootstrap_secret()).await;
    let token = token_in(&leader.request_token(json!({})).await);
    fall_behind();
    assert_eq!(laggard.holder(&token).await, Ok("system:serviceaccount:ns:robot".to_owned()));
    fall_behind();
    assert_eq!(laggard.holder(BOOTSTRAP_TOKEN).await, Ok("system:bootstrap:abcdef".to_owned()));
    fall_behind();
    let review = json!({"spec": {"token": token.as_str()}});
    let reviewed = laggard.create("/apis/authentication.orch.io/v1/tokenreviews", review).await;
    assert_eq!(reviewed["status"]["authenticated"], true, "{reviewed}");
    assert_eq!(lag.barriers.load(Ordering::Relaxed), 3, "one each");
    leader.delete(&format!("{ACCOUNTS}/robot")).await;
    leader.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let token = token_in(&leader.request_token(json!({})).await);
    fall_behind();
    assert!(laggard.holder(&token).await.is_ok(), "another account of the same name");
}

#[tokio::test(start_paused = true)]
async fn made_up_tokens_cost_no_read_barrier() {
    let (leader, laggard, lag) = leader_and_laggard().await;
    leader.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let token = token_in(&leader.request_token(json!({})).await);
    let foreign = token_in(&leader.request_token(json!({"audiences": ["others"]})).await);
    leader.delete(&format!("{ACCOUNTS}/robot")).await;
    let (message, _) = token.rsplit_once('.').unwrap();
    let (head, _) = token.split_once('.').unwrap();
    let barriers = || lag.barriers.load(Ordering::Relaxed);
    for junk in [
        format!("{message}.{}", "A".repeat(86)),
        format!("{message}."),
        format!("{head}.e30.AAAA"),
        "junk".to_owned(),
        "abcdef.0123456789abcdeF".to_owned(),
        "a.b.c".to_owned(),
    ] {
        assert_eq!(laggard.holder(&junk).await, Err(401), "{junk}");
        assert_eq!(barriers(), 0, "{junk}");
    }
    assert_eq!(laggard.holder(&token).await, Err(401), "its account is gone");
    assert_eq!(barriers(), 1, "which a newer state might have said otherwise");
    assert_eq!(laggard.holder(&foreign).await, Err(401));
    for round in 0..100 {
        assert_eq!(laggard.holder(&format!("ab{round:04}.0123456789abcdef")).await, Err(401));
    }
    let before = barriers();
    assert!(before <= 3, "one for all that have the form of a bootstrap token: {before}");
    laggard.clock.micros.fetch_add(100_000, Ordering::Relaxed);
    for round in 0..100 {
        assert_eq!(laggard.holder(&format!("ab{round:04}.0123456789abcdef")).await, Err(401));
    }
    assert_eq!(barriers(), before + 1, "one in a tenth of a second");
}

const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

/// A server with the account `robot`, a secret `s` that keeps a token of it, and that token.
struct Keeping {
    server: Server,
    tokens: Arc<ServiceAccounts>,
    sink: Arc<MemorySink>,
    token: String,
}

impl Keeping {
    async fn new() -> Keeping {
        let server = Server::new().await;
        let tokens = Arc::new(accounts(elliptic()));
        let sink = Arc::new(MemorySink::default());
        let auditor = auditor("rules: [{level: RequestResponse}]", &sink, server.clock.clone());
        let server = server.with_tokens_over(server.store.clone(), &tokens, Some(auditor));
        let account = server.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
        let uid = account["metadata"]["uid"].as_str().unwrap().to_owned();
        let account = ObjectRef { name: "robot".to_owned(), uid };
        let claims = SecretClaims { namespace: "ns".to_owned(), secret: "s".to_owned(), account };
        let token = tokens.issue_kept(&claims).unwrap();
        let keeping = Keeping { server, tokens, sink, token };
        keeping.server.create(SECRETS, keeping.secret()).await;
        keeping
    }

    fn secret(&self) -> Value {
        let metadata = json!({"name": "s", "annotations": {"orch.io/service-account.name": "robot"}});
        let data = json!({"token": BASE64_STANDARD.encode(&self.token)});
        json!({"metadata": metadata, "type": "orch.io/service-account-token", "data": data})
    }

    async fn holder(&self) -> Result<String, u16> {
        self.server.holder(&self.token).await
    }

    async fn change(&self, path: &str, patch: Value) {
        let answered = self.server.merge(path, patch).await;
        assert_eq!(answered.code, 200, "{}", answered.text);
    }

    /// The annotations of the last audited request that tell of a kept token, and the warning in its answer.
    async fn told(&self) -> (String, String) {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("authorization", authorization.as_str())];
        let answered = self.server.send(Method::GET, super::MAPS, &headers, Body::empty()).await;
        let events = std::mem::take(&mut *self.sink.events.lock().unwrap());
        let event: Value = serde_json::from_slice(events.last().unwrap()).unwrap();
        assert!(!event.to_string().contains(&self.token), "{event}");
        let annotations = event["annotations"].as_object().cloned().unwrap_or_default();
        let told = annotations.iter().filter_map(|(name, value)| {
            Some(format!("{}={}", name.strip_prefix("authentication.orch.io/legacy-token")?, value.as_str()?))
        });
        let warning = answered.headers.get("warning").map(|value| value.to_str().unwrap().to_owned());
        (told.collect::<Vec<_>>().join(" "), warning.unwrap_or_default())
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_token_is_good_while_its_secret_keeps_it() {
    let keeping = Keeping::new().await;
    let (path, robot) = (format!("{SECRETS}/s"), Ok("system:serviceaccount:ns:robot".to_owned()));
    let mark = "orch.io/legacy-token-invalid-since";
    let kept = keeping.secret()["data"]["token"].clone();
    for (name, patch, back) in [
        ("another token", json!({"data": {"token": "eA=="}}), json!({"data": {"token": kept.clone()}})),
        ("no token", json!({"data": {"token": null}}), json!({"data": {"token": kept}})),
        (
            "marked as unused",
            json!({"metadata": {"labels": {mark: "2026-01-02"}}}),
            json!({"metadata": {"labels": {mark: null}}}),
        ),
    ] {
        assert_eq!(keeping.holder().await, robot, "before: {name}");
        keeping.change(&path, patch).await;
        assert_eq!(keeping.holder().await, Err(401), "{name}");
        keeping.change(&path, back).await;
    }
    assert_eq!(keeping.holder().await, robot);
    keeping.change(&path, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    assert_eq!(keeping.holder().await, robot);
    keeping.server.delete(&path).await;
    assert_eq!(keeping.holder().await, Err(401), "its deletion has begun");
    keeping.change(&path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(keeping.holder().await, Err(401), "it is gone");
    keeping.server.create(SECRETS, keeping.secret()).await;
    assert_eq!(keeping.holder().await, robot, "as in the reference, a secret that keeps it again admits it");
    keeping.server.delete(&format!("{ACCOUNTS}/robot")).await;
    assert_eq!(keeping.holder().await, Err(401));
    keeping.server.create(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(keeping.holder().await, Err(401), "another account of the same name");
}

#[tokio::test(start_paused = true)]
async fn uses_of_a_kept_token_are_audited_and_noted_once_a_day() {
    let keeping = Keeping::new().await;
    let subject = "=system:serviceaccount:ns:robot";
    assert_eq!(keeping.told().await, (format!("{subject} -manual-secret=s"), String::new()));
    let noted = keeping.tokens.last_uses().take().now_or_never().unwrap();
    let [(key, last_use)] = &noted.into_iter().collect::<Vec<_>>()[..] else { panic!("one secret") };
    assert_eq!(key, &("ns".to_owned(), "s".to_owned()));
    let label = |day: &str| json!({"metadata": {"labels": {"orch.io/legacy-token-last-used": day}}});
    keeping.change(&format!("{SECRETS}/s"), label(&last_use.day)).await;
    keeping.holder().await.unwrap();
    assert!(keeping.tokens.last_uses().take().now_or_never().is_none(), "its label says so already");
    keeping.change(&format!("{ACCOUNTS}/robot"), json!({"secrets": [{"name": "s"}]})).await;
    let (told, warning) = keeping.told().await;
    assert_eq!(told, format!("{subject} -autogenerated-secret=s"));
    assert!(warning.contains("Use tokens from the TokenRequest API"), "{warning}");
    let marked =
        json!({"metadata": {"labels": {"orch.io/legacy-token-invalid-since": last_use.day.as_str()}}});
    keeping.change(&format!("{SECRETS}/s"), marked).await;
    keeping.change(&format!("{SECRETS}/s"), label("2001-01-01")).await;
    assert_eq!(keeping.told().await.0, format!("{subject} -invalidated=s/ns"));
    assert!(keeping.tokens.last_uses().take().now_or_never().is_some(), "a refused use is one, too");
}

#[tokio::test(start_paused = true)]
async fn a_kept_token_is_for_this_server_alone() {
    let keeping = Keeping::new().await;
    let review = |audiences: Value| {
        let spec = json!({"token": keeping.token.as_str(), "audiences": audiences});
        json!({"apiVersion": "authentication.orch.io/v1", "kind": "TokenReview", "spec": spec})
    };
    let reviews = "/apis/authentication.orch.io/v1/tokenreviews";
    let own = keeping.server.create(reviews, review(json!([]))).await;
    assert_eq!(own["status"]["user"]["username"], "system:serviceaccount:ns:robot");
    assert!(own["status"]["user"].get("extra").is_none(), "it has no id");
    let other = keeping.server.create(reviews, review(json!(["other"]))).await;
    assert!(!other["status"]["authenticated"].as_bool().unwrap_or_default());
}
