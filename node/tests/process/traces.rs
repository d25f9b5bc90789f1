//! Traces of a cluster of three, as a collector gets them over OTLP.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AttributeValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status};

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The spans that a collector was sent, each with the member that sent it.
#[derive(Clone, Debug, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for part in request.into_inner().resource_spans {
            let attributes = part.resource.unwrap().attributes;
            let member = attributes.iter().find(|attribute| attribute.key == "service.instance.id");
            let member = member.and_then(|member| member.value.as_ref()?.value.as_ref()).unwrap();
            let AttributeValue::StringValue(member) = member else { panic!("{member:?}") };
            let spans = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| (member.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// A collector that listens, and its port.
    async fn start() -> (Collector, u16) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let collector = Collector::default();
        let server =
            tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, port)
    }

    /// The names of the spans of each member.
    fn names(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut names = BTreeMap::<_, BTreeSet<_>>::new();
        for (member, span) in self.0.lock().unwrap().iter() {
            names.entry(member.clone()).or_default().insert(span.name.clone());
        }
        names
    }
}

/// Three members with traces, which begin none themselves.
fn start_three(folder: &Path, collector: u16) -> BTreeMap<&'static str, Process> {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let (certs, tokens, tracing) = (folder.join("certs"), folder.join("tokens"), folder.join("tracing.yaml"));
    let [secure, peers @ ..] = free_ports::<4>();
    make_certificates(&certs, &NAMES, secure);
    fs::write(&tokens, "admin-token,admin,1,system:masters\nalice-token,alice,2,devs\n").unwrap();
    let config =
        "apiVersion: apiserver.config.orch.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 0\n";
    fs::write(&tracing, format!("{config}endpoint: 127.0.0.1:{collector}\n")).unwrap();
    let places = NAMES.iter().zip(peers).map(|(name, port)| format!("{name}=127.0.0.1:{port}"));
    let cluster = format!("--initial-cluster={}", places.collect::<Vec<_>>().join(","));
    let start = |name: &'static str| {
        let flags = [
            "serve".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--name={name}"),
            format!("--certs-dir={}", certs.display()),
            format!("--token-auth-file={}", tokens.display()),
            format!("--tracing-config-file={}", tracing.display()),
            cluster.clone(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        (name, Process::start(&folder.join(name), &flags))
    };
    NAMES.map(start).into_iter().collect()
}

/// Creates a config map as the user of `token`, in the trace [`TRACE`], which is recorded.
async fn create_traced(member: &Process, authority: &Path, token: &str, name: &str) -> u16 {
    let (mut sender, address) = member.connect(authority, None).await;
    let body = json!({"metadata": {"name": name}, "data": {"secret": "canary"}}).to_string();
    let request = Request::post(MAPS)
        .header("host", address)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{TRACE}-{SPAN}-01"))
        .header("tracestate", "vendor=1");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    sender.send_request(request).await.unwrap().status().as_u16()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_through_a_follower_is_one_trace_on_all_three_members() {
    let (collector, port) = Collector::start().await;
    let directory = tempfile::tempdir().unwrap();
    let members = start_three(directory.path(), port);
    let authority = directory.path().join("certs/ca.crt");
    let as_admin = async |member: &Process, method: Method, path: &str| {
        member.send_as(method, path, &authority, None, "admin-token", "").await
    };
    let deadline = Instant::now() + PATIENCE;
    // The others may not listen to peers yet.
    loop {
        let founded = as_admin(&members["a"], Method::POST, "/orch/v1/cluster/found").await;
        if founded.0 == 200 {
            break;
        }
        assert!(Instant::now() < deadline, "{}", founded.1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for member in members.values() {
        assert_eq!(member.ask_ready("/readyz", &authority, None).await.0, 200);
    }
    let status: Value =
        serde_json::from_str(&as_admin(&members["a"], Method::GET, "/orch/v1/cluster").await.1).unwrap();
    let leader = status["leader"].as_str().unwrap().to_owned();
    let follower = *members.keys().find(|name| **name != leader).unwrap();
    assert_eq!(create_traced(&members[follower], &authority, "alice-token", "hers").await, 403);
    assert_eq!(create_traced(&members[follower], &authority, "admin-token", "his").await, 201);
    let of_request = ["authenticate", "authorize", "flow control", "receive body", "decode"];
    let of_write = ["mutating admission", "validating admission", "propose", "render", "POST configmaps"];
    let of_store = ["log sync", "apply"];
    let expected = |name: &str| {
        let of_follower = of_request.into_iter().chain(of_write).filter(|_| name == follower);
        let of_leader = ["append forwarded"].into_iter().filter(|_| name == leader);
        of_follower.chain(of_leader).chain(of_store).map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let expected: BTreeMap<String, BTreeSet<String>> =
        members.keys().map(|name| ((*name).to_owned(), expected(name))).collect();
    let deadline = Instant::now() + PATIENCE;
    while collector.names() != expected {
        assert!(Instant::now() < deadline, "{:#?}\nand not {expected:#?}", collector.names());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let spans = collector.0.lock().unwrap();
    assert!(spans.iter().all(|(_, span)| hex(&span.trace_id) == TRACE), "{spans:#?}");
    assert!(spans.iter().all(|(_, span)| span.trace_state == "vendor=1"), "on every member: {spans:#?}");
    assert!(!format!("{spans:?}").contains("canary"), "no body is in a span: {spans:#?}");
    let the = |name: &str| &spans.iter().find(|(_, span)| span.name == name).unwrap().1;
    let (root, propose) = (the("POST configmaps"), the("propose"));
    assert_eq!(
        hex(&root.parent_span_id),
        SPAN,
        "a member of system:masters names the span that it is a part of"
    );
    assert_eq!(propose.parent_span_id, root.span_id);
    for (member, span) in spans.iter().filter(|(_, span)| of_store.contains(&&*span.name)) {
        assert_eq!(span.parent_span_id, propose.span_id, "{member}: {span:?}");
    }
    drop(spans);
    for (name, member) in members {
        assert_eq!(member.stop().0, Some(0), "{name}");
    }
}
