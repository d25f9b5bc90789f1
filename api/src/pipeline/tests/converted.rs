//! A kind of two versions whose objects pass the conversion stage.

use futures::FutureExt;
use orch_raft::object::SharedObject;
use orch_raft::{Key, Store, WrittenAs};
use parking_lot::Mutex;

use super::*;
use crate::conversion::testing::{Renaming, V1, V1BETA1, widgets};
use crate::follow::Builder;
use crate::registry::{Resource, Tables};

/// A server of widgets that are stored as `stored`, under the revision `since` of their definition.
async fn server(converter: &Renaming, stored: &str, since: u64) -> Server {
    let server = Server::new().await;
    serve(&server, converter, stored, since);
    server
}

fn serve(server: &Server, converter: &Renaming, stored: &str, since: u64) {
    let builtin = Registry::builtin(&ORCH);
    let widgets = widgets(&builtin, converter, stored, since).kinds();
    server.pipeline.served.update(|_| builtin.with(widgets)).unwrap();
}

fn widget(name: &str, data: Value) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "data": data})
}

/// A widget in the form of another version.
fn beta(mut widget: Value) -> Value {
    widget["apiVersion"] = json!("stable.example.com/v1beta1");
    widget
}

fn stored(server: &Server, name: &str) -> SharedObject {
    let key = Key::new(&"widgets.stable.example.com.".into(), "ns", name).unwrap();
    server.pipeline.store.state().object(&key).unwrap().clone()
}

fn form(version: &str, definition: u64) -> Option<Arc<WrittenAs>> {
    let definition = orch_raft::Revision(definition);
    Some(Arc::new(WrittenAs { version: version.into(), definition }))
}

#[tokio::test]
async fn each_version_shows_and_takes_its_own_form() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    let created = server.post(V1BETA1, beta(widget("a", json!({"colour": "red"})))).await.object();
    assert_eq!(
        (&created["data"], &created["metadata"]["generation"]),
        (&json!({"colour": "red"}), &json!(1))
    );
    let object = stored(&server, "a");
    assert_eq!(object.index.written_as, form("v1", 7));
    let bytes = String::from_utf8_lossy(&object.json);
    assert!(bytes.contains(r#""data":{"color":"red"}"#), "{bytes}");
    assert_eq!(server.get(&format!("{V1}/a")).await.json["data"], json!({"color": "red"}));
    let shown = server.get(&format!("{V1BETA1}/a")).await.object();
    assert_eq!(shown["data"], json!({"colour": "red"}));
    for key in ["uid", "resourceVersion", "name", "creationTimestamp"] {
        assert_eq!(shown["metadata"][key], created["metadata"][key], "{key}");
    }
    let merged =
        server.merge(&format!("{V1BETA1}/a"), json!({"data": {"colour": "blue", "size": "9"}})).await;
    assert_eq!(merged.object()["data"], json!({"colour": "blue", "size": "9"}));
    let mut whole = server.get(&format!("{V1}/a")).await.object();
    assert_eq!(whole["data"], json!({"color": "blue", "size": "9"}));
    whole["data"]["color"] = json!("green");
    (whole["apiVersion"], whole["kind"]) = (json!("stable.example.com/v1"), json!("Widget"));
    assert_eq!(server.put(&format!("{V1}/a"), whole).await.object()["metadata"]["generation"], 3);
    let dry = server.merge(&format!("{V1BETA1}/a?dryRun=All"), json!({"data": {"colour": "none"}})).await;
    assert_eq!(dry.object()["data"]["colour"], "none");
    let gone = server.delete(&format!("{V1BETA1}/a"), json!(null)).await;
    assert_eq!((gone.code, gone.json["status"].as_str()), (200, Some("Success")));
}

#[tokio::test]
async fn bytes_that_are_current_are_handed_out_undecoded() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    server.create(V1, widget("a", json!({"color": "red"}))).await;
    let object = stored(&server, "a");
    let request = server.get(&format!("{V1}/a")).await.object();
    assert_eq!(request["data"], json!({"color": "red"}));
    assert!(converter.asked().is_empty(), "nothing was converted");
    let resource = server.pipeline.registry().find("stable.example.com", "v1", "widgets").unwrap().clone();
    let mut objects = [object.clone()];
    super::super::staged::convert_all(&resource, &mut objects, &Budget::default(), None).await.unwrap();
    assert!(Arc::ptr_eq(&objects[0], &object));
    // Under a newer definition they are completed, without a converter.
    serve(&server, &converter, "v1", 8);
    let resource = server.pipeline.registry().find("stable.example.com", "v1", "widgets").unwrap().clone();
    super::super::staged::convert_all(&resource, &mut objects, &Budget::default(), None).await.unwrap();
    assert!(!Arc::ptr_eq(&objects[0], &object) && converter.asked().is_empty());
    assert_eq!((&objects[0].json, &objects[0].index.written_as), (&object.json, &form("v1", 8)));
    assert_eq!(objects[0].json_around_revision(), object.json_around_revision());
}

