//! Copies that follow: what comes again, what is refused, and servers that refuse for a while.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Waits until config maps are followed, and a new one of this name has come to the target.
pub(super) async fn until_followed(clusters: &Clusters, name: &str) {
    let (source, place, uid) = (&clusters.source, format!("n/{name}"), format!("u-{name}"));
    until("a watch", || !source.calls("GET /api/v1/configmaps?watch=1").is_empty()).await;
    source.put("configmaps", map(&place, &uid, "v"));
    clusters.until_target_has("configmaps", &place, Some(&uid)).await;
}

#[tokio::test]
async fn a_namespace_that_ended_and_came_again_has_its_objects() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let mut ending = object("ci", "u-ci1");
    ending["metadata"]["deletionTimestamp"] = json!("2020-01-02T03:04:05Z");
    source.put("namespaces", ending);
    source.put("configmaps", map("ci/a", "u-a1", "v"));
    let changes = async {
        until_followed(&clusters, "first").await;
        assert_eq!(target.uid("configmaps", "ci/a"), None);
        source.delete("configmaps", "ci/a");
        source.delete("namespaces", "ci");
        source.put("namespaces", object("ci", "u-ci2"));
        source.put("configmaps", map("ci/a", "u-a2", "v"));
        clusters.until_target_has("configmaps", "ci/a", Some("u-a2")).await;
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.uid("configmaps", "ci/a").as_deref(), Some("u-a2"), "the last list keeps it");
}

#[tokio::test]
async fn an_object_whose_change_was_refused_goes_when_the_source_deletes_it() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("configmaps", map("n/a", "u-a", "v"));
    source.put("configmaps", map("n/b", "u-b", "v"));
    target.script(|call, body| {
        let is_refused = call.starts_with("PUT ") && body["data"]["k"] == "bad";
        is_refused.then(|| (422, json!({"message": "it does not fit"})))
    });
    let changes = async {
        until_followed(&clusters, "first").await;
        for name in ["a", "b"] {
            source.put("configmaps", map(&format!("n/{name}"), &format!("u-{name}"), "bad"));
        }
        until_followed(&clusters, "second").await;
        assert_eq!(target.found("configmaps", "n/a").unwrap()["data"]["k"], "v");
        source.delete("configmaps", "n/a");
        clusters.until_target_has("configmaps", "n/a", None).await;
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!(code, 3, "{told}");
    let word = "configmaps n/b REFUSED, and there in a former state: it does not fit";
    assert!(told.contains(word) && !told.contains("n/a REFUSED"), "{told}");
}

#[tokio::test]
async fn a_definition_that_is_made_again_while_it_is_followed_is_replaced_with_its_objects() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put(DEFINITIONS, definition("widgets", "u-d1"));
    source.put("widgets.example.com", map("n/w", "u-w1", "v"));
    let changes = async {
        until_followed(&clusters, "first").await;
        source.delete(DEFINITIONS, "widgets.example.com");
        source.put(DEFINITIONS, definition("widgets", "u-d2"));
        source.put("widgets.example.com", map("n/w", "u-w2", "v"));
        clusters.until_target_has(DEFINITIONS, "widgets.example.com", Some("u-d2")).await;
        clusters.until_target_has("widgets.example.com", "n/w", Some("u-w2")).await;
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.uid("widgets.example.com", "n/w").as_deref(), Some("u-w2"), "{told}");
}

#[tokio::test]
async fn a_dependent_that_comes_with_the_definition_of_its_owner_is_sent_after_the_owner() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let changes = async {
        until_followed(&clusters, "first").await;
        *target.delay.lock() = 3;
        source.put(DEFINITIONS, definition("widgets", "u-d"));
        source.put("widgets.example.com", map("n/w", "u-w", "v"));
        let owner = ("example.com/v1", "Kind-widgets", "w", "u-w");
        source.put("configmaps", owned(map("n/of-w", "u-1", "v"), owner));
        clusters.until_target_has("configmaps", "n/of-w", Some("u-1")).await;
        let puts = target.calls("PUT ");
        let at = |part: &str| puts.iter().position(|call| call.contains(part));
        assert!(at("widgets/w?").is_some() && at("widgets/w?") < at("configmaps/of-w?"), "{puts:?}");
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!((code, target.collected()), (0, vec![]), "{told}");
}

/// Has the server break off each watch at `path`.
pub(super) fn break_watches(fake: &Fake, path: &'static str) {
    fake.script(move |call, _| {
        call.starts_with(&format!("GET {path}?watch=1")).then(|| (500, json!({"message": "not now"})))
    });
}

/// A pod that the replica set `r` of this uid owns.
pub(super) fn pod(uid: &str, owner: &str) -> Value {
    owned(object("n/p", uid), ("apps/v1", "ReplicaSet", "r", owner))
}

