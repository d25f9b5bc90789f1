//! Authentication: client certificates, headers of front proxies, bearer tokens; a request without any of them is anonymous.
//!
//! Owns the order of the methods. The first that finds an identity decides; a credential that is bad is never anonymous.
//! A method that has no configuration does not look: without a review server a bearer token identifies nobody, and the
//! request is anonymous, as in the reference.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use orch_bounded::{ExpiringMap, WarningLimit};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::review::Reviewer;
use super::tls::{Certificate, Peer};
use super::user::User;

/// Most tokens whose reviews are remembered.
const TOKENS_MAX: usize = 4096;
/// Most bytes of users that are remembered: a kilobyte a token.
const TOKENS_BYTES_MAX: usize = 4 << 20;
/// Longest token that is reviewed; longer ones are nobody's.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Names of the headers in which front proxies name their users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProxyHeaders {
    /// Headers of the user's name, the first that is there counts.
    pub names: Vec<String>,
    /// Headers of groups.
    pub groups: Vec<String>,
    /// Prefixes of headers with more.
    pub extra_prefixes: Vec<String>,
}

/// A request whose credentials are bad.
#[derive(Debug, thiserror::Error)]
#[error("unauthorized")]
pub(crate) struct Unauthorized;

/// Authenticates requests.
pub(crate) struct Authenticator {
    headers: Arc<ArcSwap<ProxyHeaders>>,
    reviewer: Option<Arc<dyn Reviewer>>,
    reviews: ExpiringMap<[u8; 32], Option<User>>,
    review_ttl: Duration,
    /// Warnings about tokens that cannot be reviewed.
    unreviewable: WarningLimit,
}

impl Authenticator {
    /// Tokens are reviewed by `reviewer`, and its answers kept for `review_ttl`.
    pub(crate) fn new(
        headers: Arc<ArcSwap<ProxyHeaders>>,
        reviewer: Option<Arc<dyn Reviewer>>,
        review_ttl: Duration,
    ) -> Authenticator {
        Authenticator {
            headers,
            reviewer,
            reviews: ExpiringMap::new(TOKENS_MAX, TOKENS_BYTES_MAX),
            review_ttl,
            unreviewable: WarningLimit::default(),
        }
    }

    /// The user of a request with `headers` over the connection of `peer`.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
    ) -> Result<User, Unauthorized> {
        let named = self.take_named(headers);
        let authorization = headers.remove(AUTHORIZATION);
        if peer.is_front_proxy
            && let Some(user) = named
        {
            return Ok(user.authenticated());
        }
        let is_bad = match &peer.certificate {
            Certificate::User(user) => return Ok(user.clone().authenticated()),
            Certificate::Bad => true,
            Certificate::None => false,
        };
        let token = authorization.as_ref().and_then(|value| bearer(value.to_str().ok()?));
        if let (Some(reviewer), Some(token)) = (&self.reviewer, token) {
            return self.review(reviewer.as_ref(), token).await.map(User::authenticated);
        }
        if is_bad { Err(Unauthorized) } else { Ok(User::anonymous()) }
    }

    async fn review(&self, reviewer: &dyn Reviewer, token: &str) -> Result<User, Unauthorized> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Unauthorized);
        }
        let key: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.reviews.get(&key, Instant::now()) {
            return known.ok_or(Unauthorized);
        }
        match reviewer.review_token(token).await {
            Ok(user) => {
                let bytes = user.as_ref().map_or(0, User::bytes);
                self.reviews.put(key, user.clone(), bytes, Instant::now(), self.review_ttl);
                user.ok_or(Unauthorized)
            }
            Err(error) => {
                if let Some(left_out) = self.unreviewable.pass() {
                    tracing::warn!(%error, left_out, "a bearer token cannot be reviewed");
                }
                Err(Unauthorized)
            }
        }
    }

    /// Removes the headers of front proxies, from whoever they come, and reads the user that they name.
    fn take_named(&self, headers: &mut HeaderMap) -> Option<User> {
        let known = self.headers.load();
        let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
        let values = |headers: &HeaderMap, names: &[String]| -> Vec<String> {
            names.iter().flat_map(|name| headers.get_all(name.as_str())).filter_map(text).collect()
        };
        let name = values(headers, &known.names).into_iter().find(|name| !name.is_empty());
        let groups = values(headers, &known.groups);
        let mut extra: Vec<(String, Vec<String>)> = Vec::new();
        let mut taken: Vec<http::HeaderName> = Vec::new();
        for header in headers.keys() {
            let Some(key) = known.extra_key(header.as_str()) else { continue };
            let values = headers.get_all(header).iter().filter_map(text);
            extra.push((key, values.collect()));
            taken.push(header.clone());
        }
        for header in taken {
            headers.remove(header);
        }
        for header in known.names.iter().chain(&known.groups) {
            headers.remove(header.as_str());
        }
        name.map(|name| User { name, uid: String::new(), groups, extra })
    }
}

