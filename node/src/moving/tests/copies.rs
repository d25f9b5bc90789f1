//! Copies without following: their order, what is refused, and what is gone when they go on.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::export;
use super::*;
use crate::cli::ExportArgs;

/// The objects that were sent to the target, in order.
fn sent(clusters: &Clusters) -> Vec<String> {
    let calls = clusters.target.calls("PUT ");
    let name = |call: &String| call.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
    calls.iter().map(name).collect()
}

/// Has the next run list every kind again: it was broken off before their ends.
fn break_off(clusters: &Clusters) {
    let text = std::fs::read_to_string(clusters.state()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("kind\t"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(clusters.state(), text).unwrap();
}

fn token(name: &str, account: (&str, &str)) -> Value {
    let mut secret = object(&format!("n/{name}"), &format!("u-{name}"));
    secret["type"] = json!("orch.io/service-account-token");
    secret["metadata"]["annotations"] =
        json!({"orch.io/service-account.name": account.0, "orch.io/service-account.uid": account.1});
    secret
}

#[tokio::test]
async fn a_secret_with_a_token_follows_its_account() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    target.put("serviceaccounts", object("n/default", "own"));
    source.put("serviceaccounts", object("n/default", "u-default"));
    source.put("secrets", token("of-default", ("default", "u-default")));
    source.put("secrets", token("of-nobody", ("default", "u-gone")));
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 0, "{told}");
    let sent = sent(&clusters);
    let at = |name: &str| sent.iter().position(|sent| sent == name);
    assert!(at("default") < at("of-default") && at("of-default").is_some(), "{sent:?}");
    assert_eq!(at("of-nobody"), None, "the target would delete it");
    assert_eq!(target.collected(), vec![], "no token came before its account");
    assert!(told.contains("secrets: 1 left out"), "{told}");
}

#[tokio::test]
async fn refused_objects_are_tried_again_by_each_run_with_their_dependents() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("configmaps", map("n/a", "u-a", "v"));
    source.put("configmaps", map("n/b", "u-b", "v"));
    source.put("pods", owned(object("n/p", "u-p"), ("v1", "ConfigMap", "a", "u-a")));
    refuse(target, "configmaps/a");
    for _ in 0..2 {
        let (code, told) = clusters.copy().await;
        assert_eq!(code, 3, "{told}");
        assert!(told.contains("configmaps n/a REFUSED: it does not fit"), "{told}");
        assert!(told.contains("pods n/p REFUSED: its owner was refused"), "{told}");
        assert_eq!(
            (target.uid("configmaps", "n/b"), target.uid("pods", "n/p")),
            (Some("u-b".to_owned()), None)
        );
    }
    target.end_script();
    target.forget_calls();
    let (code, told) = clusters.copy().await;
    assert_eq!((code, sent(&clusters)), (0, vec!["a".to_owned(), "p".to_owned()]), "{told}");
    let (code, told) = clusters.copy().await;
    assert_eq!((code, told.contains("REFUSED")), (0, false), "{told}");
}

#[tokio::test]
async fn a_refused_object_that_is_gone_at_the_source_is_refused_no_more() {
    let clusters = Clusters::start().await;
    clusters.source.put("configmaps", map("n/a", "u-a", "v"));
    refuse(&clusters.target, "configmaps/a");
    assert_eq!(clusters.copy().await.0, 3);
    clusters.source.delete("configmaps", "n/a");
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 0, "{told}");
}

#[tokio::test]
async fn an_object_that_was_made_again_under_its_name_replaces_the_first_one() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let pod = |uid: &str, owner: &str| owned(object("n/p-0", uid), ("apps/v1", "ReplicaSet", "p", owner));
    source.put("replicasets.apps", object("n/p", "u-1"));
    source.put("pods", pod("u-p1", "u-1"));
    source.put(DEFINITIONS, definition("widgets", "u-d1"));
    source.put("widgets.example.com", map("n/w", "u-w1", "v"));
    assert_eq!(clusters.copy().await.0, 0);
    break_off(&clusters);
    source.put("replicasets.apps", object("n/p", "u-2"));
    source.put("pods", pod("u-p2", "u-2"));
    source.delete(DEFINITIONS, "widgets.example.com");
    source.put(DEFINITIONS, definition("widgets", "u-d2"));
    source.put("widgets.example.com", map("n/w", "u-w2", "v"));
    target.forget_calls();
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.uid("replicasets.apps", "n/p").as_deref(), Some("u-2"));
    assert_eq!(target.uid("pods", "n/p-0").as_deref(), Some("u-p2"));
    assert_eq!(target.uid(DEFINITIONS, "widgets.example.com").as_deref(), Some("u-d2"));
    assert_eq!(target.uid("widgets.example.com", "n/w").as_deref(), Some("u-w2"));
    let removed = target.calls("DELETE ");
    let at = |part: &str| removed.iter().position(|call| call.contains(part)).unwrap();
    assert!(at("pods/p-0") < at("replicasets/p"), "dependents go first: {removed:?}");
    assert!(at("widgets/w") < at("customresourcedefinitions/"), "objects go first: {removed:?}");
}

