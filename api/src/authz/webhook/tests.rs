//! Decisions of a webhook, what it is asked, and what is remembered.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use orch_raft::State;

use super::*;
use crate::egress::testing::Scripted;
use crate::egress::{EgressError, ReviewKind, Url};

/// A clock that a test sets.
#[derive(Default)]
struct Clock(AtomicU64);

impl Ambient for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed) * 1_000_000)
    }

    fn random(&self) -> u128 {
        7
    }
}

struct Asked {
    server: Arc<Scripted>,
    clock: Arc<Clock>,
    webhook: Webhook,
}

fn settings() -> Settings {
    Settings {
        name: "test".to_owned(),
        authorized_span: Duration::from_secs(300),
        unauthorized_span: Duration::from_secs(30),
        version: ReviewVersion::V1,
        on_failure: OnFailure::NoOpinion,
        conditions: Conditions::default(),
    }
}

fn asked(settings: Settings, answer: Result<(u16, String), EgressError>) -> Asked {
    let (server, clock) = (Arc::new(Scripted::new([answer])), Arc::new(Clock::default()));
    let api_version = format!("authorization.orch.io/{}", settings.version.name());
    let kind = ReviewKind { kind: "SubjectAccessReview", api_version };
    let url = Url::parse("https://hook.example/x").unwrap();
    let hook = ReviewHook::new(server.clone(), clock.clone(), url, kind, Duration::from_secs(10));
    let webhook = Webhook::new(settings, hook, clock.clone());
    Asked { server, clock, webhook }
}

fn review(status: &Value) -> Result<(u16, String), EgressError> {
    Ok((200, json!({"kind": "SubjectAccessReview", "status": status}).to_string()))
}

fn ann() -> User {
    User { name: "ann".to_owned(), groups: vec!["devs".to_owned()], ..User::default() }
}

fn decide(webhook: &Webhook, attributes: Attributes<'_>) -> String {
    let applied = Applied::certain(State::default().into());
    let decision = webhook.decide(&ann(), attributes, &applied).now_or_never();
    match decision.expect("the test's server answers at once") {
        Decision::Allow(reason) => format!("allow {reason}"),
        Decision::Deny(reason) => format!("deny {reason}"),
        Decision::NoOpinion(reason) => format!("none {reason}"),
        Decision::Failed { then, reason, error } => format!("{then:?} {reason} {error}"),
    }
}

fn path(path: &str) -> Attributes<'_> {
    Attributes::Path { verb: "get", path }
}

