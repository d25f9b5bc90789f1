//! The confusion matrix of tokens against an issuer of the test, key fetching, and rules.

use std::future::pending;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::FutureExt;
use futures::future::BoxFuture;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use super::*;
use crate::ambient::SystemAmbient;
use crate::egress::testing::Scripted;
use crate::egress::{Egress, EgressError, Outgoing, Reply, Url};
use orch_rules::expression::Wanted;

const ISSUER: &str = "https://issuer.example/realm";
/// The time of all tests, in seconds.
const NOW: u64 = 1_800_000_000;

/// A key of tests only, which signs nothing else. The library cannot make one.
static RSA: LazyLock<RsaPair> = LazyLock::new(|| RsaPair::from_pkcs8(include_bytes!("rsa.pk8")).unwrap());
static P256: LazyLock<EcdsaKeyPair> = LazyLock::new(|| ec(&ECDSA_P256_SHA256_FIXED_SIGNING));
static P384: LazyLock<EcdsaKeyPair> = LazyLock::new(|| ec(&ECDSA_P384_SHA384_FIXED_SIGNING));
static STRANGER: LazyLock<EcdsaKeyPair> = LazyLock::new(|| ec(&ECDSA_P256_SHA256_FIXED_SIGNING));

fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn ec_jwk(id: &str, curve: &str, pair: &EcdsaKeyPair) -> Value {
    let (x, y) = pair.public_key().as_ref()[1..].split_at(if curve == "P-256" { 32 } else { 48 });
    json!({"kty": "EC", "crv": curve, "kid": id, "use": "sig", "x": encoded(x), "y": encoded(y)})
}

fn rsa_jwk(id: &str, algorithm: Option<&str>) -> Value {
    let public: RsaPublicKeyComponents<Vec<u8>> = RSA.public().into();
    let mut jwk = json!({"kty": "RSA", "kid": id, "n": encoded(public.n), "e": encoded(public.e)});
    if let Some(algorithm) = algorithm {
        jwk["alg"] = json!(algorithm);
    }
    jwk
}

fn key_set() -> Value {
    json!({"keys": [
        rsa_jwk("rsa", None),
        rsa_jwk("pss-only", Some("PS256")),
        ec_jwk("p256", "P-256", &P256),
        ec_jwk("p384", "P-384", &P384),
        {"kty": "oct", "kid": "secret", "k": encoded("secret")},
        {"kty": "RSA", "kid": "for-encryption", "use": "enc", "n": "AQAB", "e": "AQAB"},
    ]})
}

fn discovery() -> Value {
    json!({"issuer": ISSUER, "jwks_uri": "https://issuer.example/keys"})
}

fn answer(document: &Value) -> Result<(u16, String), EgressError> {
    Ok((200, document.to_string()))
}

fn source(server: Arc<Scripted>) -> KeySource {
    let discovery = Url::parse(&format!("{ISSUER}/.well-known/openid-configuration")).unwrap();
    KeySource::new(KeySourceSettings { issuer: ISSUER.to_owned(), discovery, authority: None }, server)
}

fn plain_rules() -> Rules {
    let claim =
        |name: &str, prefix: &str| Mapping::Claim { name: name.to_owned(), prefix: prefix.to_owned() };
    Rules {
        username: claim("sub", "oidc:"),
        groups: Some(claim("groups", "")),
        uid: None,
        extra: Vec::new(),
        claims: Vec::new(),
        users: Vec::new(),
    }
}

fn issuers_with(server: &Arc<Scripted>, rules: Rules) -> Issuers {
    let settings = IssuerSettings { audiences: vec!["orch".to_owned(), "more".to_owned()], rules };
    let issuer = Issuer::new(settings, source(server.clone()));
    Issuers::new(vec![issuer], Arc::new(SystemAmbient))
}

fn issuers() -> Issuers {
    issuers_with(&Arc::new(Scripted::new([answer(&discovery()), answer(&key_set())])), plain_rules())
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "orch", "sub": "ann", "groups": ["devs"], "exp": NOW + 60, "nbf": NOW})
}