/// The version `v1` of widgets that are stored as `stored`, and a stored one.
async fn stored_widget(stored_as: &str) -> (Arc<Resource>, SharedObject) {
    let server = server(&Renaming::ready(), stored_as, 7).await;
    server.create(V1, widget("a", json!({"color": "red"}))).await;
    let resource = server.pipeline.registry().find("stable.example.com", "v1", "widgets").unwrap().clone();
    (resource, stored(&server, "a"))
}

#[tokio::test]
#[should_panic(expected = "a conversion that was not stopped has every object")]
async fn a_conversion_that_loses_an_object_is_a_bug() {
    let (resource, object) = stored_widget("v1").await;
    super::super::staged::checked(resource.staged().unwrap(), 2, vec![object]);
}

#[tokio::test]
#[should_panic(expected = "an object behind the stage is of the request's form")]
async fn an_object_of_another_form_behind_the_stage_is_a_bug() {
    let (resource, object) = stored_widget("v1beta1").await;
    super::super::staged::checked(resource.staged().unwrap(), 1, vec![object]);
}

#[tokio::test]
async fn a_newer_schema_alone_makes_no_write_of_a_change_of_nothing() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    let created = server.create(V1, widget("a", json!({"color": "red"}))).await;
    serve(&server, &converter, "v1", 8);
    for path in [V1, V1BETA1] {
        let merged = server.merge(&format!("{path}/a"), json!({})).await.object();
        assert_eq!(merged["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"], "{path}");
    }
    assert_eq!(stored(&server, "a").index.written_as, form("v1", 7));
    server.merge(&format!("{V1}/a"), json!({"data": {"size": "9"}})).await.object();
    assert_eq!(stored(&server, "a").index.written_as, form("v1", 8), "a change is written under the new one");
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused_where_the_rules_of_the_kind_begin() {
    let server = server(&Renaming::ready(), "v1", 7).await;
    let created = server.create(V1, widget("a", json!({}))).await;
    let version = created["metadata"]["resourceVersion"].clone();
    let gadget = |name: &str, version: Value| {
        let mut gadget = widget(name, json!({"k": "v"}));
        (gadget["kind"], gadget["metadata"]["resourceVersion"]) = (json!("Gadget"), version);
        gadget
    };
    let told = |reply: Reply| (reply.code, reply.json["message"].as_str().unwrap_or_default().to_owned());
    let (a, none) = (format!("{V1}/a"), format!("{V1}/none"));
    for (reply, code, expected) in [
        (
            server.put(&none, gadget("none", json!(null))).await,
            404,
            r#"widgets.stable.example.com "none" not found"#,
        ),
        (
            server.put(&a, gadget("a", json!(null))).await,
            422,
            r#"widgets.stable.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#,
        ),
        (
            server.put(&a, gadget("b", json!(null))).await,
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            server.put(&a, gadget("a", version.clone())).await,
            422,
            r#"Gadget.stable.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget"#,
        ),
        (
            server.post(V1, gadget("b", json!(null))).await,
            422,
            r#"Gadget.stable.example.com "b" is invalid: kind: Invalid value: "Gadget": must be Widget"#,
        ),
        (
            server.post(&V1.replace("/ns/", "/nope/"), gadget("b", json!(null))).await,
            404,
            r#"namespaces "nope" not found"#,
        ),
    ] {
        assert_eq!(told(reply), (code, expected.to_owned()));
    }
    let mut long = gadget("a", version.clone());
    long["metadata"]["labels"] = json!({"l": "a b"});
    let refused = server.put(&a, long).await;
    let fields: Vec<String> =
        refused.causes().iter().map(|cause| cause.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(fields, ["metadata.labels:", "metadata.labels:", "kind:"], "those of the kind do not come");
    let mut same = widget("a", json!({}));
    same["metadata"]["resourceVersion"] = version;
    assert_eq!(server.put(&a, same).await.code, 200);
}

#[tokio::test]
async fn a_patch_of_the_type_is_an_error_of_the_object() {
    let server = server(&Renaming::ready(), "v1", 7).await;
    server.create(V1, widget("a", json!({"k": "v"}))).await;
    let a = format!("{V1}/a");
    let kind = server.merge(&a, json!({"kind": "Gadget"})).await;
    let told = r#"Gadget.stable.example.com "a" is invalid: kind: Invalid value: "Gadget": must be Widget"#;
    assert_eq!(kind.refusal(), (422, told));
    let details = json!({"name": "a", "group": "stable.example.com", "kind": "Gadget"});
    for (name, value) in details.as_object().unwrap().iter() {
        assert_eq!(&kind.json["details"][name.as_str()], value, "{name}");
    }
    assert_eq!(kind.causes(), [r#"FieldValueInvalid kind: Invalid value: "Gadget": must be Widget"#]);
    let patch = json!([{"op": "replace", "path": "/apiVersion", "value": "stable.example.com/v2"}]);
    let version = server.patch(&a, JSON_PATCH, patch).await;
    let told = r#"Widget.stable.example.com "a" is invalid: apiVersion: Invalid value: "stable.example.com/v2": must be stable.example.com/v1"#;
    assert_eq!(version.refusal(), (422, told));
    let both = server.merge(&a, json!({"kind": "Gadget", "apiVersion": "v2"})).await;
    assert_eq!((both.causes().len(), &both.json["details"]["group"]), (2, &json!(null)), "{}", both.json);
    let removed = server.merge(&a, json!({"kind": null})).await;
    let (code, text) = removed.refusal();
    assert!(code == 422 && text.starts_with(r#" "" is invalid: patch: Invalid value: "{"#), "{text}");
    // Members stand in no order.
    assert!(text.contains("Object 'Kind' is missing in '{\"") && text.ends_with('\''), "{text}");
    let stale = server.merge(&a, json!({"kind": "Gadget", "metadata": {"resourceVersion": "1"}})).await;
    assert_eq!(stale.code, 409, "the version is compared before");
}

#[tokio::test]
async fn objects_keep_their_form_until_they_are_touched() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1beta1", 7).await;
    server.create(V1, widget("a", json!({"color": "red"}))).await;
    server.create(V1, widget("b", json!({"color": "red"}))).await;
    serve(&server, &converter, "v1", 8);
    assert_eq!(server.get(&format!("{V1}/a")).await.json["data"], json!({"color": "red"}));
    assert_eq!(stored(&server, "a").index.written_as, form("v1beta1", 7), "a read rewrites nothing");
    // A change of nothing is one of the form.
    server.merge(&format!("{V1BETA1}/a"), json!({})).await.object();
    let rewritten = stored(&server, "a");
    assert_eq!(rewritten.index.written_as, form("v1", 8));
    assert!(String::from_utf8_lossy(&rewritten.json).contains(r#""data":{"color":"red"}"#));
    let items = server.get(V1BETA1).await.json["items"].clone();
    let data: Vec<&Value> = items.as_array().unwrap().iter().map(|item| &item["data"]).collect();
    assert_eq!(data, [&json!({"colour": "red"}), &json!({"colour": "red"})]);
    let deleted = server.delete(V1, json!(null)).await.json["items"].clone();
    assert_eq!(deleted[1]["data"], json!({"color": "red"}));
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_an_object_in_its_stored_version_once() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1beta1", 7).await;
    for name in ["a", "b", "c"] {
        server.create(V1, widget(name, json!({"color": "red"}))).await;
    }
    serve(&server, &converter, "v1", 8);
    let mut whole = server.get(&format!("{V1}/a")).await.object();
    (whole["apiVersion"], whole["kind"]) = (json!("stable.example.com/v1"), json!("Widget"));
    let generation = whole["metadata"]["generation"].clone();
    let put = server.put(&format!("{V1}/a"), whole).await.object();
    assert_eq!(put["metadata"]["generation"], generation, "its content is as it was");
    server.merge(&format!("{V1}/b"), json!({})).await.object();
    server.merge(&format!("{V1BETA1}/c"), json!({})).await.object();
    for name in ["a", "b", "c"] {
        let written = stored(&server, name);
        assert_eq!(written.index.written_as, form("v1", 8), "{name}");
        let answer = server.merge(&format!("{V1}/{name}"), json!({})).await.object();
        assert_eq!(stored(&server, name).revision, written.revision, "{name}: the second costs no write");
        assert_eq!(answer["metadata"]["resourceVersion"], json!(written.revision.to_string()));
    }
}

#[tokio::test]
async fn a_list_is_converted_in_batches_and_waits_once_for_each() {
    let ready = Renaming::ready();
    let server = server(&ready, "v1", 7).await;
    for at in 0..5 {
        server.create(V1, widget(&format!("w{at}"), json!({"color": "red"}))).await;
    }
    let waiting = Renaming::waiting();
    serve(&server, &waiting, "v1", 7);
    {
        let mut list = Box::pin(server.get(V1BETA1));
        assert!((&mut list).now_or_never().is_none(), "it waits");
        waiting.answer(1);
        let items = list.await.json["items"].clone();
        assert_eq!(items.as_array().unwrap().len(), 5);
        assert_eq!(items[4]["data"], json!({"colour": "red"}));
    }
    assert_eq!(waiting.asked(), [5], "one question for the whole list");
    // A write asks for the old object, for what is stored, and for the answer.
    waiting.answer(3);
    let merged = server.merge(&format!("{V1BETA1}/w1"), json!({"data": {"colour": "blue"}})).await.object();
    assert_eq!(merged["data"], json!({"colour": "blue"}));
    assert_eq!(waiting.asked(), [5, 1, 1, 1]);
    assert_eq!(server.get(&format!("{V1}/w1")).await.json["data"], json!({"color": "blue"}));
}

#[tokio::test]
async fn a_failure_is_the_answer_to_every_verb_and_nothing_is_changed() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    server.create(V1, widget("a", json!({"color": "red"}))).await;
    let told = "conversion webhook for stable.example.com/v1, Kind=Widget failed: no route";
    converter.fail(Some(told));
    let before = stored(&server, "a").revision;
    for reply in [
        server.get(&format!("{V1BETA1}/a")).await,
        server.get(V1BETA1).await,
        server.post(V1BETA1, beta(widget("b", json!({})))).await,
        server.merge(&format!("{V1BETA1}/a"), json!({"data": {"x": "y"}})).await,
        server.delete(V1BETA1, json!(null)).await,
    ] {
        assert_eq!(reply.refusal(), (500, told));
        assert_eq!(reply.json.get("reason").and_then(Value::as_str).unwrap_or_default(), "");
    }
    assert_eq!(stored(&server, "a").revision, before);
    assert_eq!(
        server.get(V1).await.json["items"].as_array().unwrap().len(),
        1,
        "the stored version is served"
    );
}

#[tokio::test]
async fn managers_of_both_versions_own_the_fields_of_their_own() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    let config = |version: &str, data: Value| {
        json!({
            "apiVersion": format!("stable.example.com/{version}"), "kind": "Widget",
            "metadata": {"name": "a"}, "data": data,
        })
    };
    let path = |base: &str| format!("{base}/a");
    server.apply(&path(V1BETA1), "old", config("v1beta1", json!({"colour": "red"}))).await.object();
    let conflict = server.apply(&path(V1), "new", config("v1", json!({"color": "blue"}))).await;
    assert_eq!(conflict.code, 409, "{}", conflict.json);
    assert!(conflict.json["message"].as_str().unwrap().contains("old"), "{}", conflict.json);
    let same = server.apply(&path(V1), "new", config("v1", json!({"color": "red"}))).await.object();
    let managers = same["metadata"]["managedFields"].as_array().unwrap();
    let owned = |manager: &str| {
        let entry = managers.iter().find(|entry| entry["manager"] == manager).unwrap();
        entry["fieldsV1"]["f:data"].clone()
    };
    assert_eq!((owned("old"), owned("new")), (json!({"f:colour": {}}), json!({"f:color": {}})));
    let forced = server
        .apply(&format!("{}?force=true", path(V1)), "new", config("v1", json!({"color": "blue"})))
        .await;
    let left = forced.object()["metadata"]["managedFields"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1, "a field that was taken is nobody else's: {left}");
}

#[tokio::test]
async fn a_read_after_a_change_of_the_schema_makes_tables_beside_the_thread_that_serves() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    for name in ["a", "b"] {
        server.create(V1, widget(name, json!({"color": "red"}))).await;
    }
    let makers = Arc::new(Mutex::new(Vec::new()));
    let changed = |since: u64| {
        let (builtin, makers) = (Registry::builtin(&ORCH), makers.clone());
        let mut kind = widgets(&builtin, &converter, "v1", since);
        let schema = builtin.schema.clone();
        let tables = Tables::later(Builder::BlockingThread, move || {
            makers.lock().push(std::thread::current().id());
            schema
        });
        kind.versions.iter_mut().for_each(|version| version.schema = tables.clone());
        kind.stored_schema = tables.clone();
        server.pipeline.served.update(|_| builtin.with(kind.kinds())).unwrap();
        tables
    };
    let here = std::thread::current().id();
    let others = |count: usize| {
        let makers = makers.lock();
        makers.len() == count && makers.iter().all(|maker| *maker != here)
    };
    let tables = changed(8);
    // All of them wait for the same tables.
    let path = format!("{V1}/a");
    let reads = futures::future::join_all([(); 4].map(|()| server.get(&path))).await;
    assert!(reads.iter().all(|read| read.json["data"] == json!({"color": "red"})));
    assert!(tables.are_made() && others(1));
    changed(9);
    assert_eq!(server.get(V1).await.json["items"].as_array().unwrap().len(), 2);
    assert!(others(2), "a list");
}

#[tokio::test]
async fn lists_and_changes_use_what_was_converted_before_and_a_get_asks_anew() {
    let converter = Renaming::keeping();
    let server = server(&converter, "v1", 7).await;
    for at in 0..3 {
        server.create(V1, widget(&format!("w{at}"), json!({"color": "red"}))).await;
    }
    let list = async || server.get(V1BETA1).await.json["items"].clone();
    let first = list().await;
    assert_eq!((list().await, converter.asked()), (first.clone(), vec![3]), "one question for both lists");
    server.get(&format!("{V1BETA1}/w0")).await.object();
    assert_eq!(converter.asked(), [3, 1]);
    // The old form is known: the question is about what is stored.
    let told = "conversion webhook for stable.example.com/v1beta1, Kind=Widget failed: down";
    converter.fail(Some(told));
    let patch = json!({"data": {"colour": "blue"}});
    assert_eq!(server.merge(&format!("{V1BETA1}/w0"), patch.clone()).await.refusal(), (500, told));
    assert_eq!(
        list().await,
        first,
        "a server that is away makes no list fail whose objects it has converted"
    );
    assert_eq!(server.delete(&format!("{V1BETA1}/w0"), json!(null)).await.refusal(), (500, told));
    assert_eq!(server.get(&format!("{V1BETA1}/w1")).await.refusal(), (500, told));
    converter.fail(None);
    server.merge(&format!("{V1BETA1}/w0"), patch).await.object();
    let before = converter.asked().len();
    let second = list().await;
    assert_eq!((&second[0]["data"], &second[1]), (&json!({"colour": "blue"}), &first[1]));
    assert_eq!(converter.asked().len(), before, "the answer to the change was kept, too");
    // Under a newer definition nothing is known.
    serve(&server, &converter, "v1", 8);
    list().await;
    assert_eq!(converter.asked().last(), Some(&3));
}

#[tokio::test]
async fn ten_thousand_objects_are_converted_by_ten_questions() {
    const OBJECTS: usize = 10_000;
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    server.create(V1, widget("a", json!({"color": "red", "text": "x".repeat(1500)}))).await;
    let resource =
        server.pipeline.registry().find("stable.example.com", "v1beta1", "widgets").unwrap().clone();
    let mut objects = vec![stored(&server, "a"); OBJECTS];
    super::super::staged::convert_all(&resource, &mut objects, &Budget::default(), None).await.unwrap();
    assert_eq!(converter.asked(), [1000; 10]);
}

#[tokio::test]
async fn a_mutating_policy_over_another_version_that_cannot_be_shown_is_misconfigured() {
    let converter = Renaming::ready();
    let server = server(&converter, "v1", 7).await;
    let registration = "/apis/admissionregistration.orch.io/v1";
    let rules = json!([{
        "apiGroups": ["stable.example.com"], "apiVersions": ["v1beta1"], "operations": ["CREATE"], "resources": ["widgets"],
    }]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": rules}, "reinvocationPolicy": "Never",
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
    }});
    server.create(&format!("{registration}/mutatingadmissionpolicies"), policy).await;
    let absent = json!({"name": "none", "parameterNotFoundAction": "Deny"});
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": absent}});
    server.create(&format!("{registration}/mutatingadmissionpolicybindings"), binding).await;
    let failure = "conversion webhook for stable.example.com/v1, Kind=Widget failed: no route";
    converter.fail(Some(failure));
    let told = format!("policy \"p\" denied request: failed to configure policy: {failure}");
    let refused = server.post(V1, widget("a", json!({"color": "red"}))).await;
    assert_eq!((refused.refusal(), &refused.json["reason"]), ((403, &*told), &json!("Forbidden")));
    converter.fail(None);
    let refused = server.post(V1, widget("a", json!({"color": "red"}))).await;
    let told = "policy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with \
                `Deny` parameterNotFoundAction";
    assert_eq!(refused.refusal(), (403, told));
}
