//! Authentication by a token webhook: another server says whose a bearer token is.
//!
//! Owns the question, its answer and the cache of answers by the token's digest. It never keeps or logs a token.
//! Invariant: a token is accepted for no longer than the cache's time after the webhook last accepted it; a failure to
//! ask is never remembered.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use orch_bounded::{ExpiringMap, WarningLimit};
use ring::digest::{Context, SHA256, digest};
use serde::Deserialize;
use serde_json::json;

use super::authenticator::bearer_token;
use super::{Finding, Found, Holder, Method, Moment, Peer, TOKEN_BYTES_MAX, Unauthenticated, User, found};
use crate::ambient::Timestamp;
use crate::egress::{Askers, ReviewHook};

/// Accepted tokens that are remembered.
const ACCEPTED_MAX: usize = 8 << 10;
/// Bytes of their users together. Most have less than 1 KiB; a user of thousands of groups has some hundred, for each token.
const ACCEPTED_BYTES_MAX: usize = 64 << 20;
/// Refused tokens that are remembered: enough for clients that repeat themselves. They are kept apart, so that a flood
/// of guesses displaces no accepted token.
const REFUSED_MAX: usize = 4 << 10;
/// Bytes of their texts together: none has more than [`ERROR_BYTES_MAX`].
const REFUSED_BYTES_MAX: usize = REFUSED_MAX * ERROR_BYTES_MAX;
/// Longest memory of a refusal: a token may be made known to the webhook at any time.
const REFUSED_SPAN_MAX: Duration = Duration::from_secs(10);
/// Bytes of the webhook's own error that are shown to whoever reviews a token.
const ERROR_BYTES_MAX: usize = 256;

type Digest = [u8; 32];

/// Asks a webhook whose a bearer token is.
pub struct TokenWebhook {
    hook: ReviewHook,
    /// Audiences of this server.
    audiences: Vec<String>,
    span: Duration,
    accepted: ExpiringMap<Digest, Holder, Timestamp>,
    refused: ExpiringMap<Digest, Refusal, Timestamp>,
    /// Addresses that tokens come from, `None` for reviews: one must not take all places of the target.
    askers: Askers<Option<IpAddr>>,
    /// Limits the log: anyone can show a token.
    warnings: WarningLimit,
}

/// The status of a review.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    authenticated: Option<bool>,
    error: Option<String>,
    audiences: Option<Vec<String>>,
    user: Option<Named>,
}

/// The user that a status names.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    username: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// An answer of the webhook that names no user.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refusal {
    /// It does not know the token.
    Unknown,
    /// It knows the token and says what is wrong with it.
    Fault(String),
}

impl fmt::Debug for TokenWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWebhook").field("hook", &self.hook).finish_non_exhaustive()
    }
}

impl TokenWebhook {
    /// Asks `hook`; answers count for `span`. Tokens must be meant for one of `audiences`.
    pub fn new(hook: ReviewHook, audiences: Vec<String>, span: Duration) -> Self {
        let accepted = ExpiringMap::new(ACCEPTED_MAX, ACCEPTED_BYTES_MAX);
        let refused = ExpiringMap::new(REFUSED_MAX, REFUSED_BYTES_MAX);
        let (askers, warnings) = (Askers::default(), WarningLimit::new());
        TokenWebhook { hook, audiences, span, accepted, refused, askers, warnings }
    }

    /// The holder of `token`, if it is meant for one of `wanted`. `asker`: the address that it came from; `None` for a review.
    async fn find(
        &self,
        asker: Option<IpAddr>,
        token: &[u8],
        wanted: &[String],
        now: Timestamp,
    ) -> Found<Holder> {
        let Some(text) = str::from_utf8(token).ok().filter(|token| token.len() <= TOKEN_BYTES_MAX) else {
            return Ok(None);
        };
        let id = id_of(token, wanted);
        if let Some(holder) = self.accepted.get(&id, now) {
            return Ok(Some(holder));
        }
        if let Some(refusal) = self.refused.get(&id, now) {
            return refusal.into_found();
        }
        let Some(_question) = self.askers.begin(asker.map(network_of)) else {
            return Err(self.unanswered("too many questions of one address are under way"));
        };
        let spec = json!({"token": text, "audiences": wanted});
        let answered = self.hook.ask(spec).await;
        let status = answered.map_err(|error| self.unanswered(&error.to_string()))?;
        match self.holder_in(status, wanted) {
            Ok(holder) => {
                self.accepted.put(id, holder.clone(), holder.weight(), now, self.span);
                Ok(Some(holder))
            }
            Err(refusal) => {
                self.refused.put(id, refusal.clone(), refusal.weight(), now, self.span.min(REFUSED_SPAN_MAX));
                refusal.into_found()
            }
        }
    }

