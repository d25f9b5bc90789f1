//! Tables of credentials and the users they identify.

use futures::FutureExt;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use orch_proto::brand::{KUBERNETES, ORCH};

use super::*;
use crate::ambient::Timestamp;
use crate::exchange::Exchange;
use crate::follow::Applied;

const FILE: &str =
    "admintoken,admin,admin-uid,system:masters\nalicetoken,alice,alice-uid,\"devs,ops\"\nbare,bob,\n";

fn peer(certificate: Option<Result<ClientCertificate, CertificateError>>, local_admin: bool) -> Peer {
    Peer { address: ([127, 0, 0, 1], 4000).into(), certificate, local_admin, is_front_proxy: false }
}

fn certificate(
    common_name: &str,
    organizations: &[&str],
) -> Option<Result<ClientCertificate, CertificateError>> {
    let organizations = organizations.iter().map(|&o| o.to_owned()).collect();
    Some(Ok(ClientCertificate::new(common_name.to_owned(), organizations, None, "ab01".to_owned())))
}

/// No object at all.
fn empty() -> Applied {
    Applied::certain(orch_raft::State::default().into())
}

fn moment(applied: &Applied) -> Moment<'_> {
    static INTERNAL: std::sync::LazyLock<Exchange> = std::sync::LazyLock::new(Exchange::internal);
    Moment { applied, now: Timestamp::default(), remarks: &*INTERNAL }
}

/// The user that the methods of this node find without asking another server.
fn authenticate(
    authenticator: &Authenticator,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<std::sync::Arc<User>, Unauthenticated> {
    let applied = empty();
    let found = authenticator.authenticate(peer, headers, moment(&applied)).now_or_never();
    found.expect("no other server is asked")
}

fn bad_certificate() -> Option<Result<ClientCertificate, CertificateError>> {
    Some(Err(CertificateError("expired".to_owned())))
}

/// `name groups` of the user, or the error's text.
fn check(peer: Peer, authorization: &str, anonymous: AnonymousAccess, expected: &str) {
    let tokens = TokenTable::parse(FILE.as_bytes()).unwrap();
    let mut headers = HeaderMap::new();
    if !authorization.is_empty() {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
    }
    let authenticator = Authenticator::new(&ORCH, tokens, anonymous);
    let found = match authenticate(&authenticator, &peer, &headers) {
        Ok(user) => format!("{} {}", user.name, user.groups.join(" ")),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "authorization {authorization:?}, peer {peer:?}");
}

#[test]
fn tokens_name_their_users() {
    use AnonymousAccess::{Allowed, Refused};
    for (header, access, expected) in [
        ("Bearer admintoken", Refused, "admin system:masters system:authenticated"),
        ("bearer alicetoken", Refused, "alice devs ops system:authenticated"),
        ("Bearer bare", Refused, "bob system:authenticated"),
        ("  Bearer alicetoken  ", Refused, "alice devs ops system:authenticated"),
        ("Bearer alicetoken trailing", Refused, "alice devs ops system:authenticated"),
        ("Bearer wrong", Refused, "invalid bearer token"),
        ("Bearer wrong", Allowed, "invalid bearer token"),
        ("Bearer ALICETOKEN", Refused, "invalid bearer token"),
        ("", Refused, "no credentials"),
        ("", Allowed, "system:anonymous system:unauthenticated"),
        ("Basic YTpi", Refused, "no credentials"),
        ("Basic YTpi", Allowed, "system:anonymous system:unauthenticated"),
        ("Bearer", Refused, "no credentials"),
        ("Bearer  alicetoken", Refused, "no credentials"),
    ] {
        check(peer(None, false), header, access, expected);
    }
}

#[test]
fn certificates_come_before_tokens_and_bad_ones_are_never_anonymous() {
    use AnonymousAccess::{Allowed, Refused};
    for (presented, header, access, expected) in [
        (
            certificate("system:admin", &["system:masters"]),
            "",
            Refused,
            "system:admin system:masters system:authenticated",
        ),
        (certificate("carol", &[]), "Bearer alicetoken", Refused, "carol system:authenticated"),
        (certificate("carol", &[]), "Bearer wrong", Refused, "carol system:authenticated"),
        (certificate("", &["devs"]), "", Refused, "no credentials"),
        (certificate("", &["devs"]), "Bearer alicetoken", Refused, "alice devs ops system:authenticated"),
        (bad_certificate(), "", Refused, "client certificate: expired"),
        (bad_certificate(), "", Allowed, "client certificate: expired"),
        (bad_certificate(), "Bearer alicetoken", Refused, "alice devs ops system:authenticated"),
    ] {
        check(peer(presented, false), header, access, expected);
    }
}

#[test]
fn the_local_port_is_the_administrator_unless_a_credential_says_otherwise() {
    use AnonymousAccess::{Allowed, Refused};
    check(peer(None, true), "", Refused, "system:admin system:masters system:authenticated");
    check(peer(None, true), "", Allowed, "system:admin system:masters system:authenticated");
    check(peer(None, true), "Bearer alicetoken", Refused, "alice devs ops system:authenticated");
    check(peer(None, true), "Bearer wrong", Refused, "invalid bearer token");
}

#[test]
fn a_certificate_becomes_the_credential_id_under_the_brands_key() {
    for (brand, key) in [
        (&ORCH, "authentication.orch.io/credential-id"),
        (&KUBERNETES, "authentication.kubernetes.io/credential-id"),
    ] {
        let authenticator = Authenticator::new(brand, TokenTable::default(), AnonymousAccess::Refused);
        let user =
            authenticate(&authenticator, &peer(certificate("carol", &[]), false), &HeaderMap::new()).unwrap();
        assert_eq!(user.extra.get(key), Some(&vec!["X509SHA256=ab01".to_owned()]));
    }
}

#[test]
fn a_connection_has_its_user_built_once() {
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let peer = peer(certificate("carol", &["devs"]), false);
    let first = authenticate(&authenticator, &peer, &HeaderMap::new()).unwrap();
    let second = authenticate(&authenticator, &peer, &HeaderMap::new()).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &second));
}

