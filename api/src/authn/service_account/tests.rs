//! Tokens that are forged, confused, expired or whose objects are gone.

use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use orch_schema::value::Value as Object;
use ring::hmac;
use serde_json::{Value, json};

use super::testing::{ISSUER, accounts, elliptic, rsa, view};
use super::*;
use crate::admission::View;
use crate::ambient::Timestamp;
use crate::exchange::Exchange;

/// The time of the tests, in seconds since 1970.
const NOW: u64 = 1_767_322_145;

fn claims() -> Claims {
    Claims {
        audiences: vec![ISSUER.to_owned()],
        issued_at: NOW,
        expires_at: NOW + 3600,
        id: "00000000-0000-4000-8000-000000000001".to_owned(),
        namespace: "ns".to_owned(),
        account: ObjectRef { name: "robot".to_owned(), uid: "u".to_owned() },
        ..Claims::default()
    }
}

/// `now` in seconds since 1970, for a request of no client.
fn at(applied: &Applied, now: u64) -> Moment<'_> {
    static INTERNAL: LazyLock<Exchange> = LazyLock::new(Exchange::internal);
    Moment { applied, now: Timestamp(now * 1_000_000), remarks: &*INTERNAL }
}

fn object(uid: &str) -> Object {
    orch_schema::json!({"metadata": {"uid": uid}})
}

/// A state with the account of [`claims`] and, where it has a uid, a pod.
fn state(pod: Option<Object>) -> View {
    let account = ("serviceaccounts", "ns", "robot", object("u"));
    let pod = pod.map(|pod| ("pods", "ns", "p", pod));
    view(&[account].into_iter().chain(pod).collect::<Vec<_>>())
}

fn encoded(part: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(part.to_string())
}

/// A token of these parts, each in base64, signed by `signer` whatever the header says.
fn token(header: &str, payload: &str, signer: &dyn Signer) -> String {
    let message = format!("{header}.{payload}");
    let signature = signer.sign(message.as_bytes()).unwrap();
    format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// The parts of a good token of `signer`, parsed.
fn parts(signer: &dyn Signer) -> (Value, Value) {
    let token = claims().sign(ISSUER, "orch.io", signer).unwrap();
    let mut parts = token.split('.').map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap());
    let mut next = || serde_json::from_slice(&parts.next().unwrap()).unwrap();
    (next(), next())
}

fn found(accounts: &ServiceAccounts, token: &str) -> String {
    match accounts.user(token.as_bytes(), at(state(None).applied(), NOW + 1)) {
        Ok(Some(user)) => user.name.clone(),
        Ok(None) => "not ours".to_owned(),
        Err(fault) => fault.to_string(),
    }
}

const ROBOT: &str = "system:serviceaccount:ns:robot";
const MALFORMED: &str = "the token is malformed";
const UNSIGNED: &str = "no key verifies the token";
const FOREIGN: &str = "not ours";