    fn unanswered(&self, error: &str) -> Unauthenticated {
        if let Some(left_out) = self.warnings.pass() {
            tracing::warn!(error, left_out, "the token webhook gives no answer");
        }
        Unauthenticated::Undecided("the token webhook gives no answer".to_owned())
    }

    /// The holder that an answer names. An answer without audiences is about those of this server. A user without a name is
    /// none: rules and the audit could not tell who acts.
    fn holder_in(&self, status: Status, wanted: &[String]) -> Result<Holder, Refusal> {
        if status.authenticated != Some(true) {
            let error = status.error.unwrap_or_default();
            if error.is_empty() {
                return Err(Refusal::Unknown);
            }
            let error = orch_schema::excerpt::fitting(&error, ERROR_BYTES_MAX).to_owned();
            return Err(Refusal::Fault(error));
        }
        let named = status.audiences.unwrap_or_default();
        let meant = if named.is_empty() { self.audiences.clone() } else { named };
        // A set: a review and an answer may each name as many audiences as fit into a body.
        let wanted: HashSet<&str> = wanted.iter().map(String::as_str).collect();
        let is_wanted = |audience: &String| wanted.contains(audience.as_str());
        let audiences: Vec<String> = meant.into_iter().filter(is_wanted).collect();
        let Named { username, uid, groups, extra } = status.user.unwrap_or_default();
        let name = username.unwrap_or_default();
        if audiences.is_empty() || name.is_empty() {
            return Err(Refusal::Unknown);
        }
        let extra = extra.unwrap_or_default().into_iter();
        let user = User {
            name,
            uid: uid.unwrap_or_default(),
            groups: groups.unwrap_or_default(),
            extra: extra.map(|(key, values)| (key, values.unwrap_or_default())).collect(),
        };
        Ok(Holder { user: Arc::new(user.authenticated()), audiences })
    }
}

impl Refusal {
    fn weight(&self) -> usize {
        match self {
            Refusal::Unknown => 0,
            Refusal::Fault(text) => text.len(),
        }
    }

    fn into_found<T>(self) -> Found<T> {
        match self {
            Refusal::Unknown => Ok(None),
            Refusal::Fault(text) => Err(Unauthenticated::Token(text)),
        }
    }
}

/// An IPv4 address, or the /64 of an IPv6 address, which one host can have whole.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(four) => IpAddr::V4(four),
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from(u128::from(six) & (u128::MAX << 64))),
    }
}

/// The digest of a token and of the audiences that are asked for. Each part has a length of its own, so that no two
/// questions have the same bytes.
fn id_of(token: &[u8], wanted: &[String]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(digest(&SHA256, token).as_ref());
    for audience in wanted {
        context.update(digest(&SHA256, audience.as_bytes()).as_ref());
    }
    let mut id = [0; 32];
    id.copy_from_slice(context.finish().as_ref());
    id
}

impl Method for TokenWebhook {
    fn user<'a>(&'a self, peer: &'a Peer, headers: &'a HeaderMap, at: Moment<'a>) -> Finding<'a, Arc<User>> {
        let Some(token) = bearer_token(headers) else { return found(Ok(None)) };
        Finding::Right(Box::pin(async move {
            let holder = self.find(Some(peer.address.ip()), token, &self.audiences, at.now).await?;
            holder.map(|holder| Some(holder.user)).ok_or(Unauthenticated::InvalidToken)
        }))
    }

