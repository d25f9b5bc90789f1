//! Server-side apply.

use super::*;
use orch_proto::brand::ORCH;

/// An object under apply by several managers, with a clock that ticks.
struct Cluster {
    kind: &'static str,
    live: Option<Value>,
    clock: u32,
}

impl Cluster {
    fn new(kind: &'static str) -> Self {
        Cluster { kind, live: None, clock: 0 }
    }

    fn root(&self) -> TypeId {
        root(self.kind)
    }

    fn try_apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<(), ApplyError> {
        self.clock += 1;
        let now = format!("{:03}", self.clock);
        let writer = Writer { manager, now: &now, ..writer("") };
        let options = ApplyOptions { force, brand: &ORCH };
        let mut object = apply(schema(), self.root(), self.live.clone(), config, &writer, options)?;
        object["metadata"]["uid"] = "u".into();
        self.live = Some(object);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: Value) {
        self.try_apply(manager, &config, false).unwrap();
    }

    fn refuse(&mut self, manager: &str, config: Value) -> String {
        self.try_apply(manager, &config, false).unwrap_err().to_string()
    }

    fn update(&mut self, manager: &str, mut new: Value) {
        self.clock += 1;
        let now = format!("{:03}", self.clock);
        let writer = Writer { manager, now: &now, ..writer("") };
        new["metadata"]["uid"] = "u".into();
        track_update(schema(), self.root(), self.live.as_ref(), &mut new, &writer).unwrap();
        self.live = Some(new);
    }

    /// The object without its metadata.
    fn content(&self) -> Value {
        let mut object = self.live.clone().unwrap();
        object.as_object_mut().unwrap().shift_remove("metadata");
        object
    }

    /// The field set of a manager.
    fn owned(&self, manager: &str) -> Value {
        let entries = self.live.as_ref().unwrap()["metadata"]["managedFields"].as_array().cloned();
        let entry = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
        entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }

    fn time(&self, manager: &str) -> Value {
        let entries = self.live.as_ref().unwrap()["metadata"]["managedFields"].as_array().unwrap();
        entries.iter().find(|entry| entry["manager"] == manager).unwrap()["time"].clone()
    }
}