#[tokio::test]
async fn a_dependent_that_its_owner_released_outlives_it_also_where_it_was_taken_after_the_first_copy() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("replicasets.apps", object("n/r", "u-r"));
    source.put("pods", object("n/p", "u-p"));
    assert_eq!(clusters.copy().await.0, 0);
    source.put("pods", pod("u-p", "u-r"));
    let taken = async {
        until_followed(&clusters, "first").await;
        let is_taken = || target.found("pods", "n/p").unwrap()["metadata"]["ownerReferences"].is_array();
        until("the owner", is_taken).await;
    };
    assert_eq!(clusters.follow(taken).await.unwrap().0, 0);
    // The release comes over a watch that is broken: the end of the owner comes first.
    break_watches(source, "/api/v1/pods");
    let released = async {
        until_followed(&clusters, "second").await;
        source.put("pods", object("n/p", "u-p"));
        source.delete("replicasets.apps", "n/r");
        clusters.until_target_has("replicasets.apps", "n/r", None).await;
    };
    let (code, told) = clusters.follow(released).await.unwrap();
    assert_eq!((code, target.collected()), (0, vec![]), "{told}");
    assert_eq!(target.uid("pods", "n/p").as_deref(), Some("u-p"));
}

#[tokio::test]
async fn an_object_that_a_removal_puts_off_is_copied_at_once() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("replicasets.apps", object("n/r", "u-r"));
    source.put("pods", pod("u-p1", "u-r"));
    assert_eq!(clusters.copy().await.0, 0);
    // No event of the pod comes.
    break_watches(source, "/api/v1/pods");
    let changes = async {
        until_followed(&clusters, "first").await;
        source.put("pods", object("n/p", "u-p2"));
        source.delete("replicasets.apps", "n/r");
        clusters.until_target_has("replicasets.apps", "n/r", None).await;
        clusters.until_target_has("pods", "n/p", Some("u-p2")).await;
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!((code, target.collected()), (0, vec![]), "{told}");
}

#[tokio::test]
async fn an_object_that_was_begun_when_a_run_ended_is_waited_for_by_those_that_it_owns() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    assert_eq!(clusters.copy().await.0, 0);
    source.put("replicasets.apps", object("n/r", "u-r"));
    source.put("pods", pod("u-p", "u-r"));
    // The process was killed behind this line, before the object was sent.
    let text = std::fs::read_to_string(clusters.state()).unwrap();
    std::fs::write(clusters.state(), text + "copy\treplicasets.apps\tn/r\tu-r\t\t.\n").unwrap();
    break_watches(source, "/apis/apps/v1/replicasets");
    let changes = async { clusters.until_target_has("pods", "n/p", Some("u-p")).await };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!((code, target.collected()), (0, vec![]), "{told}");
    assert_eq!(target.uid("replicasets.apps", "n/r").as_deref(), Some("u-r"));
}

#[tokio::test]
async fn a_namespace_that_does_not_come_holds_no_watch_up() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    refuse(target, "namespaces/shop?");
    let changes = async {
        until_followed(&clusters, "first").await;
        source.put("namespaces", object("shop", "u-shop"));
        source.put("configmaps", map("shop/a", "u-a", "v"));
        // Its namespace is gone, and so is the object behind this event.
        source.put("configmaps", map("gone/b", "u-b", "v"));
        source.delete("configmaps", "gone/b");
        // Well within the longest wait for a namespace.
        until_followed(&clusters, "second").await;
        assert!(target.calls("PUT /api/v1/namespaces/gone/").is_empty());
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("namespaces shop REFUSED") && !told.contains("gone/b"), "{told}");
}

#[tokio::test]
async fn a_refusal_of_the_user_for_a_moment_is_waited_for() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let (watches, puts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let refusal = |code: u16| (code, json!({"message": "who are you?"}));
    source.script(move |call, _| {
        let is_watch = call.starts_with("GET /api/v1/configmaps?watch=1");
        (is_watch && watches.fetch_add(1, Ordering::Relaxed) < 1).then(|| refusal(403))
    });
    target.script(move |call, _| {
        let is_it = call.starts_with("PUT ") && call.contains("configmaps/first");
        (is_it && puts.fetch_add(1, Ordering::Relaxed) < 1).then(|| refusal(401))
    });
    let (code, told) = clusters.follow(until_followed(&clusters, "first")).await.unwrap();
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.calls("PUT /api/v1/namespaces/n/configmaps/first").len(), 3, "refused, sent, listed");
}

#[tokio::test]
async fn a_second_stop_breaks_the_last_list_off() {
    let clusters = Clusters::start().await;
    let (stop, asked) = mpsc::channel(2);
    let changes = async {
        until_followed(&clusters, "first").await;
        clusters.source.is_held.send_replace(true);
        stop.send(()).await.unwrap();
        stop.send(()).await.unwrap();
    };
    let broken = clusters.follow_until(asked, changes).await.unwrap_err().to_string();
    assert!(broken.contains("the same command goes on"), "{broken}");
    clusters.source.put("configmaps", map("n/late", "u-late", "v"));
    clusters.source.is_held.send_replace(false);
    let (code, told) = clusters.copy().await;
    assert_eq!((code, clusters.target.uid("configmaps", "n/late").is_some()), (0, true), "{told}");
}

#[tokio::test]
async fn a_copy_behind_a_follow_that_broke_off_lists_everything() {
    let clusters = Clusters::start().await;
    assert_eq!(clusters.copy().await.0, 0);
    let text = std::fs::read_to_string(clusters.state()).unwrap();
    std::fs::write(clusters.state(), text + "open\t.\n").unwrap();
    clusters.source.put("configmaps", map("n/late", "u-late", "v"));
    for _ in 0..2 {
        let (code, told) = clusters.copy().await;
        assert_eq!((code, clusters.target.uid("configmaps", "n/late").is_some()), (0, true), "{told}");
    }
}