#[test]
fn token_files_parse_as_comma_separated_values() {
    for (text, token, expected) in [
        ("t,u,i", "t", Some("u/i/system:authenticated")),
        ("t,u,i\r\n", "t", Some("u/i/system:authenticated")),
        ("\n\nt,u,i,g\n\n", "t", Some("u/i/g system:authenticated")),
        ("t,u,,\"a,b\"", "t", Some("u//a b system:authenticated")),
        ("\"t,1\",\"u \"\"x\"\"\",i", "t,1", Some("u \"x\"/i/system:authenticated")),
        ("t,u,i,g,ignored", "t", Some("u/i/g system:authenticated")),
        ("t,one,1\nt,two,2\n", "t", Some("two/2/system:authenticated")),
        ("\"a\nb\",u,i\nt,v,i", "t", Some("v/i/system:authenticated")),
        (",u,i\nt,v,i", "t", Some("v/i/system:authenticated")),
        (",u,i", "", None),
        ("t,u,i", "T", None),
        ("t,u,i,system:authenticated", "t", Some("u/i/system:authenticated")),
    ] {
        let table = TokenTable::parse(text.as_bytes()).unwrap();
        let found =
            table.holder(token.as_bytes()).map(|u| format!("{}/{}/{}", u.name, u.uid, u.groups.join(" ")));
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }
}

#[test]
fn token_file_errors_name_the_line_and_never_the_token() {
    for (text, expected) in [
        (&b"secret,u"[..], "line 1: at least 3 columns are needed (token, user name, user uid), found 2"),
        (b"t,u,i\nsecret\n", "line 2: at least 3 columns are needed (token, user name, user uid), found 1"),
        (
            b"\"a\nb\",u,i\nsecret,u\n",
            "line 3: at least 3 columns are needed (token, user name, user uid), found 2",
        ),
        (b"t,u,i\n\nsecret,,i\n", "line 3: the user name is empty"),
        (b"t,u,i\n\"secret,u,i\n", "line 2: a quoted field that starts here does not end"),
        (b"secret\xff,u,i\n", "line 1: not valid UTF-8"),
    ] {
        let error = TokenTable::parse(text).unwrap_err().to_string();
        assert_eq!(error, expected);
        assert!(!error.contains("secret"));
    }
}

#[test]
fn doubtful_lines_are_reported_without_their_tokens() {
    let table = TokenTable::parse(b"secret,u,i\n,v,i\nsecret,w,i\n").unwrap();
    assert_eq!(
        table.warnings(),
        [
            "line 2: the token is empty, the line is skipped",
            "line 3: the token stands on an earlier line too, this line counts"
        ]
    );
    assert_eq!(table.len(), 1);
    assert_eq!(format!("{table:?}"), "TokenTable { tokens: 1 }");
}

#[test]
fn the_anonymous_user_is_kept_to_its_paths() {
    let authenticator = || Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let paths = ["/livez".to_owned()];
    for (authenticator, path, expected) in [
        (authenticator(), "/livez", None),
        (authenticator().with_anonymous(None), "/api", Some(true)),
        (authenticator().with_anonymous(Some(&paths)), "/livez", Some(true)),
        (authenticator().with_anonymous(Some(&paths)), "/livez/", Some(false)),
        (authenticator().with_anonymous(Some(&paths)), "/api", Some(false)),
        (authenticator().with_anonymous(Some(&[])), "/livez", Some(false)),
    ] {
        let found = authenticate(&authenticator, &peer(None, false), &HeaderMap::new()).ok();
        let admitted = found.map(|user| authenticator.admits_at(&user, path));
        assert_eq!(admitted, expected, "{path}");
    }
    let restricted = authenticator().with_anonymous(Some(&paths));
    let known =
        authenticate(&restricted, &peer(certificate("carol", &[]), false), &HeaderMap::new()).unwrap();
    assert!(restricted.admits_at(&known, "/api"), "others go everywhere");
}