fn data(pairs: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": pairs})
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

#[test]
fn fields_no_longer_applied_go_unless_others_own_them() {
    let mut c = Cluster::new("ConfigMap");
    c.apply("one", data(json!({"a": "1", "b": "1", "c": "1"})));
    c.apply("two", data(json!({"b": "1"})));
    c.apply("one", data(json!({"c": "1"})));
    assert_eq!(c.content()["data"], json!({"b": "1", "c": "1"}));
    assert_eq!(c.owned("one"), json!({"f:data": {"f:c": {}}}));
    assert_eq!(c.owned("two"), json!({"f:data": {"f:b": {}}}));
    c.apply("two", data(json!({})));
    c.apply("one", json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    assert_eq!(c.owned("one"), Value::Null);
}

#[test]
fn map_that_loses_its_last_entry_goes() {
    let mut c = Cluster::new("ConfigMap");
    c.apply("one", data(json!({"a": "1"})));
    c.apply("one", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}));
    assert_eq!(c.content(), json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    assert_eq!(c.live.as_ref().unwrap()["metadata"]["managedFields"], Value::Null);
}

#[test]
fn fields_of_updates_survive_an_apply_that_never_had_them() {
    let mut c = Cluster::new("ConfigMap");
    c.apply("one", data(json!({"a": "1"})));
    c.update("editor", data(json!({"a": "1", "b": "1"})));
    let live = c.live.clone().unwrap();
    assert_eq!(live["metadata"]["managedFields"].as_array().unwrap().len(), 2);
    c.apply("one", data(json!({"a": "2"})));
    assert_eq!(c.content()["data"], json!({"b": "1", "a": "2"}));
    assert_eq!(c.owned("editor"), json!({"f:data": {"f:b": {}}}));
}

#[test]
fn conflicts_name_the_owner_and_how_it_wrote() {
    let mut c = Cluster::new("ConfigMap");
    c.update("editor", data(json!({"a": "1"})));
    let message = r#"Apply failed with 1 conflict: conflict with "editor" using v1: .data.a"#;
    assert_eq!(c.refuse("one", data(json!({"a": "2"}))), message);
    c.apply("one", data(json!({"a": "1"})));
    assert_eq!(c.owned("one"), json!({"f:data": {"f:a": {}}}));
    assert_eq!(c.owned("editor"), json!({"f:data": {".": {}, "f:a": {}}}));
}

#[test]
fn force_takes_the_fields() {
    let mut c = Cluster::new("ConfigMap");
    c.update("editor", data(json!({"a": "1", "b": "1"})));
    c.try_apply("one", &data(json!({"a": "2"})), true).unwrap();
    assert_eq!(c.owned("editor"), json!({"f:data": {".": {}, "f:b": {}}}));
    assert_eq!(c.owned("one"), json!({"f:data": {"f:a": {}}}));
}

#[test]
fn first_apply_records_what_was_there_before() {
    let mut c = Cluster::new("ConfigMap");
    c.live = Some(json!({"metadata": {"name": "m", "uid": "u"}, "data": {"a": "1", "b": "1"}}));
    c.apply("one", data(json!({"a": "1"})));
    assert_eq!(c.owned(BEFORE_FIRST_APPLY), json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
    let message =
        format!(r#"Apply failed with 1 conflict: conflict with "{BEFORE_FIRST_APPLY}" using v1: .data.b"#);
    assert_eq!(c.refuse("one", data(json!({"b": "2"}))), message);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut c = Cluster::new("ConfigMap");
    c.apply("one", data(json!({"a": "1"})));
    let before = c.live.clone();
    c.apply("one", data(json!({"a": "1"})));
    assert_eq!(c.live, before);
    assert_eq!(c.time("one"), "001");
    c.apply("one", data(json!({"a": "2"})));
    assert_eq!(c.time("one"), "003");
}

#[test]
fn lists_merge_by_key_with_defaulted_keys() {
    let mut c = Cluster::new("Pod");
    let ports = |ports: Value| pod(json!({"containers": [{"name": "c", "ports": ports}]}));
    c.apply("one", ports(json!([{"containerPort": 80}])));
    c.apply("two", ports(json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}])));
    let live = c.content();
    let expected =
        json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]);
    assert_eq!(live["spec"]["containers"][0]["ports"], expected);
    c.apply("two", ports(json!([{"containerPort": 81}])));
    assert_eq!(
        c.content()["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80}, {"containerPort": 81}])
    );
    c.apply("two", pod(json!({"containers": [{"name": "c"}]})));
    assert_eq!(c.content()["spec"]["containers"][0]["ports"], json!([{"containerPort": 80}]));
}

