//! Tests of APIServices: the other server that they name, and the identity under which requests go there.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use orch_proto::brand::ORCH;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::described::Undescribed;
use super::identity::{aggregator, name_user};
use super::*;
use crate::authn::User;

fn remote(spec: Value) -> Option<Remote> {
    let mut spec = spec;
    spec["group"] = json!("a.example.com");
    spec["version"] = json!("v1");
    let status = json!({"conditions": [{"type": "Available", "status": "True"}]});
    Remote::of(&"v1.a.example.com".into(), &json!({"spec": spec, "status": status}))
}

#[test]
fn an_object_with_a_service_is_another_servers_and_names_its_trust() {
    let service = json!({"namespace": "ns", "name": "s", "port": 8443});
    assert_eq!(remote(json!({})), None);
    let trust = |more: Value| {
        let mut spec = more;
        spec["service"] = service.clone();
        remote(spec).unwrap().trust
    };
    assert_eq!(trust(json!({})), ServerTrust::Machine);
    assert_eq!(trust(json!({"insecureSkipTLSVerify": true})), ServerTrust::Anyone);
    assert_eq!(trust(json!({"caBundle": "bm9wZQ=="})), ServerTrust::Bundle(b"nope".as_slice().into()));
    assert_eq!(trust(json!({"caBundle": "?"})), ServerTrust::Unreadable);
    let found = remote(json!({"service": service})).unwrap();
    assert!(found.is_available);
    assert_eq!((found.service.host().as_str(), found.service.port), ("s.ns.svc", 8443));
    assert_eq!(found.path(), "/apis/a.example.com/v1");
}

#[test]
fn only_plain_paths_lead_to_other_servers() {
    for (path, expected) in [
        ("/apis/a.example.com/v1", Some(("a.example.com", "v1"))),
        ("/apis/a.example.com/v1/things/x", Some(("a.example.com", "v1"))),
        ("/apis/a.example.com/", None),
        ("/apis/a.example.com", None),
        ("/apis//a.example.com/v1", None),
        ("/api/v1/pods", None),
        ("/openapi/v3/apis/a/v1", Some(("a", "v1"))),
        ("/openapi/v3/apis/a", None),
        ("/openapi/v2", None),
    ] {
        assert_eq!(group_and_version(path), expected, "{path}");
    }
}

#[test]
fn the_identity_is_this_servers_word_alone() {
    let mut headers = HeaderMap::new();
    for name in [
        "x-remote-user",
        "x_remote_group",
        "x-remote-extra-fake",
        "x-remote-other",
        "impersonate_user",
        "x-http-method-override",
        "x_original_url",
        "accept",
    ] {
        headers.insert(name, HeaderValue::from_static("mallory"));
    }
    let extra = BTreeMap::from([("example.org/Team".to_owned(), vec!["blue".to_owned(), "red".to_owned()])]);
    let groups = vec!["devs".to_owned(), "system:authenticated".to_owned()];
    let user = User { name: "zoë".to_owned(), uid: "7".to_owned(), groups, extra };
    name_user(&mut headers, &user).unwrap();
    let mut found: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("accept", b"mallory".as_slice()),
            ("x-remote-extra-example.org%2f%54eam", b"blue"),
            ("x-remote-extra-example.org%2f%54eam", b"red"),
            ("x-remote-group", b"devs"),
            ("x-remote-group", b"system:authenticated"),
            ("x-remote-uid", b"7"),
            ("x-remote-user", "zoë".as_bytes()),
        ]
    );
    let split = User { name: "a\r\nX-Remote-Group: system:masters".to_owned(), ..User::default() };
    assert!(name_user(&mut HeaderMap::new(), &split).is_err());
    for name in [" system:admin", "system:admin\t"] {
        let shortened = User { name: name.to_owned(), ..User::default() };
        assert!(name_user(&mut HeaderMap::new(), &shortened).is_err(), "{name:?}");
        let grouped = User { groups: vec![name.to_owned()], ..User::default() };
        assert!(name_user(&mut HeaderMap::new(), &grouped).is_err(), "{name:?}");
    }
    let own = aggregator(&ORCH);
    assert_eq!((own.name.as_str(), own.groups.len()), ("system:orch-aggregator", 1));
}