#[tokio::test]
async fn an_owner_that_no_list_has_brought_is_asked_for() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("replicasets.apps", object("n/late", "u-late"));
    source.put("pods", owned(object("n/of-late", "u-1"), ("apps/v1", "ReplicaSet", "late", "u-late")));
    source.put("pods", owned(object("n/of-gone", "u-2"), ("apps/v1", "ReplicaSet", "gone", "u-gone")));
    source.put("leases.coordination.orch.io", object("n/l", "u-lease"));
    let lease = ("coordination.orch.io/v1", "Lease", "l", "u-lease");
    source.put("pods", owned(object("n/of-lease", "u-3"), lease));
    // Made after its list and before that of the pods.
    source.script(|call, _| {
        let is_list = call.starts_with("GET /apis/apps/v1/replicasets?");
        is_list.then(|| (200, json!({"items": [], "metadata": {"resourceVersion": "1"}})))
    });
    let (code, told) = clusters.copy().await;
    let sent = sent(&clusters);
    let at = |name: &str| sent.iter().position(|sent| sent == name);
    assert!(at("late").is_some() && at("late") < at("of-late"), "{sent:?}");
    assert!(at("of-gone").is_some(), "{sent:?}");
    assert_eq!(target.uid("pods", "n/of-lease"), None, "the target would collect it");
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("pods n/of-lease REFUSED: its owner does not move"), "{told}");
}

#[tokio::test]
async fn a_refused_definition_does_not_keep_others_from_being_waited_for() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    for plural in ["bad", "good"] {
        source.put(DEFINITIONS, definition(plural, &format!("u-{plural}")));
        source.put(&format!("{plural}.example.com"), map("n/x", &format!("u-{plural}-x"), "v"));
    }
    // In force a while after they were stored.
    *target.delay.lock() = 3;
    refuse(target, "customresourcedefinitions/bad.");
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 3, "{told}");
    assert_eq!(target.uid("good.example.com", "n/x").as_deref(), Some("u-good-x"), "{told}");
    assert!(told.contains("bad.example.com: 1 DO NOT FIT"), "{told}");
}

#[tokio::test]
async fn a_list_removes_nothing_that_the_source_has_made_since() {
    for listed in [json!([]), json!([object("n/r", "u-0")])] {
        let clusters = Clusters::start().await;
        let (source, target) = (&clusters.source, &clusters.target);
        source.put("replicasets.apps", object("n/r", "u-r"));
        source.put("pods", owned(object("n/p", "u-p"), ("apps/v1", "ReplicaSet", "r", "u-r")));
        assert_eq!(clusters.copy().await.0, 0);
        break_off(&clusters);
        let list = json!({"items": listed, "metadata": {"resourceVersion": "1"}});
        source.script(move |call, _| {
            call.starts_with("GET /apis/apps/v1/replicasets?").then(|| (200, list.clone()))
        });
        assert_eq!(clusters.copy().await.0, 0);
        assert_eq!(target.uid("replicasets.apps", "n/r").as_deref(), Some("u-r"));
        assert!(target.calls("DELETE ").is_empty(), "it was removed for a while");
        assert_eq!(target.collected(), vec![]);
    }
}