#[test]
fn a_header_chooses_among_the_keys_and_nothing_else() {
    for (own, other) in [(elliptic(), rsa()), (rsa(), elliptic())] {
        let (accounts, (header, payload)) = (accounts(own.clone()), parts(&*own));
        let payload = encoded(&payload);
        let with = |field: &str, value: Value| {
            let mut header = header.clone();
            header[field] = value;
            encoded(&header)
        };
        let without = |field: &str| {
            let mut header = header.clone();
            header.as_object_mut().unwrap().remove(field);
            encoded(&header)
        };
        let wrong_type = if own.key().algorithm() == "RS256" { "ES256" } else { "RS256" };
        let doubled = format!(r#"{{"alg":"none",{}"#, &header.to_string()[1..]);
        for (name, header, expected) in [
            ("as made", encoded(&header), ROBOT),
            ("without a key's id", without("kid"), ROBOT),
            ("an empty id", with("kid", json!("")), ROBOT),
            ("another key's id", with("kid", json!(other.key().id())), UNSIGNED),
            ("an id that is no text", with("kid", json!(7)), MALFORMED),
            ("no algorithm", without("alg"), MALFORMED),
            ("algorithm none", with("alg", json!("none")), UNSIGNED),
            ("another type of key", with("alg", json!(wrong_type)), UNSIGNED),
            ("a longer digest", with("alg", json!("RS512")), UNSIGNED),
            ("a symmetric algorithm", with("alg", json!("HS256")), UNSIGNED),
            ("an extension that must be understood", with("crit", json!(["exp"])), MALFORMED),
            ("an empty list of extensions", with("crit", json!([])), MALFORMED),
            ("a key in the token", with("jwk", json!({"kty": "oct", "k": "AAAA"})), ROBOT),
            ("two algorithms", BASE64_URL_SAFE_NO_PAD.encode(doubled), MALFORMED),
            ("no object", BASE64_URL_SAFE_NO_PAD.encode("[]"), MALFORMED),
            ("nothing", String::new(), MALFORMED),
        ] {
            assert_eq!(found(&accounts, &token(&header, &payload, &*own)), expected, "{name}");
        }
        let forged = token(&encoded(&header), &payload, &*other);
        assert_eq!(found(&accounts, &forged), UNSIGNED, "signed by another key under the own key's id");
    }
}

#[test]
fn the_public_key_is_no_secret() {
    for own in [elliptic(), rsa()] {
        let (_, payload) = parts(&*own);
        let public: Value = serde_json::from_str(&accounts(own.clone()).key_set()).unwrap();
        let number = public["keys"][0].get("n").or(public["keys"][0].get("x")).unwrap().as_str().unwrap();
        let secrets = [
            BASE64_URL_SAFE_NO_PAD.decode(number).unwrap(),
            number.as_bytes().to_vec(),
            own.key().id().as_bytes().to_vec(),
            public.to_string().into_bytes(),
            Vec::new(),
        ];
        for secret in secrets {
            let header = json!({"alg": "HS256", "kid": own.key().id()});
            let message = format!("{}.{}", encoded(&header), encoded(&payload));
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), message.as_bytes());
            let forged = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag));
            assert_eq!(found(&accounts(own.clone()), &forged), UNSIGNED);
        }
    }
}