/// How a token of a test is signed.
#[derive(Clone, Copy)]
enum By {
    Rsa(&'static dyn RsaEncoding),
    Ec(&'static LazyLock<EcdsaKeyPair>),
    /// HMAC with this text as the key.
    Hmac(&'static str),
    Nobody,
}

fn signed(header: &Value, claims: &Value, by: By) -> String {
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let random = SystemRandom::new();
    let signature = match by {
        By::Rsa(encoding) => {
            let mut signature = vec![0; RSA.public().modulus_len()];
            RSA.sign(encoding, &random, message.as_bytes(), &mut signature).unwrap();
            signature
        }
        By::Ec(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
        By::Hmac(key) => {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
            ring::hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
        }
        By::Nobody => Vec::new(),
    };
    format!("{message}.{}", encoded(signature))
}

fn good() -> String {
    signed(&json!({"alg": "ES256", "kid": "p256"}), &claims(), By::Ec(&P256))
}

/// `NAME GROUPS`, `none` where the token is nobody's of these issuers, or the fault.
fn found(issuers: &Issuers, token: &str, seconds: u64) -> String {
    let found = issuers.find(token.as_bytes(), Timestamp(seconds * 1_000_000));
    match found.now_or_never().expect("the test's server answers at once") {
        Ok(Some(user)) => format!("{} {}", user.name, user.groups.join(" ")),
        Ok(None) => "none".to_owned(),
        Err(fault) => fault.to_string(),
    }
}

const ANN: &str = "oidc:ann devs system:authenticated";
const SIGNATURE: &str = "failed to verify id token signature";
const ALGORITHM: &str = "unsupported algorithm";
const MALFORMED: &str = "malformed jwt";

#[test]
fn headers_and_signatures_are_not_confused() {
    let rsa_as_secret: &'static str =
        Box::leak(key_set()["keys"][0]["n"].as_str().unwrap().to_owned().into());
    for (header, by, expected) in [
        (json!({"alg": "RS256", "kid": "rsa"}), By::Rsa(&RSA_PKCS1_SHA256), ANN),
        (json!({"alg": "RS512", "kid": "rsa"}), By::Rsa(&RSA_PKCS1_SHA512), ANN),
        (json!({"alg": "PS256", "kid": "rsa"}), By::Rsa(&RSA_PSS_SHA256), ANN),
        (json!({"alg": "ES256", "kid": "p256"}), By::Ec(&P256), ANN),
        (json!({"alg": "ES384", "kid": "p384"}), By::Ec(&P384), ANN),
        (json!({"alg": "ES256"}), By::Ec(&P256), ANN),
        (json!({"alg": "PS256", "kid": "pss-only"}), By::Rsa(&RSA_PSS_SHA256), ANN),
        // The key says which algorithm it takes.
        (json!({"alg": "RS256", "kid": "pss-only"}), By::Rsa(&RSA_PKCS1_SHA256), SIGNATURE),
        // The header says another algorithm than the one that signed.
        (json!({"alg": "RS256", "kid": "rsa"}), By::Rsa(&RSA_PSS_SHA256), SIGNATURE),
        (json!({"alg": "RS384", "kid": "rsa"}), By::Rsa(&RSA_PKCS1_SHA256), SIGNATURE),
        // The kind of key does not fit.
        (json!({"alg": "ES256", "kid": "rsa"}), By::Ec(&P256), SIGNATURE),
        (json!({"alg": "RS256", "kid": "p256"}), By::Rsa(&RSA_PKCS1_SHA256), SIGNATURE),
        (json!({"alg": "ES384", "kid": "p256"}), By::Ec(&P256), SIGNATURE),
        // Another key of the issuer, and one of nobody.
        (json!({"alg": "ES256", "kid": "p384"}), By::Ec(&P256), SIGNATURE),
        (json!({"alg": "ES256", "kid": "unknown"}), By::Ec(&P256), SIGNATURE),
        (json!({"alg": "ES256", "kid": "p256"}), By::Ec(&STRANGER), SIGNATURE),
        // A public key or a symmetric one as the secret of an HMAC.
        (json!({"alg": "HS256", "kid": "rsa"}), By::Hmac(rsa_as_secret), ALGORITHM),
        (json!({"alg": "HS256", "kid": "secret"}), By::Hmac("secret"), ALGORITHM),
        (json!({"alg": "RS256", "kid": "secret"}), By::Hmac("secret"), SIGNATURE),
        // No algorithm.
        (json!({"alg": "none"}), By::Nobody, ALGORITHM),
        (json!({"alg": "None", "kid": "p256"}), By::Nobody, ALGORITHM),
        (json!({"alg": "ES256", "kid": "p256"}), By::Nobody, SIGNATURE),
        (json!({"kid": "p256"}), By::Ec(&P256), MALFORMED),
        (json!({"alg": ["ES256"], "kid": "p256"}), By::Ec(&P256), MALFORMED),
        // Headers that are not understood, or bring their own key.
        (json!({"alg": "ES256", "kid": "p256", "crit": ["exp"]}), By::Ec(&P256), MALFORMED),
        (json!({"alg": "ES256", "kid": "p256", "b64": false}), By::Ec(&P256), MALFORMED),
        (json!({"alg": "ES256", "kid": 5}), By::Ec(&P256), MALFORMED),
        (
            json!({"alg": "ES256", "kid": "x", "jwk": ec_jwk("x", "P-256", &STRANGER)}),
            By::Ec(&STRANGER),
            SIGNATURE,
        ),
        (json!({"alg": "ES256", "kid": "x", "jku": "https://evil.example/"}), By::Ec(&STRANGER), SIGNATURE),
        (json!({"alg": "ES256", "kid": "../../p256"}), By::Ec(&P256), SIGNATURE),
    ] {
        let token = signed(&header, &claims(), by);
        let found = found(&issuers(), &token, NOW);
        assert!(found.contains(expected), "{header}: {found}");
    }
}

#[test]
fn claims_are_held_against_the_configuration_and_the_time() {
    let (expired, audience) = ("token is expired", "expected audience");
    for (member, value, expected) in [
        ("iss", json!("https://other.example"), "none"),
        ("iss", json!([ISSUER]), "none"),
        ("iss", Value::Null, "none"),
        ("iss", json!(format!("{ISSUER}/")), "none"),
        ("aud", json!(["x", "more"]), ANN),
        ("aud", json!("other"), audience),
        ("aud", json!([]), audience),
        ("aud", Value::Null, audience),
        ("aud", json!({"orch": true}), audience),
        ("exp", json!(NOW), expired),
        ("exp", json!(NOW + 1), ANN),
        ("exp", json!(0), expired),
        ("exp", json!(-1), expired),
        ("exp", json!(1.9e9), ANN),
        ("exp", json!(1e300), ANN),
        ("exp", json!("2030"), MALFORMED),
        ("exp", Value::Null, MALFORMED),
        ("nbf", json!(NOW + 301), "before the nbf"),
        ("nbf", json!(NOW + 300), ANN),
        ("nbf", json!("soon"), MALFORMED),
        ("sub", json!(""), "oidc:"),
        ("sub", json!(5), "parse username claims"),
        ("sub", Value::Null, "parse username claims"),
        ("groups", json!("one"), "oidc:ann one system:authenticated"),
        ("groups", json!([1]), "parse groups claim"),
    ] {
        let mut claims = claims();
        claims[member] = value.clone();
        let token = signed(&json!({"alg": "ES256", "kid": "p256"}), &claims, By::Ec(&P256));
        let found = found(&issuers(), &token, NOW);
        assert!(found.contains(expected), "{member} {value}: {found}");
    }
    let mut endless = claims();
    endless.as_object_mut().unwrap().remove("exp");
    let token = signed(&json!({"alg": "ES256", "kid": "p256"}), &endless, By::Ec(&P256));
    assert!(found(&issuers(), &token, NOW).contains(expired));
}

#[test]
fn tokens_that_are_not_the_issuers_are_left_to_others() {
    let good = good();
    let (head, _) = good.rsplit_once('.').unwrap();
    for (token, expected) in [
        ("", "none".to_owned()),
        ("abc", "none".to_owned()),
        ("a.b.c", "none".to_owned()),
        (head, "none".to_owned()),
        (&format!("{good}.x"), "none".to_owned()),
        (&format!("{good}="), MALFORMED.to_owned()),
        (&format!("{head}."), SIGNATURE.to_owned()),
        (&format!("{good}{}", "A".repeat(TOKEN_BYTES_MAX)), "none".to_owned()),
    ] {
        let found = found(&issuers(), token, NOW);
        assert!(found.contains(&expected), "{token}: {found}");
    }
    for at in 0..good.len() {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_ne!(found(&issuers(), &changed, NOW), ANN, "byte {at}");
    }
}

#[test]
fn keys_are_fetched_when_a_token_needs_them_and_not_too_often() {
    let old = json!({"keys": [ec_jwk("old", "P-256", &STRANGER)]});
    let server = Arc::new(Scripted::new([answer(&discovery()), answer(&old)]));
    let issuers = issuers_with(&server, plain_rules());
    let token = good();
    assert!(found(&issuers, &token, NOW - 60).contains(SIGNATURE));
    assert_eq!(server.asked(), 2);
    server.answer([answer(&discovery()), answer(&key_set())]);
    for second in 0..10 {
        assert!(found(&issuers, &token, NOW - 60 + second).contains(SIGNATURE));
    }
    assert_eq!(server.asked(), 2, "no token makes this server ask more often");
    assert_eq!(found(&issuers, &token, NOW - 50), ANN);
    assert_eq!(server.asked(), 4);
    assert_eq!(found(&issuers, &token, NOW), ANN, "by the keys that are known");
    assert_eq!(server.asked(), 4);
    assert!(found(&issuers, &token, NOW + 60).contains("expired"), "a remembered token ends, too");
}

#[test]
fn a_clock_that_is_set_back_holds_up_no_new_key_and_keeps_no_old_one() {
    let old = json!({"keys": [ec_jwk("old", "P-256", &STRANGER)]});
    let server = Arc::new(Scripted::new([answer(&discovery()), answer(&old)]));
    let issuers = issuers_with(&server, plain_rules());
    assert!(found(&issuers, &good(), NOW + 3600).contains(SIGNATURE));
    server.answer([answer(&discovery()), answer(&key_set())]);
    assert_eq!(found(&issuers, &good(), NOW), ANN, "a new key");
    assert_eq!(server.asked(), 4);
    server.answer([answer(&discovery()), answer(&old)]);
    let source = source(server.clone());
    source.refresh_if_due(Timestamp((NOW + 3600) * 1_000_000)).now_or_never().unwrap();
    assert_eq!(server.asked(), 6);
    server.answer([answer(&discovery()), answer(&old)]);
    source.refresh_if_due(Timestamp(NOW * 1_000_000)).now_or_never().unwrap();
    assert_eq!(server.asked(), 8, "keys of an unknown age are fetched anew");
}

#[test]
fn a_key_set_of_thousands_gives_few_keys_and_odd_ones_none() {
    let mut keys: Vec<Value> = (0..5000).map(|id| ec_jwk(&id.to_string(), "P-256", &P256)).collect();
    keys.extend([json!(5), json!([]), json!({"kty": 5}), json!({"kty": "RSA", "n": 5, "e": []})]);
    let server = Arc::new(Scripted::new([answer(&discovery()), answer(&json!({"keys": keys}))]));
    let issuers = issuers_with(&server, plain_rules());
    found(&issuers, &good(), NOW);
    assert_eq!(issuers.current()[0].source().current().keys.len(), 64);
}

#[test]
fn claims_that_are_given_twice_or_nest_without_end_are_one_or_none() {
    let token = |payload: &str| {
        let message = format!("{}.{}", encoded(r#"{"alg":"ES256","kid":"p256"}"#), encoded(payload));
        let signature = P256.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", encoded(signature.as_ref()))
    };
    let with = |more: &str| {
        let members = claims().to_string();
        token(&format!("{}{more}}}", members.strip_suffix('}').unwrap()))
    };
    // The last one counts for all checks, as RFC 7519 asks: not one for the issuer and another for the user.
    let last = r#","sub":"bob","iss":"https://other.example""#;
    assert_eq!(found(&issuers(), &with(last), NOW), "none", "the issuer that counts is another one");
    assert!(found(&issuers(), &with(r#","sub":"bob""#), NOW).starts_with("oidc:bob "));
    for more in [
        format!(r#","deep":{}1{}"#, "[".repeat(2000), "]".repeat(2000)),
        r#","exp":1e400"#.to_owned(),
        r#","exp":{"$serde_json::private::Number":"1e9999"}"#.to_owned(),
        r#","exp":"9999999999""#.to_owned(),
        r#","exp":-1"#.to_owned(),
        r#","nbf":1e300"#.to_owned(),
        r#","nbf":[]"#.to_owned(),
        r#","sub":["ann"]"#.to_owned(),
        r#","sub":{"a":"ann"}"#.to_owned(),
        r#","groups":{"a":"system:masters"}"#.to_owned(),
        r#","groups":["devs",["system:masters"]]"#.to_owned(),
        r#","aud":{"orch":true}"#.to_owned(),
        r#","aud":["elsewhere"]"#.to_owned(),
        r#","aud":null"#.to_owned(),
    ] {
        let found = found(&issuers(), &with(&more), NOW);
        assert!(!found.starts_with("oidc:"), "{more}: {found}");
    }
    for (more, expected) in [(r#","exp":1e300"#, ANN), (r#","nbf":-1e300"#, ANN), (r#","nbf":-0.5"#, ANN)] {
        assert_eq!(found(&issuers(), &with(more), NOW), expected, "{more}");
    }
}

/// A server that never answers.
#[derive(Debug, Default)]
struct Silent {
    requests: AtomicUsize,
}

impl Egress for Silent {
    fn send(&self, _request: Outgoing) -> BoxFuture<'_, Result<Reply, EgressError>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        pending().boxed()
    }

    fn pause(&self, _span: Duration) -> BoxFuture<'_, ()> {
        pending().boxed()
    }
}

#[test]
fn a_fetch_that_ends_with_its_request_delays_no_other() {
    let at = |seconds: u64| Timestamp(seconds * 1_000_000);
    let server = Arc::new(Silent::default());
    let discovery = Url::parse(&format!("{ISSUER}/.well-known/openid-configuration")).unwrap();
    let settings = KeySourceSettings { issuer: ISSUER.to_owned(), discovery, authority: None };
    let source = KeySource::new(settings, server.clone());
    let asked = || server.requests.load(Ordering::Relaxed);
    // The request's future is dropped before the answer.
    assert!(source.refresh(None, at(NOW)).now_or_never().is_none());
    assert_eq!(asked(), 1);
    assert!(source.refresh(None, at(NOW)).now_or_never().is_some());
    assert_eq!(asked(), 1, "one client cannot cause a connection with each reset");
    assert!(source.refresh_if_due(at(NOW)).now_or_never().is_none());
    assert_eq!(asked(), 2, "the loop that keeps the keys does not wait");
    assert!(source.refresh(None, at(NOW + 1)).now_or_never().is_none());
    assert_eq!(asked(), 3);
}

#[test]
fn documents_that_are_not_the_issuers_give_no_keys() {
    let other = json!({"issuer": "https://other.example", "jwks_uri": "https://issuer.example/keys"});
    let plain = json!({"issuer": ISSUER, "jwks_uri": "http://issuer.example/keys"});
    let file = json!({"issuer": ISSUER, "jwks_uri": "file:///etc/keys"});
    let uninitialized = "oidc: authenticator not initialized";
    for (first, second) in [
        (answer(&other), answer(&key_set())),
        (answer(&plain), answer(&key_set())),
        (answer(&file), answer(&key_set())),
        (Ok((302, discovery().to_string())), answer(&key_set())),
        (answer(&discovery()), Ok((500, key_set().to_string()))),
        (answer(&discovery()), answer(&json!({"keys": []}))),
        (answer(&discovery()), answer(&json!({"keys": [{"kty": "oct", "k": "AQAB"}]}))),
        (answer(&discovery()), Ok((200, "canary".to_owned()))),
        (Err(EgressError::Timeout { host: "h".to_owned() }), answer(&key_set())),
    ] {
        let server = Arc::new(Scripted::new([first.clone(), second.clone()]));
        let found = found(&issuers_with(&server, plain_rules()), &good(), NOW);
        assert!(found.contains(uninitialized), "{first:?} {second:?}: {found}");
    }
}

#[test]
fn replaced_issuers_keep_the_keys_of_the_same_source_and_others_are_forgotten() {
    let server = Arc::new(Scripted::new([answer(&discovery()), answer(&key_set())]));
    let issuers = issuers_with(&server, plain_rules());
    assert_eq!(found(&issuers, &good(), NOW), ANN);
    let silent = Arc::new(Scripted::new([Ok((500, String::new()))]));
    let again = |audience: &str| {
        let settings = IssuerSettings { audiences: vec![audience.to_owned()], rules: plain_rules() };
        Issuer::new(settings, source(silent.clone()))
    };
    issuers.replace(vec![again("orch")]);
    assert_eq!(found(&issuers, &good(), NOW), ANN);
    issuers.replace(vec![again("elsewhere")]);
    assert!(found(&issuers, &good(), NOW).contains("expected audience"));
    assert_eq!((server.asked(), silent.asked()), (2, 0));
    issuers.replace(Vec::new());
    assert_eq!(found(&issuers, &good(), NOW), "none");
}

fn expression(source: &str) -> Mapping {
    Mapping::Expression(Box::new(compile_claims(source, Wanted::Any).unwrap()))
}

fn condition(source: &str) -> ClaimRule {
    ClaimRule::Condition {
        condition: Box::new(compile_claims(source, Wanted::Bool).unwrap()),
        message: "told".to_owned(),
    }
}

fn found_by(rules: Rules, more: &Value) -> String {
    let mut claims = claims();
    let members = more.as_object().unwrap().clone();
    claims.as_object_mut().unwrap().extend(members);
    let token = signed(&json!({"alg": "ES256", "kid": "p256"}), &claims, By::Ec(&P256));
    let server = Arc::new(Scripted::new([answer(&discovery()), answer(&key_set())]));
    found(&issuers_with(&server, rules), &token, NOW)
}

#[test]
fn rules_make_users_of_claims_or_refuse_them() {
    let by_name = |source: &str| Rules { username: expression(source), groups: None, ..plain_rules() };
    let by_email = || {
        let username = Mapping::Claim { name: "email".to_owned(), prefix: String::new() };
        Rules { username, groups: None, ..plain_rules() }
    };
    let only = |rule: ClaimRule| Rules { claims: vec![rule], groups: None, ..plain_rules() };
    let value = |value: &str| only(ClaimRule::Value { claim: "hd".to_owned(), value: value.to_owned() });
    let user_rule = |source: &str| {
        let rule = UserRule { condition: compile_user(source).unwrap(), message: "told".to_owned() };
        Rules { users: vec![rule], ..plain_rules() }
    };
    for (rules, more, expected) in [
        (by_name("'p:' + claims.sub"), json!({}), "p:ann system:authenticated"),
        (by_name("claims.n"), json!({"n": 5}), "must return a string"),
        (by_name("claims.none"), json!({}), "no such key: none"),
        (by_name("''"), json!({}), "the user name is empty"),
        (by_email(), json!({"email": "a@b"}), "a@b system:authenticated"),
        (by_email(), json!({"email": "a@b", "email_verified": true}), "a@b system:authenticated"),
        (by_email(), json!({"email": "a@b", "email_verified": false}), "oidc: email not verified"),
        (by_email(), json!({"email": "a@b", "email_verified": "true"}), "parse 'email_verified'"),
        (value("x"), json!({"hd": "x"}), "oidc:ann"),
        (value("x"), json!({"hd": "y"}), "required claim hd value does not match"),
        (value("x"), json!({"hd": ["x"]}), "parse claim hd"),
        (value("x"), json!({}), "required claim hd not present in ID token"),
        (only(condition("claims.exp - claims.nbf <= 60")), json!({}), "oidc:ann"),
        (only(condition("claims.exp - claims.nbf < 60")), json!({}), "failed: told"),
        (only(condition("claims.none == 1")), json!({}), "no such key: none"),
        (user_rule("!user.username.startsWith('system:')"), json!({}), ANN),
        (user_rule("user.groups.all(g, g != 'devs')"), json!({}), "failed: told"),
        (user_rule("!has(user.extra.x) && user.uid == ''"), json!({}), ANN),
        (
            Rules { groups: Some(expression("claims.groups.map(g, 'g:' + g)")), ..plain_rules() },
            json!({}),
            "oidc:ann g:devs system:authenticated",
        ),
        (
            Rules { groups: Some(expression("claims.n")), ..plain_rules() },
            json!({"n": 1}),
            "string or a list of strings",
        ),
        (
            Rules {
                extra: vec![("a.b/c".to_owned(), compile_claims("claims.n", Wanted::Any).unwrap())],
                ..plain_rules()
            },
            json!({"n": 1}),
            "string or a list of strings",
        ),
        // A token names a place to ask for more, and nobody asks.
        (
            plain_rules(),
            json!({"_claim_names": {"roles": "s"}, "_claim_sources": {"s": {"endpoint": "https://evil.example/"}}}),
            ANN,
        ),
    ] {
        let found = found_by(rules, &more);
        assert!(found.contains(expected), "{more}: {found}");
    }
}