#[test]
fn answers_are_decisions() {
    let lost = "the authorization webhook gives no answer";
    for (answer, expected) in [
        (review(&json!({"allowed": true, "reason": "r"})), "allow r".to_owned()),
        (review(&json!({"allowed": false, "reason": "r"})), "none r".to_owned()),
        (review(&json!({"allowed": false, "denied": true, "reason": "r"})), "deny r".to_owned()),
        (
            review(&json!({"allowed": true, "denied": true, "reason": "r"})),
            "Deny r webhook subject access review returned both allow and deny response".to_owned(),
        ),
        (review(&json!({})), "none ".to_owned()),
        (review(&json!({"allowed": true, "denied": null, "reason": null})), "allow ".to_owned()),
        (review(&json!({"allowed": "true"})), format!("NoOpinion  {lost}")),
        (review(&json!({"allowed": true, "denied": "true"})), format!("NoOpinion  {lost}")),
        (review(&json!({"allowed": true, "denied": 1})), format!("NoOpinion  {lost}")),
        (review(&json!({"allowed": true, "reason": ["r"]})), format!("NoOpinion  {lost}")),
        (
            Ok((200, r#"{"status": {"allowed": true}, "status": {"denied": true}}"#.to_owned())),
            format!("NoOpinion  {lost}"),
        ),
        (Ok((200, "canary".to_owned())), format!("NoOpinion  {lost}")),
        (Ok((302, "canary".to_owned())), format!("NoOpinion  {lost}")),
        (Err(EgressError::Timeout { host: "h".to_owned() }), format!("NoOpinion  {lost}")),
    ] {
        assert_eq!(decide(&asked(settings(), answer.clone()).webhook, path("/x")), expected, "{answer:?}");
    }
    let strict = Settings { on_failure: OnFailure::Deny, ..settings() };
    let found = decide(&asked(strict, Ok((403, String::new()))).webhook, path("/x"));
    assert_eq!(found, format!("Deny  {lost}"));
}

#[test]
fn the_question_is_that_of_the_request() {
    let resource = ResourceAttributes {
        verb: "list",
        group: "apps",
        version: "v1",
        resource: "deployments",
        namespace: "n",
        field_selector: "metadata.name=a,status.x!=b",
        label_selector: "a in (x,y),!c,d>5",
        ..ResourceAttributes::default()
    };
    let attributes = json!({
        "verb": "list", "group": "apps", "version": "v1", "resource": "deployments", "namespace": "n",
        "fieldSelector": {"requirements": [
            {"key": "metadata.name", "operator": "In", "values": ["a"]},
            {"key": "status.x", "operator": "NotIn", "values": ["b"]},
        ]},
        "labelSelector": {"requirements": [
            {"key": "a", "operator": "In", "values": ["x", "y"]},
            {"key": "c", "operator": "DoesNotExist"},
        ]},
    });
    for (version, groups, of) in
        [(ReviewVersion::V1, "groups", "v1"), (ReviewVersion::V1Beta1, "group", "v1beta1")]
    {
        let asked = asked(Settings { version, ..settings() }, review(&json!({"allowed": true})));
        decide(&asked.webhook, Attributes::Resource(resource));
        let (_, document) = asked.server.last();
        assert_eq!(document["apiVersion"], json!(format!("authorization.orch.io/{of}")));
        let expected = json!({"resourceAttributes": attributes, "user": "ann", groups: ["devs"]});
        assert_eq!(document["spec"], expected);
    }
    let asked = asked(settings(), review(&json!({})));
    decide(&asked.webhook, path("/x"));
    let spec = &asked.server.last().1["spec"];
    assert_eq!(spec["nonResourceAttributes"], json!({"path": "/x", "verb": "get"}));
}

#[test]
fn answers_are_remembered_for_their_time() {
    for (status, span) in [(json!({"allowed": true}), 300), (json!({"allowed": false}), 30)] {
        let asked = asked(settings(), review(&status));
        for (at, requests) in [(0, 1), (span - 1, 1), (span, 2)] {
            asked.clock.0.store(at, Ordering::Relaxed);
            decide(&asked.webhook, path("/x"));
            assert_eq!(asked.server.asked(), requests, "{status} at {at}");
        }
        decide(&asked.webhook, path("/y"));
        assert_eq!(asked.server.asked(), 3, "another question");
        let long = format!("/{}", "x".repeat(REMEMBERED_BYTES_MAX));
        for requests in [4, 5] {
            decide(&asked.webhook, path(&long));
            assert_eq!(asked.server.asked(), requests, "long questions are asked each time");
        }
    }
    let failing = asked(settings(), Ok((403, String::new())));
    for requests in [1, 2] {
        decide(&failing.webhook, path("/x"));
        assert_eq!(failing.server.asked(), requests, "failures are not remembered");
    }
}

#[test]
fn conditions_keep_questions_back() {
    let only = |source: &str| Settings {
        conditions: Conditions::new(vec![Conditions::compile(source).unwrap()]),
        on_failure: OnFailure::Deny,
        ..settings()
    };
    for (source, expected, requests) in [
        ("request.user == 'ann'", "allow ", 1),
        ("request.user != 'ann'", "none ", 0),
        ("request.resourceAttributes.verb == 'get'", "Deny  no such key: resourceAttributes", 0),
    ] {
        let asked = asked(only(source), review(&json!({"allowed": true})));
        assert_eq!(decide(&asked.webhook, path("/x")), expected, "{source}");
        assert_eq!(asked.server.asked(), requests, "{source}");
    }
}

#[test]
fn no_request_grows_out_of_the_conditions() {
    // A condition over a selector costs too much where the selector is long enough.
    let over_selector = "request.resourceAttributes.labelSelector.requirements.exists(a, \
        request.resourceAttributes.labelSelector.requirements.exists(r, r.key.matches('^never-[a-z]+$')))";
    let selector = |keys: u32| (0..keys).map(|number| format!("key-{number}")).collect::<Vec<_>>().join(",");
    for (keys, sources, requests) in [
        (3, vec![over_selector], 0),
        (4000, vec![over_selector], 1),
        (4000, vec![over_selector, "request.user != 'ann'"], 0),
    ] {
        let selector = selector(keys);
        let resource = ResourceAttributes {
            verb: "list",
            version: "v1",
            resource: "secrets",
            label_selector: &selector,
            ..ResourceAttributes::default()
        };
        let compiled = sources.iter().map(|source| Conditions::compile(source).unwrap()).collect();
        let conditions = Conditions::new(compiled);
        let asked = asked(Settings { conditions, ..settings() }, review(&json!({"denied": true})));
        let decided = decide(&asked.webhook, Attributes::Resource(resource));
        assert_eq!(asked.server.asked(), requests, "{keys} {sources:?}: {decided}");
        assert_eq!(decided, if requests == 1 { "deny " } else { "none " });
    }
}

#[test]
fn rights_that_a_webhook_decides_on_cannot_be_listed() {
    let asked = asked(settings(), review(&json!({})));
    let applied = Applied::certain(State::default().into());
    let ann = ann();
    let rules = asked.webhook.rules_of(&ann, "n", &applied).now_or_never().unwrap();
    assert!(rules.is_incomplete);
    assert_eq!(rules.faults, ["webhook authorizer does not support user rule resolution"]);
}
