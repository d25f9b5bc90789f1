//! Rules of requests that are passed on, each as a table.

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, COOKIE, HOST, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use orch_proto::brand::ORCH;
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::headers::{asks_for_upgrade, of_request, strip_answer};
use super::id::ProxyId;
use super::options::{LogOptions, StreamOptions, document, ports_query, proxied_path};
use super::*;
use crate::error::ApiError;
use crate::request::Query;

fn refusal<T: fmt::Debug>(result: Result<T, ApiError>) -> String {
    crate::status::Status::of(&result.unwrap_err(), &ORCH).message
}

#[test]
fn ids_name_a_scheme_a_name_and_a_port() {
    for (text, expected) in [
        ("p", Some((Scheme::Http, "p", ""))),
        ("p:80", Some((Scheme::Http, "p", "80"))),
        ("p:", Some((Scheme::Http, "p", ""))),
        ("https:p:", Some((Scheme::Https, "p", ""))),
        ("https:p:web", Some((Scheme::Https, "p", "web"))),
        (":p:80", Some((Scheme::Http, "p", "80"))),
        ("ftp:p:80", None),
        ("HTTP:p:80", None),
        ("p:80:x:y", None),
        (":80", None),
        ("", None),
    ] {
        let found = ProxyId::parse(text).map(|id| (id.scheme, id.name, id.port));
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn paths_behind_a_proxy_stay_behind_it() {
    for (path, expected) in [
        ("", ""),
        ("/", "/"),
        ("//", "/"),
        ("/a//b", "/a/b"),
        ("/a/./b/", "/a/b/"),
        ("/a/../../..", "/"),
        ("/../secrets", "/secrets"),
        ("/a/..", "/"),
    ] {
        assert_eq!(path::cleaned(path), expected, "{path:?}");
    }
    assert_eq!(path::encoded("/a b/%2f?#ü;=@"), "/a%20b/%252f%3F%23%C3%BC;=@");
    assert_eq!(path::query(vec![("b", "x y&z".to_owned()), ("a", "1".to_owned())]), "a=1&b=x+y%26z");
}

fn pod(containers: &[&str], others: Value) -> Value {
    let named = |name: &&str| json!({"name": name});
    let containers: Vec<Value> = containers.iter().map(named).collect();
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    for (name, value) in others.as_object().unwrap() {
        pod["spec"][name.as_str()] = value.clone();
    }
    pod
}

#[test]
fn a_container_is_named_or_the_only_one() {
    let many =
        pod(&["x", "y"], json!({"initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]}));
    assert_eq!(pod::container(&pod(&["x"], json!({})), "p", "").unwrap(), "x");
    for name in ["x", "y", "i", "e"] {
        assert_eq!(pod::container(&many, "p", name).unwrap(), name);
    }
    assert_eq!(refusal(pod::container(&many, "p", "z")), "container z is not valid for pod p");
    assert_eq!(
        refusal(pod::container(&many, "p", "")),
        "a container name must be specified for pod p, choose one of: [i x y e]"
    );
}

#[test]
fn a_pod_is_reached_at_its_first_address_and_port() {
    let mut pod = pod(&["x", "y"], json!({}));
    let at = |pod: &Value, id: &str| {
        pod::proxied(pod::parse_id(id).unwrap(), pod, "/a").map(|location| location.authority())
    };
    assert_eq!(refusal(at(&pod, "p")), "address not allowed");
    pod["status"] = json!({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]});
    assert_eq!(at(&pod, "p").unwrap(), "10.0.0.1");
    pod["spec"]["containers"][1]["ports"] = json!([{"containerPort": 8080}]);
    assert_eq!(at(&pod, "p").unwrap(), "10.0.0.1:8080");
    assert_eq!(at(&pod, "https:p:443").unwrap(), "10.0.0.1:443");
    pod["status"]["podIPs"] = json!([{"ip": "fd00::1"}]);
    assert_eq!(at(&pod, "p").unwrap(), "[fd00::1]:8080");
    assert_eq!(refusal(pod::parse_id("ftp:p:1")), "invalid pod request \"ftp:p:1\"");
}

#[test]
fn a_kubelet_is_at_the_preferred_address_and_its_own_port() {
    let types: Vec<String> = ["Hostname", "InternalIP"].map(str::to_owned).into();
    let mut node = json!({"metadata": {"name": "n"}, "status": {}});
    let at = |node: &Value| node::kubelet(node, &types, &ORCH).map(|location| location.authority());
    assert_eq!(refusal(at(&node)), "no preferred addresses found; known addresses: []");
    node["status"]["addresses"] = json!([{"type": "ExternalIP", "address": "192.0.2.1"}]);
    assert_eq!(refusal(at(&node)), "no preferred addresses found; known addresses: [{ExternalIP 192.0.2.1}]");
    node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.2"}]);
    assert_eq!(at(&node).unwrap(), "10.0.0.2:10250");
    node["metadata"]["labels"] = json!({"orch.io/hostname": "labelled"});
    assert_eq!(at(&node).unwrap(), "labelled:10250");
    node["status"]["addresses"] =
        json!([{"type": "InternalIP", "address": "10.0.0.2"}, {"type": "Hostname", "address": "n.example"}]);
    node["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 11000}});
    assert_eq!(at(&node).unwrap(), "n.example:11000");
    let proxied = |id: &str| {
        let kubelet = node::kubelet(&node, &types, &ORCH).unwrap();
        let location = node::proxied(node::parse_id(id).unwrap(), kubelet, "/metrics");
        (location.scheme, location.authority(), location.trust)
    };
    let kubelet = (Scheme::Https, "n.example:11000".to_owned(), BackendTrust::Kubelet);
    assert_eq!(proxied("n"), kubelet);
    assert_eq!(proxied("http:n:11000"), kubelet, "the kubelet's port is the kubelet's");
    let other = (Scheme::Http, "n.example:9100".to_owned(), BackendTrust::Anyone);
    assert_eq!(proxied("n:9100"), other);
}

#[test]
fn a_service_leads_to_a_pod_of_its_namespace_that_is_ready() {
    let target = |name: &str| json!({"kind": "Pod", "namespace": "ns", "name": name});
    let slice = json!({
        "ports": [{"name": "x", "port": 8080}, {"name": "y", "port": 9090}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "targetRef": target("a")},
            {"addresses": ["10.0.0.2"], "targetRef": target("b"), "conditions": {"ready": false}},
            {"addresses": ["10.0.0.3"]},
            {"addresses": ["10.0.0.4"], "targetRef": {"kind": "Pod", "namespace": "other", "name": "a"}},
            {"addresses": ["169.254.169.254"], "targetRef": target("a")},
            {"addresses": ["10.0.0.6"], "targetRef": target("gone")},
        ],
    });
    let pod_of = |name: &str| {
        let ip = match name {
            "a" => "10.0.0.1",
            "b" => "10.0.0.2",
            _ => return None,
        };
        Some(json!({"status": {"podIPs": [{"ip": ip}]}}))
    };
    let at = |candidates: &[service::Candidate], chance: u128| {
        let id = service::parse_id("https:s:x").unwrap();
        let location = service::choose(candidates, id, "https:s:x", "ns", "/a", chance, pod_of)?;
        Ok(format!("{:?} {}{}", location.scheme, location.authority(), location.path))
    };
    let ready = service::of_slice(&slice, "x");
    for chance in 0..10 {
        assert_eq!(at(&ready, chance), Ok("Https 10.0.0.1:8080/a".to_owned()), "{chance}");
    }
    assert_eq!(at(&service::of_slice(&slice, "y"), 0).unwrap(), "Https 10.0.0.1:9090/a");
    assert_eq!(
        refusal(at(&service::of_slice(&slice, "z"), 7)),
        "no endpoints available for service \"https:s:x\""
    );
    let endpoints = json!({"subsets": [{
        "ports": [{"name": "x", "port": 80}],
        "addresses": [{"ip": "10.0.0.1", "targetRef": target("a")}],
        "notReadyAddresses": [{"ip": "10.0.0.2", "targetRef": target("b")}],
    }]});
    assert_eq!(at(&service::of_endpoints(&endpoints, "x"), 3).unwrap(), "Https 10.0.0.1:80/a");
    let spec = json!({"spec": {"ports": [{"name": "x", "port": 80}, {"port": 81}]}});
    assert_eq!(service::port_name(&spec, "s", 80), Ok("x"));
    assert_eq!(service::port_name(&spec, "s", 81), Ok(""));
    assert_eq!(refusal(service::port_name(&spec, "s", 82)), "no service port 82 found for service \"s\"");
    assert_eq!(
        (service::port_number("80"), service::port_number("x"), service::port_number("")),
        (Some(80), None, None)
    );
}

#[test]
fn options_of_logs_are_judged_as_recorded_and_passed_on() {
    let parsed = |text: &str| LogOptions::parse(&Query::parse(text));
    for (text, expected) in [
        ("", ""),
        ("follow=true&previous=1&timestamps=yes&container=c", "follow=true&previous=true&timestamps=true"),
        ("follow=false&previous=0&tailLines=0", "tailLines=0"),
        (
            "sinceTime=2026-01-02T03:04:05%2B01:00&limitBytes=7",
            "limitBytes=7&sinceTime=2026-01-02T02%3A04%3A05Z",
        ),
        ("sinceSeconds=5&insecureSkipTLSVerifyBackend=true", "sinceSeconds=5"),
    ] {
        let options = parsed(text).unwrap();
        options.check("p").unwrap();
        assert_eq!(options.query(), expected, "{text}");
    }
    for (text, expected) in [
        ("tailLines=x", r#"strconv.ParseInt: parsing "x": invalid syntax"#),
        (
            "sinceTime=yesterday",
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            "sinceTime=2026-01-02",
            r#"parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
        ),
    ] {
        assert_eq!(refusal(parsed(text)), expected, "{text}");
    }
    for (text, expected) in [
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=0&sinceTime=2026-01-02T03:04:05Z",
            ": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("stream=All", "stream: Forbidden: may not be specified"),
    ] {
        let message = refusal(parsed(text).unwrap().check("p"));
        assert_eq!(message, format!("PodLogOptions \"p\" is invalid: {expected}"), "{text}");
    }
}

#[test]
fn options_of_connections_are_documents_and_are_written_for_the_kubelet() {
    let of = |action, query: &str| document(action, &Query::parse(query), "");
    let query = "stdin=1&stdout=true&stderr=false&tty=&command=ls&command=-l%20a&container=c";
    let exec = of(Action::Exec, query).unwrap();
    let expected =
        json!({"stdin": true, "stdout": true, "tty": true, "container": "c", "command": ["ls", "-l a"]});
    assert_eq!(exec, expected);
    let exec = StreamOptions::of_exec(&exec);
    assert_eq!(
        (exec.container.as_str(), exec.query().as_str()),
        ("c", "command=ls&command=-l+a&input=1&output=1&tty=1")
    );
    let attach = of(Action::Attach, query).unwrap();
    assert_eq!(attach.get("command"), None);
    assert_eq!(StreamOptions::of_attach(&attach).query(), "input=1&output=1&tty=1");
    let ports = |query: &str| of(Action::PortForward, query);
    assert_eq!(ports("").unwrap(), json!({}));
    assert_eq!(ports_query(&ports("").unwrap()), "");
    assert_eq!(ports("ports=80,443&ports=65535").unwrap(), json!({"ports": [80, 443, 65535]}));
    assert_eq!(ports_query(&ports("ports=80,443&ports=65535").unwrap()), "port=80%2C443%2C65535");
    for (port, reason) in [("x", "invalid syntax"), ("-1", "invalid syntax"), ("65536", "value out of range")]
    {
        let text = format!("cannot convert to []int32: strconv.ParseUint: parsing \"{port}\": {reason}");
        assert_eq!(refusal(ports(&format!("ports={port}"))), text);
    }
}

#[test]
fn the_path_behind_a_proxy_is_in_its_options_and_may_be_changed_there() {
    for subpath in ["", "/", "/a/b/", "//a"] {
        let options = document(Action::Proxy, &Query::parse("path=other"), subpath).unwrap();
        assert_eq!(options.text("path"), subpath);
        assert_eq!(proxied_path(&options), subpath);
    }
    for changed in ["b", "/b"] {
        assert_eq!(proxied_path(&json!({"path": changed})), "/b");
    }
}

#[test]
fn addresses_of_this_machine_and_its_link_are_reached_where_they_are_allowed() {
    let reach =
        |ranges: &[&str]| Reach { allowed: ranges.iter().map(|range| range.parse().unwrap()).collect() };
    let allows = |ranges: &[&str], address: &str| reach(ranges).allows(address.parse().unwrap());
    for address in
        ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::ffff:127.0.0.1", "fd00:ec2::254"]
    {
        assert!(!allows(&[], address), "{address}");
    }
    for address in ["10.0.0.1", "192.0.2.1", "fd00::1"] {
        assert!(allows(&[], address), "{address}");
    }
    assert!(allows(&["127.0.0.0/8"], "127.1.2.3") && allows(&["127.0.0.0/8"], "::ffff:127.0.0.1"));
    assert!(allows(&["::1"], "::1") && allows(&["0.0.0.0/0"], "169.254.1.1"));
    assert!(!allows(&["127.0.0.1"], "127.0.0.2") && !allows(&["127.0.0.0/8"], "169.254.169.254"));
    let mixed = ["10.0.0.1", "127.0.0.1"].map(|address| address.parse().unwrap()).into();
    assert_eq!(refusal(reach(&[]).checked(mixed)), "address not allowed");
    for text in ["", "x", "127.0.0.1/33", "::1/129", "127.0.0.1/", "127.0.0.1/-1"] {
        text.parse::<AddressRange>().unwrap_err();
    }
}

fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn no_credential_and_no_header_of_a_connection_is_passed_on() {
    let custom = HeaderName::from_static;
    let sent = headers(&[
        (AUTHORIZATION, "Bearer canary"),
        (custom("impersonate-user"), "canary"),
        (custom("impersonate-extra-x"), "canary"),
        (custom("proxy-authorization"), "canary"),
        (CONNECTION, "keep-alive, X-Mine"),
        (CONNECTION, "Upgrade"),
        (custom("x-mine"), "canary"),
        (custom("keep-alive"), "canary"),
        (custom("te"), "trailers"),
        (UPGRADE, "websocket"),
        (SEC_WEBSOCKET_PROTOCOL, "v4.channel, base64url.bearer.authorization.example.canary"),
        (COOKIE, "own"),
        (CONTENT_TYPE, "text/plain"),
        (custom("x-forwarded-for"), "192.0.2.7"),
        (HOST, "api.example"),
    ]);
    let passed = of_request(&sent, "api.example", Some("192.0.2.8".parse().unwrap()), Some("/x/"));
    assert!(!format!("{passed:?}").contains("canary"), "{passed:?}");
    let text = |name: &str| passed.get(name).map(|value| value.to_str().unwrap());
    for (name, expected) in [
        ("connection", Some("Upgrade")),
        ("upgrade", Some("websocket")),
        ("sec-websocket-protocol", Some("v4.channel")),
        ("cookie", Some("own")),
        ("content-type", Some("text/plain")),
        ("x-forwarded-for", Some("192.0.2.7, 192.0.2.8")),
        ("x-forwarded-uri", Some("/x/")),
        ("host", Some("api.example")),
        ("te", None),
    ] {
        assert_eq!(text(name), expected, "{name}");
    }
    let plain = headers(&[(UPGRADE, "websocket")]);
    assert!(!asks_for_upgrade(&plain) && asks_for_upgrade(&sent));
    let passed = of_request(&plain, "x", None, None);
    assert_eq!(passed, headers(&[(HOST, "x")]), "an upgrade that no connection asks for is none");
}

#[test]
fn a_connection_never_leaves_http_for_http() {
    let settings = HeaderName::from_static("http2-settings");
    let asking = |upgrade: &'static str| {
        headers(&[
            (CONNECTION, "Upgrade, HTTP2-Settings"),
            (UPGRADE, upgrade),
            (settings.clone(), "AAMAAABk"),
        ])
    };
    for upgrade in [
        "h2c",
        "H2C",
        "h2",
        "HTTP/2.0",
        "TLS/1.0, HTTP/1.1",
        "websocket, h2c",
        "SPDY/3.1 , h2c",
        "h2c-14",
        "\"h2c\"",
    ] {
        let sent = asking(upgrade);
        assert!(!asks_for_upgrade(&sent), "{upgrade}");
        assert_eq!(of_request(&sent, "x", None, None), headers(&[(HOST, "x")]), "{upgrade}");
    }
    let mut several = asking("websocket");
    several.append(UPGRADE, HeaderValue::from_static("h2c"));
    assert!(!asks_for_upgrade(&several));
    // few: the protocols of clients.
    for upgrade in ["websocket", "WebSocket", "SPDY/3.1", "tcp"] {
        assert!(asks_for_upgrade(&asking(upgrade)), "{upgrade}");
    }
    assert!(!asks_for_upgrade(&headers(&[(CONNECTION, "Upgrade")])));
}

#[test]
fn answers_lose_headers_of_their_connection_and_permissions_for_other_origins() {
    let custom = HeaderName::from_static;
    let mut answer = headers(&[
        (CONNECTION, "close, x-mine"),
        (custom("x-mine"), "1"),
        (custom("transfer-encoding"), "chunked"),
        (custom("content-length"), "2"),
        (custom("access-control-allow-origin"), "*"),
        (custom("access-control-allow-credentials"), "true"),
        (custom("alt-svc"), "h3=\":1\""),
        (custom("clear-site-data"), "\"*\""),
        (custom("strict-transport-security"), "max-age=0"),
        (CONTENT_TYPE, "text/html"),
    ]);
    strip_answer(&mut answer);
    assert_eq!(answer, headers(&[(CONTENT_TYPE, "text/html")]));
}

#[test]
fn redirects_to_the_backend_lead_through_the_proxy_and_others_are_left_alone() {
    let mount = Mount {
        prefix: "/api/v1/namespaces/n/pods/p:80/proxy".to_owned(),
        backend: "10.0.0.1:80".to_owned(),
        host: "api.example:6443".to_owned(),
    };
    let behind = "/api/v1/namespaces/n/pods/p:80/proxy";
    for (location, expected) in [
        ("/login?to=/a#x", format!("{behind}/login?to=/a#x")),
        ("/a/", format!("{behind}/a/")),
        ("/../../x", format!("{behind}/x")),
        ("http://10.0.0.1:80/a", format!("{behind}/a")),
        ("https://api.example:6443/a", format!("{behind}/a")),
        ("//10.0.0.1:80/a", format!("{behind}/a")),
        ("a/b", "a/b".to_owned()),
        ("http://elsewhere.example/a", "http://elsewhere.example/a".to_owned()),
        ("//169.254.169.254/latest", "//169.254.169.254/latest".to_owned()),
        ("http://10.0.0.1:80", "http://10.0.0.1:80".to_owned()),
    ] {
        assert_eq!(mount.location(location), expected, "{location}");
    }
    let own = format!("{behind}/already");
    assert_eq!(mount.location(&own), own);
    assert_eq!(mount.forwarded_uri("/a b/"), format!("{behind}/a%20b/"));
}