#[test]
fn items_come_in_the_order_of_the_configuration() {
    let mut c = Cluster::new("Pod");
    let containers = |names: &str| {
        pod(json!({"containers": names.split(' ').map(|name| json!({"name": name})).collect::<Vec<_>>()}))
    };
    let names = |c: &Cluster| -> String {
        let containers = c.content()["spec"]["containers"].as_array().cloned().unwrap();
        containers.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    for (live, applied, expected) in [
        ("a b c", "c a", "b c a"),
        ("a b c", "x", "a b c x"),
        ("a b c", "a x", "a b c x"),
        ("a b c", "x a", "x a b c"),
        ("a b", "b x a", "b x a"),
        ("a b c d", "d b", "a c d b"),
    ] {
        c.live = None;
        c.apply("other", containers(live));
        c.apply("one", containers(applied));
        assert_eq!(names(&c), expected, "{live} + {applied}");
    }
}

#[test]
fn sets_merge_by_value_and_atomics_as_a_whole() {
    let finalizers = |items: Value| json!({"metadata": {"name": "m", "finalizers": items}});
    let mut c = Cluster::new("ConfigMap");
    c.apply("one", finalizers(json!(["a", "b"])));
    c.apply("two", finalizers(json!(["b", "c"])));
    c.apply("one", finalizers(json!(["a"])));
    assert_eq!(c.live.as_ref().unwrap()["metadata"]["finalizers"], json!(["a", "b", "c"]));
    c.apply("two", finalizers(json!([])));
    assert_eq!(c.live.as_ref().unwrap()["metadata"]["finalizers"], json!(["a"]));
    let mut c = Cluster::new("Role");
    c.apply("one", json!({"rules": [{"verbs": ["get"]}]}));
    let message = r#"Apply failed with 1 conflict: conflict with "one": .rules"#;
    assert_eq!(c.refuse("two", json!({"rules": [{"verbs": ["list"]}]})), message);
}

#[test]
fn conflicts_show_keys_and_values() {
    let mut c = Cluster::new("Pod");
    let image = |image: &str| {
        pod(
            json!({"containers": [{"name": "c", "image": image}], "hostAliases": [{"ip": "1", "hostnames": [image]}]}),
        )
    };
    c.apply("one", image("x"));
    let message = "Apply failed with 2 conflicts: conflicts with \"one\":\n\
                   - .spec.containers[name=\"c\"].image\n- .spec.hostAliases[ip=\"1\"].hostnames";
    assert_eq!(c.refuse("two", image("y")), message);
}

#[test]
fn malformed_configurations_are_refused_with_paths() {
    let mut c = Cluster::new("ConfigMap");
    let mut refuse = |config: Value| c.refuse("one", config);
    let prefix = "failed to create typed patch object (/m; /v1, Kind=ConfigMap): ";
    let with = |key: &str, value: Value| {
        let mut config = data(json!({}));
        config[key] = value;
        config
    };
    assert_eq!(refuse(with("dta", json!({}))), format!("{prefix}.dta: field not declared in schema"));
    assert_eq!(refuse(with("data", json!({"a": 1}))), format!("{prefix}.data.a: expected string, got 1"));
    assert_eq!(refuse(with("data", json!([]))), format!("{prefix}.data: expected map, got []"));
    assert_eq!(
        refuse(with("immutable", json!("x"))),
        format!("{prefix}.immutable: expected boolean, got \"x\"")
    );
    let two = refuse(json!({"metadata": {"finalizers": ["a", "a"], "generation": "1"}}));
    assert!(two.ends_with(
        ": errors:\n  .metadata.finalizers: duplicate entries for key [=\"a\"]\n  \
         .metadata.generation: expected numeric (int or float), got \"1\""
    ));
    let managed = json!({"metadata": {"managedFields": []}});
    assert_eq!(refuse(managed), "metadata.managedFields must be nil");
    let mut c = Cluster::new("Pod");
    let error = c.refuse("one", pod(json!({"containers": [{"image": "x"}]})));
    assert!(error.contains(".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"]"), "{error}");
}

#[test]
fn a_first_apply_joins_and_disturbs_nobody() {
    let mut c = Cluster::new("ConfigMap");
    c.apply("one", data(json!({"a": "1"})));
    let managed = |c: &Cluster| c.live.as_ref().unwrap()["metadata"]["managedFields"].clone();
    let first = managed(&c)[0].clone();
    c.apply("two", data(json!({"a": "1"})));
    c.apply("three", data(json!({"a": "1", "b": "2"})));
    let entries = managed(&c);
    let names = |entries: &Value| -> Vec<String> {
        entries
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["manager"].as_str().unwrap().to_owned())
            .collect()
    };
    // The entry of an apply without effect has no time, and sorts before those with one.
    assert_eq!(names(&entries), ["two", "one", "three"]);
    assert!(entries[0].get("time").is_none());
    assert_eq!((&entries[1], entries[2]["time"].is_string()), (&first, true));
    assert_eq!(c.owned("three"), json!({"f:data": {"f:a": {}, "f:b": {}}}));
    assert!(c.refuse("four", data(json!({"a": "2"}))).contains("conflicts with \"one\""));
    assert_eq!(managed(&c), entries);
}

#[test]
fn stored_sets_follow_a_field_that_became_atomic() {
    let mut c = Cluster::new("Deployment");
    c.apply("one", json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}));
    let live = c.live.as_mut().unwrap();
    let old = json!({"f:spec": {"f:selector": {"f:matchLabels": {".": {}, "f:a": {}}}}});
    live["metadata"]["managedFields"][0]["fieldsV1"] = old;
    c.apply("two", json!({"spec": {"replicas": 1}}));
    assert_eq!(c.owned("one"), json!({"f:spec": {"f:selector": {}}}));
}

