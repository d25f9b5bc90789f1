//! Deletion in two phases: options, preconditions, finalizers, grace.

use super::{MAPS, PODS, Server, Value, json, map, pod};

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/ns/replicasets";

fn held(name: &str, finalizers: &[&str]) -> Value {
    let mut object = map(name);
    object["metadata"]["finalizers"] = json!(finalizers);
    object
}

/// A pod on a node, with a grace period of thirty seconds.
async fn bound_pod(server: &Server, name: &str) {
    let mut object = pod(name);
    object["spec"]["nodeName"] = json!("n1");
    server.create(PODS, object).await;
}

fn grace(object: &Value) -> (&str, i64) {
    let metadata = &object["metadata"];
    (
        metadata["deletionTimestamp"].as_str().unwrap_or_default(),
        metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(-1),
    )
}

#[tokio::test(start_paused = true)]
async fn options_count_in_the_query_and_in_the_body() {
    let server = Server::new().await;
    let created = server.create(MAPS, map("a")).await;
    let (uid, version) =
        (created["metadata"]["uid"].as_str().unwrap(), &created["metadata"]["resourceVersion"]);
    let path = format!("{MAPS}/a");
    let contradictions = [
        (
            "gracePeriodSeconds=3",
            json!({"gracePeriodSeconds": 4}),
            "gracePeriodSeconds is 3 in the query and 4 in the body",
        ),
        (
            "orphanDependents=false",
            json!({"orphanDependents": true}),
            "orphanDependents is false in the query and true in the body",
        ),
        (
            "propagationPolicy=Orphan",
            json!({"propagationPolicy": "Foreground"}),
            "propagationPolicy is \"Orphan\" in the query and \"Foreground\" in the body",
        ),
        ("uid=x", json!({"preconditions": {"uid": "y"}}), "uid is \"x\" in the query and \"y\" in the body"),
        (
            "resourceVersion=1",
            json!({"preconditions": {"resourceVersion": "2"}}),
            "resourceVersion is \"1\" in the query and \"2\" in the body",
        ),
    ];
    for (query, body, message) in contradictions {
        let refused = server.delete(&format!("{path}?{query}"), body).await;
        assert_eq!(refused.refusal(), (400, message));
    }
    for (query, body, code) in [
        ("propagationPolicy=Nope", json!({}), 422),
        ("propagationPolicy=Orphan", json!({"orphanDependents": true}), 422),
        ("uid=other", json!({}), 409),
        ("uid=other", json!({"preconditions": {"resourceVersion": version}}), 409),
        ("resourceVersion=1", json!({"preconditions": {"uid": uid}}), 409),
        ("gracePeriodSeconds=x", json!({}), 400),
        ("dryRun=All", json!({}), 200),
        ("dryRun", json!({"dryRun": ["All"], "propagationPolicy": "Background"}), 200),
    ] {
        assert_eq!(
            server.delete(&format!("{path}?{query}"), body.clone()).await.code,
            code,
            "{query} {body}"
        );
        assert_eq!(server.get(&path).await.code, 200, "{query} {body} deleted the object");
    }
    let agreed = json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"});
    let done = server.delete(&format!("{path}?uid={uid}&propagationPolicy=Background"), agreed).await;
    assert_eq!((done.code, server.get(&path).await.code), (200, 404));
}

