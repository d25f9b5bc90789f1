//! Spans of requests, and the traces that other servers are told of.

use orch_spans::{FinishedSpan, TraceContext};

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
    assert_eq!(told, [steps.iter().find(|step| step.name == "webhook").unwrap().context.clone()]);
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

/// A header of a caller in the trace `trace_id`, which is not recorded.
fn unsampled(trace_id: u128) -> String {
    placed(trace_id).1.replace("-01", "-00")
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_server_is_told_of_a_trace_that_is_not_recorded_and_of_what_others_noted() {
    let (server, scripted, _) = super::aggregated::server(Default::default(), "True").await;
    let header = unsampled(0x76);
    let headers = [("traceparent", header.as_str()), ("tracestate", "a=1, b=2")];
    server.send(Method::GET, "/apis/a.example.com/v1/things", &headers, Body::empty()).await;
    let seen = scripted.seen.lock().pop().unwrap();
    assert!(seen.contains("tracestate: a=1,b=2") && !seen.contains(&header), "{seen}");
    let told = seen.split_once("traceparent: ").unwrap().1.split(',').next().unwrap();
    let told = TraceContext::parse(told).unwrap();
    assert!(told.trace_id == 0x76 && told.span_id != 9 && !told.is_sampled, "{seen}");
    assert!(spans_of(0x76).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_told_of_traces_that_are_not_recorded_so_that_it_records_none() {
    let (server, hook) = super::hook_time::server("Fail").await;
    let create = async |name: &str, headers: &[(&str, &str)]| {
        let body = Body::from(map(name, "v").to_string());
        assert_eq!(server.send(Method::POST, MAPS, headers, body).await.code, StatusCode::CREATED);
        hook.traces.lock().pop().unwrap()
    };
    let header = unsampled(0x77);
    let told = create("m", &[("traceparent", header.as_str()), ("tracestate", "a=1")]).await;
    assert_eq!((told.trace_id, told.is_sampled, told.state.as_str()), (0x77, false, "a=1"));
    assert_ne!(told.span_id, 9, "the call is a span of its own");
    // One that the rate does not choose.
    let told = create("n", &[]).await;
    assert!(told.trace_id != 0x77 && !told.is_sampled, "{told:?}");
    assert!(spans_of(0x77).is_empty());
}