#[test]
fn a_plain_list_becomes_items_with_sub_resources_in_them() {
    let list = json!({
        "kind": "APIResourceList", "groupVersion": "a.example.com/v1",
        "resources": [
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"],
                "shortNames": ["th"]},
            {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["patch"]},
            {"name": "others/log", "singularName": "", "namespaced": false, "kind": "Log", "verbs": ["get"]},
        ],
    });
    let kind = |kind: &str| json!({"group": "", "version": "", "kind": kind});
    let found = described::of_list(&list, "a.example.com/v1").unwrap();
    let status = json!({"subresource": "status", "responseKind": kind("Thing"), "verbs": ["patch"]});
    assert_eq!(
        found[0],
        json!({"resource": "things", "scope": "Namespaced", "responseKind": kind("Thing"),
            "singularResource": "thing", "verbs": ["get"], "shortNames": ["th"], "subresources": [status]})
    );
    let log = json!({"subresource": "log", "responseKind": kind("Log"), "verbs": ["get"]});
    let others = json!({
        "resource": "others", "scope": "Cluster", "responseKind": kind(""), "singularResource": "", "verbs": null,
        "subresources": [log],
    });
    assert_eq!(found[1], others);
    assert_eq!(described::of_list(&list, "a.example.com/v2"), Err(Undescribed::Absent));
    let version = json!({"version": "v1", "resources": [{"resource": "things"}], "freshness": "Current"});
    let items = json!({"items": [{"metadata": {"name": "a.example.com"}, "versions": [version]}]});
    let found = described::of_aggregated(&items, "a.example.com", "v1").unwrap();
    assert_eq!(found[0].text("resource"), "things");
    assert_eq!(described::of_aggregated(&items, "a.example.com", "v2"), Err(Undescribed::Absent));
}

#[test]
fn sub_resources_find_their_resource_behind_them_and_are_of_its_scope() {
    let part = |namespaced: bool| json!({"name": "things/scale", "namespaced": namespaced, "verbs": ["get"], "group": "g"});
    let thing = json!({"name": "things", "namespaced": true, "kind": "Thing", "verbs": ["get"]});
    let of = |part: Value| {
        let resources = [part, json!({"name": "others/log", "verbs": ["get"]}), thing.clone()];
        let list = json!({
            "kind": "APIResourceList", "groupVersion": "a.example.com/v1", "resources": resources.to_vec(),
        });
        described::of_list(&list, "a.example.com/v1")
    };
    let found = of(part(true)).unwrap();
    let names: Vec<&str> = found.iter().map(|item| item.text("resource")).collect();
    assert_eq!(names, ["things", "others"], "those that are told of by themselves come first");
    assert_eq!(found[0]["scope"], "Namespaced");
    let nothing = json!({"group": "", "version": "", "kind": ""});
    assert_eq!(found[0]["subresources"][0]["responseKind"], nothing, "it names no kind");
    assert!(matches!(of(part(false)), Err(Undescribed::Garbled(_))));
}

#[test]
fn a_description_that_clients_could_not_decode_is_none() {
    let twice = vec![json!({"resource": "things"}); 2];
    let long = "x".repeat(200);
    let large = |at: usize| {
        let parts: Vec<Value> = (0..20).map(|part| json!({"subresource": format!("{part}{long}")})).collect();
        json!({"resource": format!("r{at}"), "subresources": parts})
    };
    let large: Vec<Value> = (0..500).map(large).collect();
    for resources in [json!([{"resource": "things", "verbs": "get"}]), json!(twice), json!(large)] {
        let version = json!({"version": "v1", "resources": resources, "freshness": "Current"});
        let items = json!({"items": [{"metadata": {"name": "a.example.com"}, "versions": [version]}]});
        let found = described::of_aggregated(&items, "a.example.com", "v1");
        assert!(matches!(found, Err(Undescribed::Garbled(_))), "{found:?}");
    }
    for resource in [
        json!({"name": "things", "kind": "Thing", "verbs": {"get": true}}),
        json!({"name": 7, "kind": "Thing", "verbs": ["get"]}),
        json!({"name": "things/a/b", "kind": "Thing", "verbs": ["get"]}),
        json!({"name": "things", "kind": "Thing", "verbs": ["get"], "shortNames": [1]}),
        json!("things"),
    ] {
        let list =
            json!({"kind": "APIResourceList", "groupVersion": "a.example.com/v1", "resources": [resource]});
        let found = described::of_list(&list, "a.example.com/v1");
        assert!(matches!(found, Err(Undescribed::Garbled(_))), "{found:?}");
    }
}

#[test]
fn an_index_names_documents_of_its_own_path_alone() {
    let path = "/apis/a.example.com/v1";
    let found = |url: &str| {
        let index = json!({"paths": {"apis/a.example.com/v1": {"serverRelativeURL": url}}});
        described::openapi_of_index(&index, path)
    };
    for url in ["/openapi/v3/apis/a.example.com/v1", "/openapi/v3/apis/a.example.com/v1?hash=0AF"] {
        assert_eq!(found(url).as_deref(), Some(url));
    }
    for url in
        ["", "/openapi/v3/apis/apps/v1", "https://evil.example/", "/openapi/v3/apis/a.example.com/v1?x=y"]
    {
        assert_eq!(found(url), None, "{url}");
    }
}