#[test]
fn fields_that_became_atomic_are_contested_as_a_whole() {
    let mut c = Cluster::new("Deployment");
    let config = |value: &str| json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"a": value}}}});
    c.apply("one", json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}));
    c.apply("two", config("b"));
    let old = json!({"f:spec": {"f:selector": {"f:matchLabels": {".": {}, "f:a": {}}}}});
    let entries = c.live.as_mut().unwrap()["metadata"]["managedFields"].as_array_mut().unwrap();
    let first = entries.iter_mut().find(|entry| entry["manager"] == "one").unwrap();
    first["fieldsV1"] = old;
    assert!(c.refuse("two", config("c")).contains("conflict with \"one\": .spec.selector"));
}

#[test]
fn client_side_configuration_explains_its_conflicts() {
    let annotation = "kubectl.orch.io/last-applied-configuration";
    let last = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"1","b":"1"}}"#;
    let mut c = Cluster::new("ConfigMap");
    let mut object = data(json!({"a": "1", "b": "other"}));
    object["metadata"]["annotations"] = json!({annotation: last});
    c.update("kubectl-client-side-apply", object);
    let message =
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.b"#;
    assert_eq!(c.refuse("kubectl", data(json!({"a": "2", "b": "2"}))), message);
    assert!(c.refuse("other", data(json!({"a": "2"}))).contains(".data.a"));
    c.apply("kubectl", data(json!({"a": "2"})));
    let live = c.live.clone().unwrap();
    assert_eq!(live["data"], json!({"a": "2", "b": "other"}));
    let kept = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"}}\n";
    assert_eq!(live["metadata"]["annotations"][annotation], kept);
}

#[test]
fn reset_fields_are_neither_owned_nor_contested() {
    let root = root("Pod");
    let options = ApplyOptions { force: false, brand: &ORCH };
    let (status, spec) = (["status".to_owned()], ["spec".to_owned()]);
    let config = json!({"spec": {"nodeName": "a"}, "status": {"phase": "x"}});
    let live =
        apply(schema(), root, None, &config, &Writer { reset: &status, ..writer("one") }, options).unwrap();
    assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:nodeName": {}}}));
    let config = json!({"spec": {"nodeName": "b"}, "status": {"phase": "y"}});
    let live = apply(schema(), root, Some(live), &config, &Writer { reset: &spec, ..writer("two") }, options)
        .unwrap();
    assert_eq!(live["metadata"]["managedFields"][1]["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

#[test]
fn fields_that_no_object_could_be_stored_with_are_refused_before_they_are_merged() {
    let ports = |count: usize| -> Value {
        let ports: Vec<Value> = (0..count).map(|at| json!({"containerPort": at})).collect();
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": ports}]}})
    };
    let mut cluster = Cluster::new("Pod");
    cluster.apply("a", ports(10_000));
    let stored = cluster.live.clone();
    let Err(ApplyError::TooManyFields(bytes)) = cluster.try_apply("b", &ports(30_000), true) else {
        panic!("30,000 ports have an owner");
    };
    assert!((3 << 19..4 << 20).contains(&bytes), "{bytes}");
    assert_eq!(cluster.live, stored);
}
