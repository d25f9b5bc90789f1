//! Spans of requests, and the traces that other servers are told of.

use orch_spans::FinishedSpan;

use super::*;
use crate::testing::{placed, spans_of, spans_recorded};

#[tokio::test(start_paused = true)]
async fn a_write_has_a_span_for_each_step_and_its_webhook_is_told_of_the_call() {
    let (server, hook) = super::hook_time::server("Fail").await;
    let (place, header) = placed(0x71);
    let body = || Body::from(map("m", "a canary").to_string());
    let answered = server.send(Method::POST, MAPS, &[("traceparent", &header)], body()).await;
    assert_eq!(answered.code, StatusCode::CREATED, "{}", answered.text);
    let spans = spans_of(0x71);
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        [
            "authenticate",
            "authorize",
            "receive body",
            "flow control",
            "decode",
            "mutating admission",
            "webhook",
            "validating admission",
            "propose",
            "render",
            "POST configmaps",
        ]
    );
    let (root, steps) = spans.split_last().unwrap();
    assert_eq!((root.parent, root.is_parent_remote), (Some(place.span_id), true));
    assert!(steps.iter().all(|step| step.parent == Some(root.context.span_id)), "{steps:#?}");
    let told = hook.traces.lock().clone();
    assert_eq!(told, [steps.iter().find(|step| step.name == "webhook").unwrap().context]);
    assert!(!format!("{spans:?}").contains("canary"), "{spans:#?}");
}

#[tokio::test(start_paused = true)]
async fn reads_and_refusals_have_spans_and_requests_without_a_trace_none() {
    let server = Server::new().await;
    let (_, header) = placed(0x72);
    let headers = [("traceparent", header.as_str())];
    server.send(Method::GET, MAPS, &headers, Body::empty()).await;
    server.send(Method::GET, &format!("{MAPS}/none"), &headers, Body::empty()).await;
    let spans = spans_of(0x72);
    let roots: Vec<&FinishedSpan> = spans.iter().filter(|span| span.is_parent_remote).collect();
    let named: Vec<&str> = roots.iter().map(|span| &*span.name).collect();
    assert_eq!(named, ["LIST configmaps", "GET configmaps"]);
    assert!(format!("{:?}", roots[1].attributes).contains("404"), "{roots:#?}");
    assert_eq!(spans.iter().filter(|span| span.name == "read").count(), 1, "{spans:#?}");
    let before = spans_recorded();
    let (_, unsampled) = placed(0x73);
    let unsampled = unsampled.replace("-01", "-00");
    server.send(Method::GET, MAPS, &[("traceparent", &unsampled)], Body::empty()).await;
    server.get(MAPS).await;
    assert_eq!((spans_of(0x73).len(), before > 0), (0, true));
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_server_is_told_of_the_span_of_its_answer() {
    let (server, scripted, _) = super::aggregated::server(Default::default(), "True").await;
    let (_, header) = placed(0x74);
    let path = "/apis/a.example.com/v1/things";
    server.send(Method::GET, path, &[("traceparent", &header)], Body::empty()).await;
    let relay = spans_of(0x74).into_iter().find(|span| span.name == "relay").unwrap();
    let seen = scripted.seen.lock();
    assert!(seen[0].contains(&format!("traceparent: {}", relay.context)), "{seen:?}");
    assert!(format!("{:?}", relay.attributes).contains("things.example.com:8443"), "{relay:?}");
}