#[tokio::test]
async fn objects_that_a_removal_has_put_off_come_with_the_next_run() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("replicasets.apps", object("n/r", "u-r"));
    source.put("pods", owned(object("n/p", "u-p1"), ("apps/v1", "ReplicaSet", "r", "u-r")));
    assert_eq!(clusters.copy().await.0, 0);
    // Only the replica sets are listed again.
    let text = std::fs::read_to_string(clusters.state()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("kind\treplicasets.apps\t"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(clusters.state(), text).unwrap();
    source.delete("replicasets.apps", "n/r");
    source.put("pods", object("n/p", "u-p2"));
    target.script(|call, _| {
        let is_it = call.starts_with("PUT ") && call.contains("pods/p");
        is_it.then(|| (401, json!({"message": "who are you?"})))
    });
    assert!(clusters.try_run(&clusters.arguments()).await.is_err(), "it is broken off");
    assert_eq!(target.uid("pods", "n/p"), None);
    target.end_script();
    let (code, told) = clusters.copy().await;
    assert_eq!((code, target.uid("pods", "n/p").as_deref()), (0, Some("u-p2")), "{told}");
    let (code, told) = clusters.copy().await;
    assert_eq!((code, told.contains("REFUSED")), (0, false), "{told}");
}

#[tokio::test]
async fn dependents_of_an_object_of_an_unserved_kind_wait_for_the_kind() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put(DEFINITIONS, definition("bad", "u-bad"));
    source.put("bad.example.com", map("n/x", "u-x", "v"));
    source.put("configmaps", owned(map("n/of-x", "u-1", "v"), ("example.com/v1", "Kind-bad", "x", "u-x")));
    source.put("configmaps", owned(map("n/of-none", "u-2", "v"), ("example.com/v1", "Kind-no", "y", "u-y")));
    refuse(target, "customresourcedefinitions/bad.");
    let (code, told) = clusters.copy().await;
    assert_eq!((code, target.uid("configmaps", "n/of-x")), (3, None), "{told}");
    assert!(told.contains("configmaps n/of-x REFUSED: the target does not serve"), "{told}");
    assert!(target.uid("configmaps", "n/of-none").is_some(), "the source does not serve the kind either");
    target.end_script();
    target.forget_calls();
    let (code, told) = clusters.copy().await;
    assert_eq!((code, sent(&clusters)[1..].to_vec()), (0, vec!["x".to_owned(), "of-x".to_owned()]), "{told}");
    assert!(target.collected().is_empty() && target.uid("configmaps", "n/of-x").is_some());
}

#[tokio::test]
async fn a_list_that_the_source_forgets_goes_on_and_its_objects_are_sent_once() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    for at in 0..100 {
        source.put("configmaps", map(&format!("n/m{at:02}"), &format!("u-{at}"), "v"));
    }
    let (asked, again) = (Arc::new(AtomicUsize::new(0)), source.clone());
    source.script(move |call, _| {
        let token = call.strip_prefix("GET /api/v1/configmaps?limit=40&continue=")?;
        if token.is_empty() || asked.fetch_add(1, Ordering::Relaxed) > 0 {
            return None;
        }
        // Changed behind the back of the list, which has shown it.
        again.put("configmaps", map("n/m00", "u-0", "changed"));
        let token = json!({"continue": "n/m39"});
        Some((410, json!({"reason": "Expired", "code": 410, "metadata": token})))
    });
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.found("configmaps", "n/m00").unwrap()["data"]["k"], "changed");
    assert!(target.uid("configmaps", "n/m99").is_some());
    let sent = sent(&clusters);
    let count = |name: &str| sent.iter().filter(|sent| *sent == name).count();
    assert_eq!((count("m00"), count("m01"), count("m99")), (2, 1, 1));
}

#[tokio::test]
async fn an_object_with_a_finalizer_in_an_ending_namespace_is_reported() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let mut ending = object("old", "u-old");
    ending["metadata"]["deletionTimestamp"] = json!("2020-01-02T03:04:05Z");
    ending["spec"] = json!({"finalizers": ["orch"]});
    source.put("namespaces", ending);
    source.put("configmaps", map("old/free", "u-1", "v"));
    let mut held = object("old/held", "u-2");
    held["metadata"]["finalizers"] = json!(["example.com/balancer"]);
    source.put("services", held);
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 3, "{told}");
    assert!(
        told.contains("services old/held STAYS BEHIND") && told.contains("example.com/balancer"),
        "{told}"
    );
    assert!(!told.contains("namespaces old STAYS"), "{told}");
    assert_eq!(target.uid("services", "old/held"), None);
}

#[tokio::test]
async fn objects_that_a_dry_run_does_not_try_keep_it_from_success() {
    let clusters = Clusters::start().await;
    clusters.source.put(DEFINITIONS, definition("widgets", "u-d"));
    let arguments = ImportArgs { dry_run: true, ..clusters.arguments() };
    assert_eq!(clusters.run(&arguments).await.0, 0, "there is none");
    clusters.source.put("widgets.example.com", map("n/w", "u-w", "v"));
    let (code, told) = clusters.run(&arguments).await;
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("widgets.example.com: 1 come with their definition, and WERE NOT TRIED"), "{told}");
    assert_eq!(clusters.target.uid(DEFINITIONS, "widgets.example.com"), None);
}

