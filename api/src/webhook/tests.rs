//! Configurations, services and texts of calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_schema::json;
use orch_schema::value::Value;

use super::testing::{Answer, Answering};
use super::*;
use crate::admission::testing::Objects;
use crate::ambient::SystemAmbient;
use crate::egress::EgressError;
use crate::webhook::config::ServicePort;

const BOUNDS: Bounds =
    Bounds { timeout: Duration::from_millis(1_500), answer_bytes_max: 9, states_timeout: true, trace: None };

fn posted(config: Value, answer: Answer) -> (Result<Bytes, CallError>, Vec<Call>) {
    let caller = Answering::new(move |_| answer.clone());
    let (store, ambient) = (MemoryStore::default(), Arc::new(SystemAmbient));
    let webhooks = Webhooks::new(Arc::new(caller.clone()), store, ambient, &ORCH, Routing::ClusterAddress);
    let config = ClientConfig::of(&config).unwrap();
    let answered = webhooks.post(&config, Bytes::from_static(b"{}"), BOUNDS).now_or_never().unwrap();
    (answered, caller.calls())
}

#[test]
fn a_call_states_its_time_in_whole_seconds_and_keeps_its_path() {
    let (answered, calls) = posted(json!({"url": "https://hook.example//a"}), Ok((200, "{}".to_owned())));
    assert_eq!(answered.unwrap(), "{}");
    assert_eq!(calls[0].url.to_string(), "https://hook.example//a?timeout=2s");
    assert_eq!((&calls[0].at, &calls[0].authorities), (&None, &None));
}

#[test]
fn failures_name_the_request_and_nothing_of_the_answer() {
    let url = json!({"url": "https://hook.example/a"});
    let text = |config: &Value, answer: Answer| posted(config.clone(), answer).0.unwrap_err().to_string();
    let late = EgressError::Timeout { host: "hook.example".to_owned() };
    let expected = "Post \"https://hook.example/a?timeout=2s\": context deadline exceeded";
    assert_eq!(text(&url, Err(late)), expected);
    let secret = Ok((500, "secret".to_owned()));
    assert_eq!(text(&url, secret), "an answer of status 500 has prevented the request from succeeding");
    let gone = Ok((404, String::new()));
    assert_eq!(text(&url, gone), "the server could not find the requested resource");
    let service = json!({"service": {"namespace": "ns", "name": "hook", "path": "a"}});
    let expected = "Post \"https://hook.ns.svc:443/a?timeout=2s\": service \"hook\" not found";
    assert_eq!(text(&service, Ok((200, String::new()))), expected);
    let config = ClientConfig::of(&url).unwrap();
    let none = Webhooks::none().post(&config, Bytes::new(), BOUNDS).now_or_never().unwrap();
    assert!(matches!(none, Err(CallError::Unusable(_))), "{none:?}");
}

#[test]
fn configurations_that_cannot_be_called_say_why() {
    for (config, expected) in [
        (json!({"url": "http://hook.example/"}), "the scheme of the URL must be https"),
        (json!({"url": "https://a@hook.example/"}), "URL must not contain a username or password"),
        (json!({"url": "https://hook.example/", "caBundle": "%"}), "caBundle: Invalid symbol 37, offset 0."),
    ] {
        assert_eq!(ClientConfig::of(&config).unwrap_err(), expected);
    }
    // White space alone counts as no bundle.
    let blank = ClientConfig::of(&json!({"url": "https://hook.example/", "caBundle": "Cg=="})).unwrap();
    assert_eq!(blank.authorities(), None);
}

