//! Owners that go while a write of a dependent is under way: the target's garbage collector takes nothing that the source keeps.
//!
//! In each case a config map hangs from the dependent, a pod: a collector that takes the pod for a moment takes the map for good.

use super::follows::{break_watches, pod, until_followed};
use super::*;

/// Longer than a removal that waits for nothing.
const MOMENT: Duration = Duration::from_millis(300);

/// Two clusters; the source has a pod of the replica set `r`, and a config map of that pod.
async fn with_chain() -> Clusters {
    let clusters = Clusters::start().await;
    let source = &clusters.source;
    source.put("replicasets.apps", object("n/r", "u-r"));
    source.put("pods", pod("u-p", "u-r"));
    source.put("configmaps", of_pod());
    clusters
}

fn of_pod() -> Value {
    owned(map("n/of-p", "u-1", "v"), ("v1", "Pod", "p", "u-p"))
}

/// The pod with a label, as the replica set owned it.
fn labelled() -> Value {
    let mut pod = pod("u-p", "u-r");
    pod["metadata"]["labels"] = json!({"a": "b"});
    pod
}

/// The pod as it is without an owner.
fn released() -> Value {
    object("n/p", "u-p")
}

/// Waits until an import that was to be held waits.
async fn until_held(clusters: &Clusters) {
    until("an import that waits", || clusters.target.is_holding()).await;
}

fn assert_whole(clusters: &Clusters, (code, told): (u8, String)) {
    let target = &clusters.target;
    assert_eq!((code, target.collected()), (0, vec![]), "{told}");
    assert_eq!(target.uid("configmaps", "n/of-p").as_deref(), Some("u-1"), "{told}");
    assert!(target.found("pods", "n/p").unwrap()["metadata"]["ownerReferences"].is_null());
}

#[tokio::test]
async fn an_owner_stays_until_the_release_of_its_dependent_is_at_the_target() {
    let clusters = with_chain().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let changes = async {
        until_followed(&clusters, "first").await;
        target.hold("pods/p?");
        source.put("pods", released());
        until_held(&clusters).await;
        source.delete("replicasets.apps", "n/r");
        tokio::time::sleep(MOMENT).await;
        target.let_go();
        clusters.until_target_has("replicasets.apps", "n/r", None).await;
    };
    let ended = clusters.follow(changes).await.unwrap();
    assert_whole(&clusters, ended);
}

#[tokio::test]
async fn a_former_state_that_is_under_way_does_not_overtake_the_release() {
    let clusters = with_chain().await;
    let (source, target) = (&clusters.source, &clusters.target);
    let changes = async {
        until_followed(&clusters, "first").await;
        target.hold("pods/p?");
        source.put("pods", labelled());
        until_held(&clusters).await;
        source.put("pods", released());
        source.delete("replicasets.apps", "n/r");
        tokio::time::sleep(MOMENT).await;
        target.let_go();
        clusters.until_target_has("replicasets.apps", "n/r", None).await;
    };
    let ended = clusters.follow(changes).await.unwrap();
    assert_whole(&clusters, ended);
}

#[tokio::test]
async fn an_event_that_comes_late_does_not_bring_an_owner_back_that_is_gone() {
    let clusters = with_chain().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("pods", object("n/q", "u-q"));
    let changes = async {
        until_followed(&clusters, "first").await;
        // The watch of pods stands still at another one.
        target.hold("pods/q?");
        source.put("pods", map("n/q", "u-q", "changed"));
        until_held(&clusters).await;
        source.put("pods", labelled());
        source.put("pods", released());
        source.delete("replicasets.apps", "n/r");
        clusters.until_target_has("replicasets.apps", "n/r", None).await;
        // One whose owner is known to be absent by then.
        source.put("configmaps", owned(map("n/of-r", "u-2", "v"), ("apps/v1", "ReplicaSet", "r", "u-r")));
        until("a question for the owner", || {
            !source.calls("GET /apis/apps/v1/namespaces/n/replicasets/r").is_empty()
        })
        .await;
        source.delete("configmaps", "n/of-r");
        until_followed(&clusters, "second").await;
        target.let_go();
        tokio::time::sleep(MOMENT).await;
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    let mut collected = target.collected();
    collected.retain(|(_, place)| place != "n/of-r");
    assert_eq!((code, collected), (0, vec![]), "{told}");
    assert_eq!(target.uid("configmaps", "n/of-p").as_deref(), Some("u-1"), "{told}");
}

#[tokio::test]
async fn an_object_that_is_deleted_while_it_is_sent_does_not_stay() {
    let clusters = with_chain().await;
    let (source, target) = (&clusters.source, &clusters.target);
    break_watches(source, "/api/v1/pods");
    let changes = async {
        until_followed(&clusters, "first").await;
        // Sent ahead of its event by the end of its owner, and deleted before it has arrived.
        target.hold("pods/p?");
        source.put("pods", released());
        source.delete("replicasets.apps", "n/r");
        until_held(&clusters).await;
        source.delete("configmaps", "n/of-p");
        source.delete("pods", "n/p");
        source.forget_calls();
        source.end_script();
        until("a watch of pods", || !source.calls("GET /api/v1/pods?watch=1").is_empty()).await;
        tokio::time::sleep(MOMENT).await;
        target.let_go();
        clusters.until_target_has("replicasets.apps", "n/r", None).await;
    };
    let (code, told) = clusters.follow(changes).await.unwrap();
    assert_eq!(code, 0, "{told}");
    assert_eq!(target.uid("pods", "n/p"), None, "{told}");
}

#[tokio::test]
async fn a_release_that_was_begun_when_a_run_ended_is_made_before_its_owner_goes() {
    let clusters = Clusters::start().await;
    let (source, target) = (&clusters.source, &clusters.target);
    source.put("configmaps", map("n/c", "u-c", "v"));
    source.put("pods", owned(object("n/p", "u-p"), ("v1", "ConfigMap", "c", "u-c")));
    source.put("configmaps", of_pod());
    assert_eq!(clusters.copy().await.0, 0);
    // The process was killed behind the last line, before the pod was sent without its owner.
    let text = std::fs::read_to_string(clusters.state()).unwrap();
    std::fs::write(clusters.state(), text + "open\t.\ncopy\tpods\tn/p\tu-p\t\t.\n").unwrap();
    source.put("pods", released());
    source.delete("configmaps", "n/c");
    let ended = clusters.copy().await;
    assert_eq!(target.uid("configmaps", "n/c"), None);
    assert_whole(&clusters, ended);
}