/// Exports into `dir`, or as a stream; returns that and the report.
async fn export_to(source: &Fake, dir: Option<PathBuf>) -> anyhow::Result<(String, String)> {
    let arguments = ExportArgs { kubeconfig: None, context: None, dir, exact: false, with_events: false };
    let access = source.access.lock().take().unwrap();
    let (mut out, mut report) = (Vec::new(), Vec::new());
    let done = export::carry_out(&arguments, &access, &mut out, &mut report).await;
    *source.access.lock() = Some(access);
    done?;
    Ok((String::from_utf8(out)?, String::from_utf8(report)?))
}

#[tokio::test]
async fn an_export_into_a_directory_goes_on_where_it_broke_off_and_a_later_one_brings_it_up_to_date() {
    let clusters = Clusters::start().await;
    let source = &clusters.source;
    for name in ["a", "b"] {
        source.put("configmaps", map(&format!("n/{name}"), &format!("u-{name}"), "v"));
    }
    source.put("secrets", object("n/s", "u-s"));
    let dir = clusters.folder.path().join("manifests");
    let export = || export_to(source, Some(dir.clone()));
    let is_there = |path: &str| dir.join(path).exists();
    source.script(|call, _| {
        call.starts_with("GET /api/v1/secrets?").then(|| (403, json!({"message": "not you"})))
    });
    assert!(export().await.unwrap_err().to_string().contains("not you"));
    assert!(is_there("configmaps/n/a.yaml") && !is_there("secrets/n/s.yaml"));
    source.end_script();
    source.forget_calls();
    let (_, report) = export().await.unwrap();
    assert!(report.contains("going on behind") && report.contains("5 objects written"), "{report}");
    assert!(source.calls("GET /api/v1/configmaps?").is_empty() && is_there("secrets/n/s.yaml"));

    source.delete("configmaps", "n/b");
    source.put("configmaps", map("n/c", "u-c", "v"));
    let (_, report) = export().await.unwrap();
    assert!(!report.contains("going on"), "{report}");
    let left = ["a", "b", "c"].map(|name| is_there(&format!("configmaps/n/{name}.yaml")));
    assert_eq!(left, [true, false, true], "{report}");
}

#[tokio::test]
async fn an_export_of_a_list_that_begins_anew_writes_each_object_once() {
    let clusters = Clusters::start().await;
    let source = &clusters.source;
    for at in 0..50 {
        source.put("configmaps", map(&format!("n/m{at:02}"), &format!("u-{at}"), "v"));
    }
    source.put("pods", owned(object("n/p", "u-p"), ("v1", "ReplicaSet", "r", "u-r")));
    let asked = AtomicUsize::new(0);
    source.script(move |call, _| {
        let token = call.strip_prefix("GET /api/v1/configmaps?limit=40&continue=")?;
        let is_first = !token.is_empty() && asked.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then(|| (410, json!({"reason": "Expired", "code": 410})))
    });
    let (out, report) = export_to(source, None).await.unwrap();
    assert_eq!(out.matches("name: m").count(), 50, "{out}");
    assert_eq!(out.matches("\nkind: ").count(), 52, "{out}");
    assert!(report.contains("52 objects written") && report.contains("pods: 1 left out"), "{report}");
}

#[tokio::test]
async fn a_later_run_copies_what_has_changed_in_kinds_that_were_done_and_nothing_else() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    for name in ["changed", "gone", "kept", "renewed"] {
        source.put("configmaps", map(&format!("n/{name}"), &format!("u-{name}"), "v"));
    }
    assert_eq!(clusters.copy().await.0, 0);
    target.forget_calls();
    source.put("configmaps", map("n/changed", "u-changed", "other"));
    source.delete("configmaps", "n/gone");
    source.delete("configmaps", "n/renewed");
    source.put("configmaps", map("n/renewed", "u-renewed2", "v"));
    source.put("configmaps", map("n/new", "u-new", "v"));
    let (code, told) = clusters.copy().await;
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.found("configmaps", "n/changed").unwrap()["data"]["k"], "other");
    let uid = |name: &str| target.uid("configmaps", &format!("n/{name}"));
    assert_eq!(
        [uid("gone"), uid("renewed"), uid("new")],
        [None, Some("u-renewed2".into()), Some("u-new".into())]
    );
    let puts = target.calls("PUT ");
    assert!(puts.len() == 3 && !puts.iter().any(|call| call.contains("/kept?")), "{puts:?}");
}