#[test]
fn claims_are_all_checked() {
    let own = elliptic();
    let (accounts, (header, payload)) = (accounts(own.clone()), parts(&*own));
    let is = |claim: &str| format!("the token's claim {claim} is missing or wrong");
    let audience = format!(r#"token audiences ["shop"] is invalid for the target audiences ["{ISSUER}"]"#);
    let invalidated = "service account token has been invalidated";
    let other = |claimed: &str| format!("service account UID (u) does not match claim ({claimed})");
    for (path, value, expected) in [
        ("/iss", json!("https://elsewhere"), FOREIGN.to_owned()),
        ("/iss", json!([ISSUER]), FOREIGN.to_owned()),
        ("/iss", Value::Null, FOREIGN.to_owned()),
        ("/aud", json!("shop"), audience.clone()),
        ("/aud", json!(["shop"]), audience),
        ("/aud", json!(["shop", ISSUER]), ROBOT.to_owned()),
        ("/aud", json!(ISSUER), ROBOT.to_owned()),
        ("/aud", json!([]), format!("token audiences [] is invalid for the target audiences [\"{ISSUER}\"]")),
        ("/aud", json!([7]), is("aud")),
        ("/aud", Value::Null, is("aud")),
        ("/exp", json!(NOW + 2), ROBOT.to_owned()),
        ("/exp", json!(NOW + 1), "service account token has expired".to_owned()),
        ("/exp", json!(-1), is("exp")),
        ("/exp", json!("9999999999"), is("exp")),
        ("/exp", Value::Null, is("exp")),
        ("/nbf", json!(NOW + 61), ROBOT.to_owned()),
        ("/nbf", json!(NOW + 62), "the token is not valid yet".to_owned()),
        ("/nbf", json!("0"), is("nbf")),
        ("/iat", json!(NOW + 62), "the token is not valid yet".to_owned()),
        ("/iat", Value::Null, is("iat")),
        ("/sub", json!("system:admin"), is("sub")),
        ("/sub", json!("system:serviceaccount:other:robot"), is("sub")),
        ("/orch.io", Value::Null, is("serviceaccount")),
        ("/orch.io/namespace", json!("other"), is("sub")),
        ("/orch.io/serviceaccount", Value::Null, is("name")),
        ("/orch.io/serviceaccount/uid", json!("another"), other("another")),
        ("/orch.io/serviceaccount/uid", json!(""), other("")),
        ("/orch.io/pod", json!({"name": "p", "uid": "u"}), invalidated.to_owned()),
        ("/orch.io/pod", json!({"name": "../serviceaccounts/robot", "uid": "u"}), invalidated.to_owned()),
    ] {
        let mut payload = payload.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        payload.pointer_mut(parent).unwrap()[name] = value.clone();
        let token = token(&encoded(&header), &encoded(&payload), &*own);
        assert_eq!(found(&accounts, &token), expected, "{path} {value}");
    }
}

#[test]
fn only_the_compact_form_is_read() {
    let own = elliptic();
    let (accounts, (header, payload)) = (accounts(own.clone()), parts(&*own));
    let (header, text) = (encoded(&header), payload.to_string());
    let good = token(&header, &encoded(&payload), &*own);
    assert_eq!(found(&accounts, &good), ROBOT);
    let twice = format!(r#"{{"exp":{},{}"#, NOW + 9, &text[1..]);
    let padded = format!("{text}{}", " ".repeat((4 - text.len() % 3) % 3));
    assert_ne!(BASE64_URL_SAFE.encode(&padded), BASE64_URL_SAFE_NO_PAD.encode(&padded));
    let message = good.rsplit_once('.').unwrap().0;
    for (name, token, expected) in [
        ("a claim twice", token(&header, &BASE64_URL_SAFE_NO_PAD.encode(twice), &*own), FOREIGN),
        ("padding", token(&header, &BASE64_URL_SAFE.encode(padded), &*own), FOREIGN),
        ("the other alphabet", token(&header, &BASE64_STANDARD.encode(format!("{text}???")), &*own), FOREIGN),
        ("a fourth part", format!("{good}.x"), MALFORMED),
        ("an empty fourth part", format!("{good}."), MALFORMED),
        ("no signature", format!("{message}."), UNSIGNED),
        ("two parts", message.to_owned(), MALFORMED),
        ("a longer signature", format!("{good}x"), MALFORMED),
        ("another header", format!("x{good}"), MALFORMED),
        ("a line end", format!("{good}\n"), MALFORMED),
        ("garbage", "a.b.c".to_owned(), FOREIGN),
        ("dots", "..".to_owned(), FOREIGN),
        ("nothing", String::new(), FOREIGN),
    ] {
        assert_eq!(found(&accounts, &token), expected, "{name}");
    }
    let mut long = payload.clone();
    long["more"] = json!("x".repeat(8 << 10));
    assert_eq!(found(&accounts, &token(&header, &encoded(&long), &*own)), FOREIGN, "over the bound");
}

#[test]
fn a_holder_is_the_account_and_says_what_its_token_is_bound_to() {
    let accounts = accounts(elliptic());
    let reference = |name: &str, uid: &str| Some(ObjectRef { name: name.to_owned(), uid: uid.to_owned() });
    let bound = Claims { pod: reference("p", "v"), node: reference("n", ""), ..claims() };
    let token = accounts.issue(&bound).unwrap();
    let wanted = ["other".to_owned(), ISSUER.to_owned(), "third".to_owned()];
    let bound_to = state(Some(object("v")));
    let holder =
        |wanted: &[String], now| accounts.holder(token.as_bytes(), wanted, at(bound_to.applied(), now));
    let (user, audiences) = holder(&wanted, NOW).unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), (ROBOT, "u"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    let extra: Vec<_> =
        user.extra.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect();
    assert_eq!(
        extra,
        [
            "authentication.orch.io/credential-id=JTI=00000000-0000-4000-8000-000000000001",
            "authentication.orch.io/node-name=n",
            "authentication.orch.io/pod-name=p",
            "authentication.orch.io/pod-uid=v",
        ]
    );
    assert_eq!(audiences, [ISSUER]);
    // As in the reference, whom a token is for is told before whether it is still good: a known one, an expired one, and
    // one whose pod is gone.
    let told = format!(r#"token audiences ["{ISSUER}"] is invalid for the target audiences ["other"]"#);
    let gone = state(None);
    for (applied, now) in [(&bound_to, NOW), (&bound_to, NOW + 1_000_000), (&gone, NOW)] {
        let found = accounts.holder(token.as_bytes(), &wanted[..1], at(applied.applied(), now));
        assert_eq!(found.unwrap_err().to_string(), told);
    }
}

#[test]
fn a_token_ends_with_the_objects_that_it_is_bound_to_though_it_is_cached() {
    let accounts = accounts(elliptic());
    let pod = Some(ObjectRef { name: "p".to_owned(), uid: "v".to_owned() });
    let token = accounts.issue(&Claims { pod, ..claims() }).unwrap();
    let user = |state: &View, now: u64| accounts.user(token.as_bytes(), at(state.applied(), now));
    let deleted = orch_schema::json!({"metadata": {"uid": "v", "deletionTimestamp": "2026-01-02T02:49:05Z"}});
    // One more object before the pod: it has another revision than there.
    let changed = |pod: Object| {
        let before = ("configmaps", "ns", "m", object("x"));
        view(&[before, ("pods", "ns", "p", pod), ("serviceaccounts", "ns", "robot", object("u"))])
    };
    let (there, ended) = (state(Some(object("v"))), changed(deleted));
    for (gone, expected) in [
        (state(None), "service account token has been invalidated"),
        (changed(object("w")), "pod UID (w) does not match service account pod ref claim (v)"),
        (view(&[("pods", "ns", "p", object("v"))]), "serviceaccounts \"robot\" not found"),
    ] {
        assert!(user(&there, NOW).is_ok());
        assert_eq!(user(&gone, NOW).unwrap_err().to_string(), expected);
    }
    assert!(user(&ended, NOW + 59).is_ok(), "what shuts down may still ask");
    assert_eq!(user(&ended, NOW + 60), Err(TokenError::Invalidated));
}

#[test]
fn a_cached_token_expires() {
    let accounts = accounts(elliptic());
    let token = accounts.issue(&claims()).unwrap();
    let state = state(None);
    let user = |now: u64| accounts.user(token.as_bytes(), at(state.applied(), now));
    let first = user(NOW).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &user(NOW + 3599).unwrap().unwrap()), "it is cached");
    assert_eq!(user(NOW + 3600), Err(TokenError::Expired));
}

#[test]
fn keys_rotate_and_one_that_is_taken_away_ends_its_tokens() {
    let (old, new) = (elliptic(), rsa());
    let accounts = accounts(old.clone());
    let by_old = accounts.issue(&claims()).unwrap();
    assert_eq!(found(&accounts, &by_old), ROBOT);
    accounts.replace_keys(Keys::new(Some(new.clone()), vec![old.key().clone()]));
    let by_new = accounts.issue(&claims()).unwrap();
    assert_eq!([found(&accounts, &by_old), found(&accounts, &by_new)], [ROBOT, ROBOT]);
    let set: Value = serde_json::from_str(&accounts.key_set()).unwrap();
    let ids = [&set["keys"][0]["kid"], &set["keys"][1]["kid"]];
    assert_eq!(ids, [&json!(new.key().id()), &json!(old.key().id())]);
    let document: Value = serde_json::from_str(&accounts.discovery()).unwrap();
    assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256", "RS256"]));
    accounts.replace_keys(Keys::new(Some(new), Vec::new()));
    assert_eq!([found(&accounts, &by_old), found(&accounts, &by_new)], [UNSIGNED, ROBOT]);
    accounts.replace_keys(Keys::new(None, vec![old.key().clone()]));
    assert_eq!(accounts.issue(&claims()), Err(SigningFailed));
    assert_eq!(found(&accounts, &by_old), ROBOT);
}

#[test]
fn the_key_set_holds_public_numbers_alone() {
    let public = |signer: Arc<dyn Signer>| {
        let set: Value = serde_json::from_str(&accounts(signer).key_set()).unwrap();
        let names = set["keys"][0].as_object().unwrap().keys().map(String::as_str);
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(public(elliptic()), "alg crv kid kty use x y");
    assert_eq!(public(rsa()), "alg e kid kty n use");
}
