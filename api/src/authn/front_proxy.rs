//! Front proxies: requests that a trusted proxy makes for its users, whom it names in headers.
//!
//! Owns the names of the headers, the user that they describe, and their removal from everybody else's requests. The
//! listener verifies the proxy's certificate against an authority of its own and compares its common name with the
//! allowed ones ([`Peer::is_front_proxy`]).
//!
//!     X-Remote-User            name; the first of the configured headers that has a value counts
//!     X-Remote-Uid             uid, likewise
//!     X-Remote-Group           one group a value; all values of all configured headers count
//!     X-Remote-Extra-KEY       one value of KEY, which is percent-decoded
//!
//! Invariant: the user belongs to the request, never to the connection: one HTTP/2 connection of a proxy carries requests of
//! many users.
//! Invariant: behind [`FrontProxy::strip`] a header of identity comes from an allowed proxy and is spelled as configured. A
//! name with underscores for hyphens is removed from proxies, too: servers that turn header names into variables cannot
//! tell the two apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use super::impersonate::{self, extra_key};
use super::peer::Peer;
use super::unauthenticated::Unauthenticated;
use super::user::User;

/// Names of headers that carry an identity whatever is configured: those that the reference suggests. They are removed
/// from requests where no flag names them.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];

/// The prefix of headers of further attributes that the reference suggests.
const STANDARD_EXTRA: &str = "x-remote-extra-";

/// Names of the headers in which front proxies describe the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityHeaders {
    /// Headers of the user's name, in the order in which they are looked at.
    pub usernames: Vec<HeaderName>,
    /// Headers of the uid, likewise.
    pub uids: Vec<HeaderName>,
    /// Headers of groups.
    pub groups: Vec<HeaderName>,
    /// Prefixes of headers of further attributes, in lower case.
    pub extra_prefixes: Vec<String>,
}

/// Authenticates the users of front proxies. Without configured headers it finds nobody, and still strips.
#[derive(Clone, Debug, Default)]
pub struct FrontProxy {
    headers: IdentityHeaders,
}

impl FrontProxy {
    /// Front proxies that describe users in `headers`.
    pub fn new(headers: IdentityHeaders) -> FrontProxy {
        FrontProxy { headers }
    }

    /// Removes the headers of identity that `peer` may not send: all of them, or for an allowed front proxy all that are
    /// not spelled as configured. Also removes impersonation headers spelled with underscores, which nothing here
    /// understands.
    pub fn strip(&self, peer: Option<&Peer>, headers: &mut HeaderMap) {
        let is_proxy = peer.is_some_and(|peer| peer.is_front_proxy);
        let is_foreign = |name: &&HeaderName| {
            let is_kept = is_proxy && self.is_configured(name);
            !is_kept && (self.is_identity(name.as_str()) || is_disguised_impersonation(name.as_str()))
        };
        let foreign: Vec<HeaderName> = headers.keys().filter(is_foreign).cloned().collect();
        for name in foreign {
            headers.remove(&name);
        }
    }

    /// Whether `name` is a configured header, spelled as configured.
    pub(super) fn is_configured(&self, name: &HeaderName) -> bool {
        let IdentityHeaders { usernames, uids, groups, extra_prefixes } = &self.headers;
        // few: the headers that flags name.
        let is_named = [usernames, uids, groups].into_iter().any(|names| names.contains(name));
        // few: the prefixes that flags name.
        is_named || extra_prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))
    }

    /// Whether `name` is a standard or a configured header in any spelling.
    fn is_identity(&self, name: &str) -> bool {
        let IdentityHeaders { usernames, uids, groups, extra_prefixes } = &self.headers;
        let configured = usernames.iter().chain(uids).chain(groups).map(HeaderName::as_str);
        let prefixes = extra_prefixes.iter().map(String::as_str);
        // few: the headers that flags name, and four.
        STANDARD.into_iter().chain(configured).any(|known| known.len() == name.len() && begins(name, known))
            // few: the prefixes that flags name, and one.
            || prefixes.chain([STANDARD_EXTRA]).any(|prefix| begins(name, prefix))
    }

    /// The user of a request of an allowed front proxy; `None` of others, and where the headers name no user.
    pub(super) fn user(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<User>>, Unauthenticated> {
        if peer.is_front_proxy { self.described(headers) } else { Ok(None) }
    }

    fn described(&self, headers: &HeaderMap) -> Result<Option<Arc<User>>, Unauthenticated> {
        let Some(name) = first_value(headers, &self.headers.usernames)? else { return Ok(None) };
        let name = name.to_owned();
        let uid = first_value(headers, &self.headers.uids)?.unwrap_or_default().to_owned();
        let mut groups = Vec::new();
        for header in &self.headers.groups {
            for value in headers.get_all(header).iter().filter(|value| !value.is_empty()) {
                groups.push(text(value)?.to_owned());
            }
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // As in the reference, values of several prefixes with one key are in the order of the prefixes.
        for prefix in &self.headers.extra_prefixes {
            for (header, value) in headers {
                let Some(key) = header.as_str().strip_prefix(prefix.as_str()) else { continue };
                extra.entry(extra_key(key)).or_default().push(text(value)?.to_owned());
            }
        }
        Ok(Some(Arc::new(User { name, uid, groups, extra }.authenticated())))
    }
}

/// The first value of the first of `names` that has one. As in the reference, an empty value counts as none.
fn first_value<'a>(headers: &'a HeaderMap, names: &[HeaderName]) -> Result<Option<&'a str>, Unauthenticated> {
    let found = names.iter().find_map(|name| headers.get(name).filter(|value| !value.is_empty()));
    found.map(text).transpose()
}