impl ProxyHeaders {
    /// The key of a header with more about the user: what follows its prefix, decoded.
    fn extra_key(&self, header: &str) -> Option<String> {
        let mut prefixes = self.extra_prefixes.iter();
        let key = prefixes.find_map(|prefix| header.strip_prefix(prefix.to_ascii_lowercase().as_str()))?;
        Some(decoded(&key.to_ascii_lowercase()))
    }
}

/// The token of an `Authorization` header.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// `text` with percent-encoding undone; as it is where that gives no text.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = text.get(at + 1..at + 3).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (bytes[at], pair) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::super::review::{Access, AccessVerdict, ReviewError};
    use super::*;

    #[derive(Default)]
    struct Asked(AtomicUsize);

    impl Reviewer for Asked {
        fn review_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let user = User { name: token.to_owned(), ..User::default() };
            let fault = || ReviewError { attempt: "ask".into(), reason: "down".into() };
            let answer = match token {
                "broken" => Err(fault()),
                "bad" => Ok(None),
                _ => Ok(Some(user)),
            };
            async move { answer }.boxed()
        }

        fn review_access<'a>(&'a self, _: Access<'a>) -> BoxFuture<'a, Result<AccessVerdict, ReviewError>> {
            unreachable!("authentication asks about tokens")
        }

        fn config_map<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
        ) -> BoxFuture<'a, Result<Option<BTreeMap<String, String>>, ReviewError>> {
            unreachable!("authentication asks about tokens")
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        pairs.collect()
    }

    fn names() -> Arc<ArcSwap<ProxyHeaders>> {
        let names = ProxyHeaders {
            names: vec!["x-remote-user".into()],
            groups: vec!["x-remote-group".into()],
            extra_prefixes: vec!["X-Remote-Extra-".into()],
        };
        Arc::new(ArcSwap::from_pointee(names))
    }

    const NOBODY: Peer = Peer { certificate: Certificate::None, is_front_proxy: false };

    #[tokio::test(start_paused = true)]
    async fn reviews_of_tokens_are_kept_and_failures_are_not() {
        let reviewer = Arc::new(Asked::default());
        let asking: Arc<dyn Reviewer> = Arc::clone(&reviewer) as _;
        let authenticator = Authenticator::new(names(), Some(asking), Duration::from_secs(10));
        let ask = async |token: &'static str| {
            let mut headers = headers(&[("authorization", token)]);
            authenticator.authenticate(&NOBODY, &mut headers).await.map(|user| user.name).ok()
        };
        for (token, expected, asked) in [
            ("Bearer alice", Some("alice"), 1),
            ("bearer alice", Some("alice"), 1),
            ("Bearer bad", None, 2),
            ("Bearer bad", None, 2),
            ("Bearer broken", None, 3),
            ("Bearer broken", None, 4),
            ("Basic YTpi", Some("system:anonymous"), 4),
        ] {
            assert_eq!(ask(token).await.as_deref(), expected, "{token}");
            assert_eq!(reviewer.0.load(Ordering::Relaxed), asked, "{token}");
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        ask("Bearer alice").await;
        assert_eq!(reviewer.0.load(Ordering::Relaxed), 5, "after its time an answer is asked for again");
    }

    #[tokio::test]
    async fn only_front_proxies_name_users() {
        let authenticator = Authenticator::new(names(), None, Duration::ZERO);
        let proxy = Peer { certificate: Certificate::None, is_front_proxy: true };
        for (peer, expected) in [(&NOBODY, "system:anonymous"), (&proxy, "bob")] {
            let mut sent = headers(&[
                ("x-remote-user", "bob"),
                ("x-remote-group", "g"),
                ("x-remote-extra-a%2fb", "c"),
                ("accept", "text/plain"),
            ]);
            let user = authenticator.authenticate(peer, &mut sent).await.unwrap();
            assert_eq!(user.name, expected);
            assert_eq!(sent.len(), 1, "headers of identity go no further");
            if expected == "bob" {
                assert_eq!(user.groups, ["g", "system:authenticated"]);
                assert_eq!(user.extra, [("a/b".to_owned(), vec!["c".to_owned()])]);
            }
        }
    }

    #[tokio::test]
    async fn a_bad_certificate_is_nobody_and_a_token_without_reviews_is_anonymous() {
        let authenticator = Authenticator::new(names(), None, Duration::ZERO);
        let bad = Peer { certificate: Certificate::Bad, is_front_proxy: false };
        assert!(authenticator.authenticate(&bad, &mut HeaderMap::new()).await.is_err());
        let mut token = headers(&[("authorization", "Bearer x")]);
        assert_eq!(authenticator.authenticate(&NOBODY, &mut token).await.unwrap(), User::anonymous());
    }
}