#[tokio::test(start_paused = true)]
async fn options_in_the_query_count_beside_the_body_of_a_collection() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    for (query, body, code) in [
        ("dryRun=All", json!({}), 200),
        ("propagationPolicy=Orphan", json!({"propagationPolicy": "Background"}), 400),
        ("uid=other", json!({}), 409),
        ("resourceVersion=0&dryRun=All", json!({"gracePeriodSeconds": 0}), 200),
    ] {
        assert_eq!(
            server.delete(&format!("{MAPS}?{query}"), body.clone()).await.code,
            code,
            "{query} {body}"
        );
        assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 200, "{query} {body} deleted the object");
    }
    let done = server.delete(&format!("{MAPS}?resourceVersion=0"), json!({})).await;
    assert_eq!(done.code, 200, "the version is that of the list");
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn options_of_any_group_are_taken() {
    let server = Server::new().await;
    for (name, version) in [("a", "v1"), ("b", "apps/v1"), ("c", "meta.orch.io/v1"), ("d", "policy/v1")] {
        server.create(MAPS, map(name)).await;
        let options =
            json!({"kind": "DeleteOptions", "apiVersion": version, "propagationPolicy": "Background"});
        assert_eq!(server.delete(&format!("{MAPS}/{name}"), options).await.code, 200, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_an_unknown_kind_or_version_delete_nothing() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let registered = |kind: &str, version: &str| {
        format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"meta.orch.io\"")
    };
    let meta = "meta.orch.io/v1";
    for (head, message) in [
        (json!({"kind": "Pod", "apiVersion": "v1"}), registered("Pod", "v1")),
        (json!({"kind": "Pod"}), registered("Pod", meta)),
        (json!({"kind": "deleteoptions", "apiVersion": "v1"}), registered("deleteoptions", "v1")),
        (json!({"kind": "DeleteOptions", "apiVersion": "v9"}), registered("DeleteOptions", "v9")),
        (json!({"apiVersion": "example.com/v1"}), registered("DeleteOptions", "example.com/v1")),
        (json!({"apiVersion": "apps/v1/x"}), registered("DeleteOptions", "apps/v1/x")),
        (json!({"apiVersion": "meta.orch.io/v9"}), registered("DeleteOptions", "meta.orch.io/v9")),
    ] {
        for path in [format!("{MAPS}/a"), MAPS.to_owned(), format!("{MAPS}/absent")] {
            let refused = server.delete(&path, head.clone()).await;
            assert_eq!(refused.refusal(), (400, message.as_str()), "{path}");
        }
        let yaml = format!("kind: {}\napiVersion: {}\n", head["kind"], head["apiVersion"]);
        let refused = server.send(http::Method::DELETE, MAPS, super::YAML, &yaml).await;
        assert_eq!(refused.refusal(), (400, message.as_str()), "{yaml}");
    }
    let long = json!({"kind": "x".repeat(100_000)});
    let refused = server.delete(MAPS, long).await;
    assert!(refused.code == 400 && refused.refusal().1.len() < 1000, "{}", refused.json);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn preconditions_must_hold() {
    let server = Server::new().await;
    let created = server.create(MAPS, map("a")).await;
    let (uid, version) = (&created["metadata"]["uid"], &created["metadata"]["resourceVersion"]);
    let path = format!("{MAPS}/a");
    let refused = server.delete(&path, json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(
        refused.refusal(),
        (
            409,
            format!(
                "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match \
                 the UID in record ({}). The object might have been deleted and then recreated",
                uid.as_str().unwrap()
            )
            .as_str()
        )
    );
    let refused = server.delete(&path, json!({"preconditions": {"resourceVersion": "1"}})).await;
    assert_eq!(refused.code, 409);
    // An empty precondition counts.
    let refused = server.delete(&path, json!({"preconditions": {"uid": ""}})).await;
    assert_eq!(refused.code, 409);
    let gone = server.delete(&path, json!({"preconditions": {"uid": uid, "resourceVersion": version}})).await;
    assert_eq!(gone.code, 200);
}

#[tokio::test(start_paused = true)]
async fn policies_add_and_remove_finalizers() {
    let server = Server::new().await;
    let cases: [(&[&str], Value, &[&str]); 9] = [
        (&["a.b/c"], json!({}), &["a.b/c"]),
        (&["a.b/c"], json!({"propagationPolicy": "Orphan"}), &["a.b/c", "orphan"]),
        (&["a.b/c"], json!({"propagationPolicy": "Foreground"}), &["a.b/c", "foregroundDeletion"]),
        (
            &["foregroundDeletion", "a.b/c"],
            json!({"propagationPolicy": "Foreground"}),
            &["foregroundDeletion", "a.b/c"],
        ),
        (&["orphan", "a.b/c"], json!({"propagationPolicy": "Foreground"}), &["a.b/c", "foregroundDeletion"]),
        (&["orphan", "a.b/c"], json!({}), &["orphan", "a.b/c"]),
        (&["orphan", "a.b/c"], json!({"propagationPolicy": "Background"}), &["a.b/c"]),
        (&["foregroundDeletion", "a.b/c"], json!({"orphanDependents": true}), &["a.b/c", "orphan"]),
        (&["foregroundDeletion", "a.b/c"], json!({"orphanDependents": false}), &["a.b/c"]),
    ];
    for (at, (before, options, after)) in cases.into_iter().enumerate() {
        let name = format!("m{at}");
        server.create(MAPS, held(&name, before)).await;
        let marked = server.delete(&format!("{MAPS}/{name}"), options.clone()).await;
        assert_eq!(marked.json["metadata"]["finalizers"], json!(after), "{before:?} {options}");
        assert_eq!(grace(&marked.json), ("2026-01-02T02:49:05Z", 0));
        // 202 for a mark with `orphanDependents: false`.
        let code = if options["orphanDependents"] == json!(false) { 202 } else { 200 };
        assert_eq!(marked.code, code, "{options}");
    }
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": false});
    assert_eq!(server.delete(&format!("{MAPS}/m0"), both).await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn delete_of_a_job_warns_that_its_pods_stay() {
    let server = Server::new().await;
    let jobs = "/apis/batch/v1/namespaces/ns/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    for (at, (options, is_told)) in [
        (json!({}), true),
        (json!({"propagationPolicy": "Orphan"}), false),
        (json!({"propagationPolicy": "Background"}), false),
        (json!({"orphanDependents": true}), false),
    ]
    .into_iter()
    .enumerate()
    {
        let job = json!({"metadata": {"name": format!("j{at}")}, "spec": {"template": template}});
        assert_eq!(server.post(jobs, job).await.code, 201);
        for (path, code) in
            [(format!("{jobs}/j{at}"), 200), (format!("{jobs}/none"), 404), (jobs.to_owned(), 200)]
        {
            let reply = server.delete(&path, options.clone()).await;
            let told: Vec<&str> = reply.warnings.iter().map(String::as_str).collect();
            let expected = "child pods are preserved by default when jobs are deleted";
            assert_eq!((reply.code, told.len()), (code, usize::from(is_told)), "{path} {options}: {told:?}");
            assert!(told.iter().all(|told| told.starts_with(expected)), "{told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_delete_changes_nothing_but_the_policy() {
    let server = Server::new().await;
    server.create(MAPS, held("a", &["a.b/c"])).await;
    let path = format!("{MAPS}/a");
    let first = server.delete(&path, json!({})).await.object();
    server.advance(10);
    let second = server.delete(&path, json!({})).await.object();
    assert_eq!(first, second, "not even the version");
    let third = server.delete(&path, json!({"propagationPolicy": "Orphan"})).await.object();
    assert_eq!(third["metadata"]["finalizers"], json!(["a.b/c", "orphan"]));
    assert_eq!(grace(&third), grace(&first));
}

#[tokio::test(start_paused = true)]
async fn generation_rises_with_the_first_mark_only() {
    let server = Server::new().await;
    let set = json!({
        "metadata": {"name": "r", "finalizers": ["a.b/c"]},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}
    });
    assert_eq!(server.create(REPLICA_SETS, set).await["metadata"]["generation"], 1);
    let path = format!("{REPLICA_SETS}/r");
    assert_eq!(server.delete(&path, json!({})).await.object()["metadata"]["generation"], 2);
    assert_eq!(server.delete(&path, json!({})).await.object()["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_has_its_time() {
    let server = Server::new().await;
    bound_pod(&server, "p").await;
    let path = format!("{PODS}/p");
    let marked = server.delete(&path, json!({})).await.object();
    assert_eq!(grace(&marked), ("2026-01-02T02:49:35Z", 30));
    let again = server.delete(&path, json!({"propagationPolicy": "Foreground"})).await.object();
    assert_eq!(again, marked, "while it ends nothing is changed, finalizers neither");
    let longer = server.delete(&path, json!({"gracePeriodSeconds": 60})).await.object();
    assert_eq!(longer, marked);
    server.advance(5);
    let shorter = server.delete(&path, json!({"gracePeriodSeconds": 10})).await.object();
    assert_eq!(grace(&shorter), ("2026-01-02T02:49:15Z", 10), "counted from the first delete");
    server.advance(20);
    let over = server.delete(&path, json!({"gracePeriodSeconds": 4})).await.object();
    assert_eq!(grace(&over), ("2026-01-02T02:49:30Z", 1), "never into the past, never nothing");
    let gone = server.delete(&path, json!({"gracePeriodSeconds": 0})).await.object();
    assert_eq!((gone["kind"].as_str(), gone["metadata"]["name"].as_str()), (None, Some("p")));
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn grace_given_with_the_first_delete() {
    let server = Server::new().await;
    for (seconds, expected) in [(7, ("2026-01-02T02:49:12Z", 7)), (-5, ("2026-01-02T02:49:06Z", 1))] {
        let name = format!("p{}", seconds + 10);
        bound_pod(&server, &name).await;
        let marked =
            server.delete(&format!("{PODS}/{name}"), json!({"gracePeriodSeconds": seconds})).await.object();
        assert_eq!(grace(&marked), expected);
    }
    bound_pod(&server, "at-once").await;
    server.delete(&format!("{PODS}/at-once?gracePeriodSeconds=0"), json!(null)).await.object();
    assert_eq!(server.get(&format!("{PODS}/at-once")).await.code, 404);
    server.create(PODS, pod("unbound")).await;
    server.delete(&format!("{PODS}/unbound"), json!({})).await.object();
    assert_eq!(server.get(&format!("{PODS}/unbound")).await.code, 404, "nobody runs it");
}

#[tokio::test(start_paused = true)]
async fn a_held_pod_stays_when_its_time_is_over() {
    let server = Server::new().await;
    let mut object = pod("p");
    object["spec"]["nodeName"] = json!("n1");
    object["metadata"]["finalizers"] = json!(["a.b/c"]);
    server.create(PODS, object).await;
    let path = format!("{PODS}/p");
    server.delete(&path, json!({})).await.object();
    let none = json!({"metadata": {"finalizers": null}});
    let released = server.merge(&path, none.clone()).await.object();
    assert_eq!(grace(&released).1, 30, "it still has time");
    assert_eq!(server.get(&path).await.code, 200);
    let mut object = pod("q");
    object["metadata"]["finalizers"] = json!(["a.b/c"]);
    server.create(PODS, object).await;
    let path = format!("{PODS}/q");
    assert_eq!(grace(&server.delete(&path, json!({})).await.object()).1, 0);
    assert_eq!(server.get(&path).await.code, 200);
    assert_eq!(server.merge(&path, none).await.code, 200);
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn some_kinds_show_what_was_deleted() {
    let server = Server::new().await;
    let accounts = "/api/v1/namespaces/ns/serviceaccounts";
    let created = server.create(accounts, json!({"metadata": {"name": "s"}})).await;
    let gone = server.delete(&format!("{accounts}/s"), json!({})).await.object();
    assert_eq!(gone["metadata"]["uid"], created["metadata"]["uid"]);
    assert_ne!(gone["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let claims = "/api/v1/namespaces/ns/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    server.create(claims, claim).await;
    let kept = server.delete(&format!("{claims}/c"), json!({})).await.object();
    assert_eq!(kept["metadata"]["name"], "c");
    server.create(MAPS, map("m")).await;
    assert_eq!(server.delete(&format!("{MAPS}/m"), json!({})).await.json["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn finalizers_of_a_terminating_object_only_go() {
    let server = Server::new().await;
    server.create(MAPS, held("a", &["a.b/c", "a.b/d"])).await;
    let path = format!("{MAPS}/a");
    server.delete(&path, json!({})).await.object();
    let added = json!({"metadata": {"finalizers": ["a.b/c", "a.b/z", "a.b/y"]}});
    let refused = server.merge(&path, added).await;
    assert!(
        refused.causes()[0].contains(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{\"a.b/y\", \"a.b/z\"}"
        ),
        "{:?}",
        refused.causes()
    );
    let swapped = server.merge(&path, json!({"metadata": {"finalizers": ["a.b/d", "a.b/c"]}})).await.object();
    assert_eq!(swapped["metadata"]["finalizers"], json!(["a.b/d", "a.b/c"]));
    let last = server.merge(&path, json!({"metadata": {"finalizers": []}})).await.object();
    assert_eq!(last["metadata"]["resourceVersion"], swapped["metadata"]["resourceVersion"], "as it was sent");
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_delete_shows_the_mark() {
    let server = Server::new().await;
    server.create(MAPS, held("a", &["a.b/c"])).await;
    let path = format!("{MAPS}/a");
    let shown =
        server.delete(&path, json!({"dryRun": ["All"], "propagationPolicy": "Orphan"})).await.object();
    assert_eq!(shown["metadata"]["finalizers"], json!(["a.b/c", "orphan"]));
    assert_eq!(grace(&shown).1, 0);
    assert!(server.get(&path).await.json["metadata"].get("deletionTimestamp").is_none());
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_deleted_in_a_way_of_their_own() {
    let server = Server::new().await;
    let cases = [
        (json!({}), json!(null)),
        (json!({"orphanDependents": false}), json!(["foregroundDeletion"])),
        (json!({"propagationPolicy": "Foreground"}), json!(["foregroundDeletion"])),
        (json!({"orphanDependents": true}), json!(["orphan"])),
        (json!({"propagationPolicy": "Background"}), json!(null)),
    ];
    for (at, (options, finalizers)) in cases.into_iter().enumerate() {
        let name = format!("going-{at}");
        server.create("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        let deleted = server.delete(&format!("/api/v1/namespaces/{name}"), options).await.object();
        assert_eq!(deleted["metadata"]["finalizers"], finalizers, "{at}");
        assert_eq!(deleted["status"]["phase"], "Terminating");
    }
    server.create("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
    let refused = server.delete("/api/v1/namespaces/a", json!({"preconditions": {"uid": "u"}})).await;
    let (code, message) = refused.refusal();
    assert_eq!(code, 409);
    assert!(
        message.starts_with(
            "Operation cannot be fulfilled on namespaces \"a\": Precondition failed: UID in precondition: u, UID in object meta: "
        ),
        "{message}"
    );
}