fn text(value: &HeaderValue) -> Result<&str, Unauthenticated> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| Unauthenticated::MalformedIdentity)
}

/// Whether `name` begins with `prefix` when underscores count as hyphens.
fn begins(name: &str, prefix: &str) -> bool {
    let hyphen = |byte: u8| if byte == b'_' { b'-' } else { byte };
    let mut bytes = name.bytes().map(hyphen);
    prefix.bytes().map(hyphen).all(|byte| bytes.next() == Some(byte))
}

fn is_disguised_impersonation(name: &str) -> bool {
    begins(name, impersonate::PREFIX) && !name.starts_with(impersonate::PREFIX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use orch_proto::brand::ORCH;

    use super::super::{
        AnonymousAccess, Authenticator, CertificateError, ClientCertificate, Moment, TokenTable,
    };
    use super::*;
    use crate::ambient::Timestamp;
    use crate::follow::Applied;

    fn names(names: &[&str]) -> Vec<HeaderName> {
        names.iter().map(|name| HeaderName::from_bytes(name.as_bytes()).unwrap()).collect()
    }

    fn proxy() -> FrontProxy {
        FrontProxy::new(IdentityHeaders {
            usernames: names(&["X-Remote-User", "X-Forwarded-User"]),
            uids: names(&["X-Remote-Uid"]),
            groups: names(&["X-Remote-Group", "X-Roles"]),
            extra_prefixes: vec!["x-remote-extra-".to_owned(), "x-more-".to_owned()],
        })
    }

    fn map(headers: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        map
    }

    /// A connection: of an allowed proxy or not, with the client certificate of `common_name`, of another authority, or
    /// none.
    fn peer(is_front_proxy: bool, certificate: Option<Result<&str, ()>>) -> Peer {
        let certificate = certificate.map(|common_name| match common_name {
            Ok(name) => Ok(ClientCertificate::new(name.to_owned(), Vec::new(), None, "ab01".to_owned())),
            Err(()) => Err(CertificateError("of another authority".to_owned())),
        });
        Peer { address: ([127, 0, 0, 1], 4000).into(), certificate, local_admin: false, is_front_proxy }
    }

    /// The user of a request as it passes the gate: stripped, then authenticated.
    fn user(proxy: FrontProxy, peer: &Peer, headers: &[(&str, &str)]) -> Result<Arc<User>, Unauthenticated> {
        let tokens = TokenTable::parse(b"alicetoken,alice,alice-uid,devs\n").unwrap();
        let authenticator = Authenticator::new(&ORCH, tokens, AnonymousAccess::Refused).behind(proxy);
        let mut headers = map(headers);
        authenticator.strip(Some(peer), &mut headers);
        let applied = Applied::certain(orch_raft::State::default().into());
        let exchange = crate::exchange::Exchange::internal();
        let at = Moment { applied: &applied, now: Timestamp::default(), remarks: &exchange };
        let found = authenticator.authenticate(peer, &headers, at).now_or_never();
        found.expect("no other server is asked")
    }

    #[test]
    fn a_proxy_names_its_users_with_uid_groups_and_extra() {
        let headers = [
            ("X-Remote-User", ""),
            ("x-forwarded-user", "ann"),
            ("X-REMOTE-UID", "u1"),
            ("X-Roles", "third"),
            ("X-Remote-Group", "first"),
            ("x-remote-group", "second"),
            ("x-remote-group", ""),
            ("X-More-Scopes", "b"),
            ("X-Remote-Extra-Scopes", "a"),
            ("X-Remote-Extra-Example.com%2FTeam", "red"),
            ("X-Remote-Extra-bad%zz", "kept as it is"),
        ];
        let found = user(proxy(), &peer(true, Some(Err(()))), &headers).unwrap();
        assert_eq!((found.name.as_str(), found.uid.as_str()), ("ann", "u1"));
        assert_eq!(found.groups, ["first", "second", "third", "system:authenticated"]);
        let extra: Vec<String> =
            found.extra.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect();
        assert_eq!(extra, ["bad%zz=kept as it is", "example.com/team=red", "scopes=a,b"]);
    }

    #[test]
    fn identity_headers_count_from_allowed_proxies_alone() {
        let remote = [("x-remote-user", "ann"), ("x-remote-group", "system:masters")];
        let bearer = ("authorization", "Bearer alicetoken");
        let with_token = [remote[0], remote[1], bearer];
        let other = Some(Err(()));
        for (is_proxy, certificate, headers, expected) in [
            (true, other, &remote[..], "ann"),
            (true, Some(Ok("front")), &remote, "ann"),
            (true, Some(Ok("front")), &[], "front"),
            (true, other, &[], "client certificate: of another authority"),
            (true, other, &[bearer], "alice"),
            (true, other, &with_token, "ann"),
            (false, other, &remote, "client certificate: of another authority"),
            (false, Some(Ok("front")), &remote, "front"),
            (false, None, &remote, "no credentials"),
            (false, None, &with_token, "alice"),
        ] {
            let found = user(proxy(), &peer(is_proxy, certificate), headers);
            let found = found.map_or_else(|error| error.to_string(), |user| user.name.clone());
            assert_eq!(found, expected, "proxy: {is_proxy}, certificate: {certificate:?}, {headers:?}");
        }
        let found = user(FrontProxy::default(), &peer(true, other), &remote);
        assert!(found.is_err(), "no header is configured");
        let found = user(proxy(), &peer(true, other), &[("x-remote-user", "\u{e4}"), ("x-remote-uid", "1")]);
        assert_eq!(found.unwrap().name, "\u{e4}");
    }

    #[test]
    fn an_identity_that_is_not_utf8_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert("x-remote-user", HeaderValue::from_bytes(b"ann\xff").unwrap());
        let peer = peer(true, Some(Ok("front")));
        assert_eq!(proxy().user(&peer, &headers), Err(Unauthenticated::MalformedIdentity));
    }

    #[test]
    fn headers_of_identity_are_removed_in_every_spelling() {
        let left = |is_proxy: bool, proxy: &FrontProxy, headers: &[(&str, &str)]| {
            let mut headers = map(headers);
            proxy.strip(Some(&peer(is_proxy, None)), &mut headers);
            let mut left: Vec<String> = headers.keys().map(ToString::to_string).collect();
            left.sort();
            left
        };
        let sent = [
            ("X-Remote-User", "a"),
            ("x-remote-user", "twice"),
            ("X_Remote_User", "a"),
            ("x-remote_uid", "a"),
            ("X-Remote-Group", "a"),
            ("X-Remote-Extra-Scopes", "a"),
            ("x_remote_extra_scopes", "a"),
            ("x-forwarded-user", "a"),
            ("X-More-Scopes", "a"),
            ("Impersonate_User", "a"),
            ("Impersonate-Group", "a"),
            ("x-remote-username", "of another program"),
            ("accept", "*/*"),
        ];
        let others = ["accept", "impersonate-group", "x-remote-username"];
        assert_eq!(left(false, &proxy(), &sent), others);
        let unconfigured =
            ["accept", "impersonate-group", "x-forwarded-user", "x-more-scopes", "x-remote-username"];
        assert_eq!(left(false, &FrontProxy::default(), &sent), unconfigured);
        assert_eq!(left(true, &FrontProxy::default(), &sent), unconfigured);
        let kept = [
            "accept",
            "impersonate-group",
            "x-forwarded-user",
            "x-more-scopes",
            "x-remote-extra-scopes",
            "x-remote-group",
            "x-remote-user",
            "x-remote-username",
        ];
        assert_eq!(left(true, &proxy(), &sent), kept);
    }
}