    fn holder<'a>(&'a self, token: &'a [u8], at: Moment<'a>) -> Finding<'a, Holder> {
        Finding::Right(Box::pin(self.find(None, token, &self.audiences, at.now)))
    }

    fn holder_for<'a>(
        &'a self,
        token: &'a [u8],
        wanted: &'a [String],
        at: Moment<'a>,
    ) -> Finding<'a, Holder> {
        Finding::Right(Box::pin(self.find(None, token, wanted, at.now)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use futures::FutureExt;
    use serde_json::Value;

    use super::*;
    use crate::ambient::SystemAmbient;
    use crate::egress::testing::Scripted;
    use crate::egress::{EgressError, ReviewKind, Url};

    const KIND: &str = "authentication.orch.io/v1";

    static ANN: LazyLock<Value> =
        LazyLock::new(|| json!({"authenticated": true, "user": {"username": "ann"}}));

    fn hook(egress: Arc<Scripted>) -> TokenWebhook {
        let kind = ReviewKind { kind: "TokenReview", api_version: KIND.to_owned() };
        let url = Url::parse("https://hook.example/x").unwrap();
        let hook = ReviewHook::new(egress, Arc::new(SystemAmbient), url, kind, Duration::from_secs(30));
        TokenWebhook::new(hook, vec!["api".to_owned()], Duration::from_secs(120))
    }

    fn review(status: &Value) -> Result<(u16, String), EgressError> {
        Ok((200, json!({"kind": "TokenReview", "apiVersion": KIND, "status": status}).to_string()))
    }

    fn find(hook: &TokenWebhook, token: &str, seconds: u64) -> Result<Option<String>, String> {
        let found = hook.find(None, token.as_bytes(), &hook.audiences, Timestamp(seconds * 1_000_000));
        let found = found.now_or_never().expect("the test's server answers at once");
        found.map(|holder| holder.map(|holder| holder.user.name.clone())).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_name_users() {
        let fault = |text: &str| Err(format!("[invalid bearer token, {text}]"));
        let lost = "the token webhook gives no answer";
        let ann = json!({"username": "ann", "groups": ["devs"]});
        for (answer, expected) in [
            (review(&json!({"authenticated": true, "user": ann})), Ok(Some("ann".to_owned()))),
            (
                review(&json!({"authenticated": true, "user": ann, "audiences": ["api", "x"]})),
                Ok(Some("ann".to_owned())),
            ),
            (review(&json!({"authenticated": true, "user": ann, "audiences": ["x"]})), Ok(None)),
            (review(&json!({"authenticated": false, "user": ann})), Ok(None)),
            (review(&json!({"error": "expired"})), fault("expired")),
            (review(&Value::Null), fault(lost)),
            (review(&json!({"authenticated": true})), Ok(None)),
            (review(&json!({"authenticated": true, "user": {"username": "", "groups": ["devs"]}})), Ok(None)),
            (Ok((200, r#"{"kind": "Pod", "status": {"authenticated": true}}"#.to_owned())), fault(lost)),
            (Ok((200, "canary".to_owned())), fault(lost)),
            (Ok((302, String::new())), fault(lost)),
            (Ok((403, "canary".to_owned())), fault(lost)),
            (Err(EgressError::Timeout { host: "h".to_owned() }), fault(lost)),
        ] {
            let server = Arc::new(Scripted::new([answer.clone()]));
            assert_eq!(find(&hook(server), "t", 0), expected, "{answer:?}");
        }
    }

    #[test]
    fn the_webhook_is_asked_in_its_form() {
        let server = Arc::new(Scripted::new([review(&ANN)]));
        find(&hook(server.clone()), "t", 0).unwrap();
        let (url, document) = server.last();
        assert_eq!(url, "https://hook.example/x");
        assert_eq!((&document["kind"], &document["apiVersion"]), (&json!("TokenReview"), &json!(KIND)));
        assert_eq!(document["spec"], json!({"token": "t", "audiences": ["api"]}));
    }

    #[test]
    fn a_review_asks_for_its_own_audiences() {
        let user = json!({"username": "ann"});
        for (wanted, named, expected) in [
            (["api"], json!([]), Some(vec!["api"])),
            (["other"], json!([]), None),
            (["other"], json!(["other", "api"]), Some(vec!["other"])),
            (["other"], json!(["api"]), None),
        ] {
            let status = json!({"authenticated": true, "user": user, "audiences": named});
            let server = Arc::new(Scripted::new([review(&status)]));
            let webhook = hook(server.clone());
            let wanted_texts = wanted.map(str::to_owned);
            let found =
                webhook.find(None, b"t", &wanted_texts, Timestamp(0)).now_or_never().unwrap().unwrap();
            let found = found.map(|holder| holder.audiences.clone());
            assert_eq!(found, expected.map(|all| all.into_iter().map(str::to_owned).collect()), "{wanted:?}");
            assert_eq!(server.last().1["spec"]["audiences"], json!(wanted));
            find(&webhook, "t", 0).unwrap();
            let questions = if wanted == ["api"] { 1 } else { 2 };
            assert_eq!(server.asked(), questions, "other audiences are another question");
        }
    }

    #[test]
    fn answers_are_remembered_for_their_time_and_failures_are_not() {
        let server = Arc::new(Scripted::new([review(&ANN)]));
        let webhook = hook(server.clone());
        for seconds in [0, 119, 120] {
            assert!(find(&webhook, "t", seconds).unwrap().is_some());
        }
        assert_eq!(server.asked(), 2);
        server.answer([review(&json!({"error": "expired"}))]);
        for seconds in [500, 509, 510] {
            assert!(find(&webhook, "u", seconds).is_err());
        }
        assert_eq!(server.asked(), 4);
        server.answer([Ok((403, String::new()))]);
        for _ in 0..2 {
            assert!(find(&webhook, "v", 900).is_err());
        }
        assert_eq!(server.asked(), 6);
    }

    #[test]
    fn attempts_are_repeated_where_another_may_be_answered() {
        let lost = || Err(EgressError::Lost { host: "h".to_owned(), reason: "reset".to_owned() });
        for (answer, attempts) in [
            (lost(), 5),
            (Ok((500, String::new())), 5),
            (Ok((429, String::new())), 5),
            (Ok((400, String::new())), 1),
            (Err(EgressError::Timeout { host: "h".to_owned() }), 1),
        ] {
            let server = Arc::new(Scripted::new([answer.clone()]));
            find(&hook(server.clone()), "t", 0).unwrap_err();
            assert_eq!((server.asked(), server.paused()), (attempts, attempts - 1), "{answer:?}");
        }
        let server = Arc::new(Scripted::new([lost(), review(&ANN)]));
        assert!(find(&hook(server.clone()), "t", 0).unwrap().is_some());
        assert_eq!(server.asked(), 2);
    }

    #[test]
    fn an_answer_that_cannot_be_read_names_nobody() {
        let user = json!({"username": "ann"});
        for status in [
            json!({"authenticated": "true", "user": user}),
            json!({"authenticated": true, "user": user, "audiences": "other"}),
            json!({"authenticated": true, "user": user, "audiences": [5]}),
            json!({"authenticated": true, "user": user, "audiences": {"other": true}}),
            json!({"authenticated": true, "user": {"username": 5}}),
            json!({"authenticated": true, "user": {"username": "ann", "groups": ["devs", 5]}}),
            json!({"authenticated": true, "user": {"username": "ann", "extra": {"a": "b"}}}),
            json!({"authenticated": true, "user": [user]}),
        ] {
            let server = Arc::new(Scripted::new([review(&status)]));
            assert!(find(&hook(server), "t", 0).is_err(), "{status}");
        }
        let kind = r#""kind": "TokenReview""#;
        let status = r#""status": {"authenticated": true, "user": {"username": "ann"}}"#;
        for answer in [
            format!("{{{kind}, {status}, {status}}}"),
            format!("{{{kind}, {kind}, {status}}}"),
            format!("{{\"kind\": 5, {status}}}"),
            format!("{{\"apiVersion\": [\"{KIND}\"], {status}}}"),
            format!("[{{{kind}, {status}}}]"),
            format!("{{{kind}, {status}}} more"),
        ] {
            let server = Arc::new(Scripted::new([Ok((200, answer.clone()))]));
            assert!(find(&hook(server), "t", 0).is_err(), "{answer}");
        }
        let absent = json!({
            "authenticated": true, "error": null, "audiences": null,
            "user": {"username": "ann", "uid": null, "groups": null, "extra": {"a": null}},
        });
        let server = Arc::new(Scripted::new([review(&absent)]));
        assert_eq!(find(&hook(server), "t", 0), Ok(Some("ann".to_owned())), "null is absence");
    }

    #[test]
    fn users_of_many_groups_have_a_bound_together() {
        let groups: Vec<String> = (0..10_000).map(|number| format!("group-{number:060}")).collect();
        let status = json!({"authenticated": true, "user": {"username": "ann", "groups": groups}});
        let server = Arc::new(Scripted::new([review(&status)]));
        let webhook = hook(server.clone());
        let holder = webhook.holder_in(serde_json::from_value(status).unwrap(), &webhook.audiences).unwrap();
        let fitting = ACCEPTED_BYTES_MAX / holder.weight();
        assert!(fitting < 100, "a hundred such users would not fit");
        for number in 0..=fitting {
            find(&webhook, &number.to_string(), 0).unwrap().unwrap();
        }
        assert_eq!(server.asked(), fitting + 1);
        let kept = (0..=fitting).filter(|number| {
            let id = id_of(number.to_string().as_bytes(), &webhook.audiences);
            webhook.accepted.get(&id, Timestamp(0)).is_some()
        });
        assert!(kept.count() <= fitting);
    }
}