/// The services of a namespace with `spec`, two endpoints of which one is ready, and where they lead.
fn resolved(spec: Value, port: u16, routing: Routing) -> Result<(String, u16), String> {
    let mut objects = Objects::default();
    let mut put = |resource: &str, name: &str, object: Value| {
        objects.0.insert((resource.to_owned(), "ns".to_owned(), name.to_owned()), object);
    };
    put("services", "hook", json!({"spec": spec}));
    let slice = json!({
        "metadata": {"labels": {ORCH.label("service-name"): "hook"}},
        "ports": [{"name": "https", "port": 8443}],
        "endpoints": [
            {"addresses": ["10.1.0.1"], "conditions": {"ready": false}},
            {"addresses": ["10.1.0.2"]},
        ],
    });
    put("endpointslices.discovery", "hook-1", slice);
    let other = json!({
        "metadata": {"labels": {ORCH.label("service-name"): "other"}},
        "ports": [{"name": "https", "port": 1}],
        "endpoints": [{"addresses": ["10.1.0.3"]}],
    });
    put("endpointslices.discovery", "other-1", other);
    let view = objects.view("ns");
    let services = Services { view: &view, brand: &ORCH, routing };
    let service = ServicePort { namespace: "ns".to_owned(), name: "hook".to_owned(), port };
    resolve(&services, &service, 7).map_err(|unresolved| unresolved.to_string())
}

#[test]
fn services_lead_to_their_address_to_an_endpoint_or_say_why_not() {
    let own =
        json!({"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"name": "https", "port": 443}]});
    let at = |address: &str, port: u16| Ok((address.to_owned(), port));
    let failed = |text: &str| Err(text.to_owned());
    let (cluster, endpoints) = (Routing::ClusterAddress, Routing::Endpoints);
    assert_eq!(resolved(own.clone(), 443, cluster), at("10.0.0.9", 443));
    assert_eq!(resolved(own.clone(), 443, endpoints), at("10.1.0.2", 8443));
    let none = "no service port 8 found for service \"hook\"";
    assert_eq!(resolved(own.clone(), 8, cluster), failed(none));
    assert_eq!(resolved(own, 8, endpoints), failed(none));
    let headless = json!({"clusterIP": "None", "ports": [{"name": "https", "port": 443}]});
    let unroutable = "cannot route to service with ClusterIP \"None\"";
    assert_eq!(resolved(headless.clone(), 443, cluster), failed(unroutable));
    assert_eq!(resolved(headless, 443, endpoints), at("10.1.0.2", 8443));
    let named = json!({"type": "ExternalName", "externalName": "hook.example"});
    assert_eq!(resolved(named, 8443, cluster), at("hook.example", 8443));
    let unready = json!({"clusterIP": "10.0.0.9", "ports": [{"name": "http", "port": 80}]});
    assert_eq!(resolved(unready, 80, endpoints), failed("no endpoints available for service \"hook\""));
}

#[test]
fn webhooks_at_the_service_of_this_server_are_called_without_a_connection() {
    let answering = |text: &'static str| Answering::new(move |_| Ok((200, text.to_owned())));
    let (others, own) = (answering("other"), answering("own"));
    let (store, ambient) = (MemoryStore::default(), Arc::new(SystemAmbient));
    let webhooks = Webhooks::new(Arc::new(others.clone()), store, ambient, &ORCH, Routing::ClusterAddress);
    webhooks.answer_own_service(Arc::new(own.clone()));
    let post = |service: Value| {
        let config = ClientConfig::of(&json!({"service": service})).unwrap();
        webhooks.post(&config, Bytes::from_static(b"{}"), BOUNDS).now_or_never().unwrap()
    };
    let path = "/apis/a.example.com/v1/reviews";
    assert_eq!(post(json!({"namespace": "default", "name": "orch", "path": path})).unwrap(), "own");
    assert_eq!(own.calls()[0].url.target, format!("{path}?timeout=2s"));
    for (namespace, name, port) in [("default", "orch", 8443), ("ns", "orch", 443), ("default", "other", 443)]
    {
        let answered = post(json!({"namespace": namespace, "name": name, "port": port, "path": path}));
        assert!(
            matches!(answered, Err(CallError::Failed { .. })),
            "{namespace}/{name}:{port}: there is no such service"
        );
    }
    assert_eq!((own.calls().len(), others.calls().len()), (1, 0));
}
