//! Derived values compared with a fresh derivation from the state.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use orch_schema::json;

use super::*;
use crate::controllers::testing::Fixture;

/// The names of all namespaces, and the count of rebuilds.
#[derive(Clone, Debug)]
struct Names {
    sources: [Arc<str>; 1],
    names: BTreeSet<Arc<str>>,
    rebuilt: usize,
}

impl Default for Names {
    fn default() -> Self {
        Names { sources: ["namespaces".into()], names: BTreeSet::new(), rebuilt: 0 }
    }
}

impl Derived for Names {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        if change.new.is_some() {
            assert_eq!(self.names.insert(change.path.clone()), change.old.is_none(), "each change once");
        } else {
            assert!(self.names.remove(&change.path), "each change once");
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.names = state.collection("namespaces").range_from("").map(|(path, _)| path.clone()).collect();
        self.rebuilt += 1;
    }
}

fn names(value: &Names) -> Vec<&str> {
    value.names.iter().map(|name| &**name).collect()
}

async fn with_namespaces(names: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    for name in names {
        fixture.create("namespaces", "", json!({"metadata": {"name": name}})).await;
    }
    fixture
}

#[tokio::test]
async fn changes_are_taken_in_once_and_lost_history_is_read_anew() {
    let fixture = with_namespaces(&["a"]).await;
    let mut follower = Follower::new(Names::default(), &fixture.applied());
    fixture.create("namespaces", "", json!({"metadata": {"name": "b"}})).await;
    fixture.create("configmaps", "a", json!({"metadata": {"name": "of-no-concern"}})).await;
    let earlier = fixture.applied();
    assert_eq!(names(follower.advance(&earlier)), ["a", "b"]);
    fixture.remove_by_force("namespaces", "a").await;
    assert_eq!(names(follower.advance(&fixture.applied())), ["b"]);
    assert_eq!(names(follower.advance(&earlier)), ["b"], "an older look changes nothing");
    assert_eq!(follower.value().rebuilt, 1);
    fixture.create("namespaces", "", json!({"metadata": {"name": "c"}})).await;
    fixture.forget_history();
    assert_eq!(names(follower.advance(&fixture.applied())), ["b", "c"]);
    assert_eq!(follower.value().rebuilt, 2);
    fixture.create("namespaces", "", json!({"metadata": {"name": "d"}})).await;
    assert_eq!(names(follower.advance(&fixture.applied())), ["b", "c", "d"]);
    assert_eq!(follower.value().rebuilt, 2, "followed again");
}

#[tokio::test]
async fn a_state_that_was_wrong_is_not_gone_on_from() {
    let (wrong, right) = (with_namespaces(&["x"]).await, with_namespaces(&["a"]).await);
    let mut follower = Follower::new(Names::default(), &wrong.applied());
    // As when a member found its state wrong and took another member's: the same revision, other objects.
    let found_out = Applied { revocations: 1, ..right.applied() };
    assert_eq!(names(follower.advance(&found_out)), ["a"]);
    assert_eq!(names(follower.advance(&wrong.applied())), ["a"], "what was seen before counts no more");
}

#[tokio::test]
async fn a_value_that_was_derived_during_a_quarantine_is_derived_anew_after_the_repair() {
    let (wrong, right) = (with_namespaces(&["x"]).await, with_namespaces(&["a"]).await);
    let found_out = Applied { revocations: 1, ..wrong.applied() };
    let repaired = Applied { revocations: 2, ..right.applied() };
    assert_eq!(found_out.state.applied(), repaired.state.applied(), "revisions do not tell them apart");
    assert!(!repaired.is_same(&found_out));
    let (mut follower, kept) =
        (Follower::new(Names::default(), &wrong.applied()), Maintained::<Names>::default());
    for (applied, expected) in [(&found_out, "x"), (&repaired, "a"), (&found_out, "a")] {
        assert_eq!(names(follower.advance(applied)), [expected]);
        assert_eq!(kept.read(applied, |value| names(value).join(" ")).await, expected);
    }
}

/// A namespace that is more than a request takes in by itself.
async fn create_large(fixture: &Fixture, name: &str) {
    let annotations = json!({"a": "x".repeat(200_000)});
    fixture.create("namespaces", "", json!({"metadata": {"name": name, "annotations": annotations}})).await;
}

#[tokio::test]
async fn a_request_derives_and_takes_in_what_is_little_and_nothing_else() {
    let fixture = with_namespaces(&["a"]).await;
    let value = Maintained::<Names>::default();
    let read = |applied: &Applied| value.try_read(applied, |value| (names(value).join(" "), value.rebuilt));
    let told = |names: &str, rebuilt| Some((names.to_owned(), rebuilt));
    let first = fixture.applied();
    assert_eq!(read(&first), told("a", 1), "few objects");
    fixture.create("configmaps", "a", json!({"metadata": {"name": "of-no-concern"}})).await;
    assert_eq!(read(&fixture.applied()), told("a", 1));
    create_large(&fixture, "b").await;
    assert_eq!(read(&fixture.applied()), told("a b", 1), "one change of less than the bound");
    create_large(&fixture, "c").await;
    create_large(&fixture, "d").await;
    let later = fixture.applied();
    assert_eq!(read(&later), None, "their objects are large");
    assert_eq!(read(&first), told("a b", 1), "an older state has nothing that is missing");
    value.catch_up(&later).await;
    assert_eq!(read(&later), told("a b c d", 1), "change by change");
    let anew = Maintained::<Names>::default();
    assert!(anew.try_read(&later, |_| ()).is_none(), "all objects together are large");
    assert_eq!(anew.read(&later, |value| names(value).len()).await, 4);
}

#[tokio::test]
async fn a_value_is_built_beside_the_requests_that_wait_for_it() {
    let fixture = with_namespaces(&[]).await;
    create_large(&fixture, "a").await;
    create_large(&fixture, "a2").await;
    let built = Arc::new(AtomicUsize::new(0));
    let value = {
        let built = built.clone();
        Maintained::new(move || {
            built.fetch_add(1, Ordering::Relaxed);
            Names::default()
        })
    };
    let read = |applied: &Applied| value.try_read(applied, |value| names(value).join(" "));
    // The first of them told its sources.
    let built = || built.load(Ordering::Relaxed) - 1;
    let first = fixture.applied();
    assert_eq!(read(&first), None, "a request builds nothing by itself");
    tokio::join!(value.catch_up(&first), value.catch_up(&first));
    assert_eq!((read(&first).as_deref(), built()), (Some("a a2"), 1), "both waited for one");
    fixture.create("namespaces", "", json!({"metadata": {"name": "b"}})).await;
    assert_eq!(read(&fixture.applied()).as_deref(), Some("a a2 b"), "a request takes in a few changes");
    assert_eq!(read(&first).as_deref(), Some("a a2 b"), "never older than what was read before");
    for number in 0..600 {
        let metadata = json!({"name": format!("m{number}")});
        fixture.create("configmaps", "a", json!({"metadata": metadata})).await;
    }
    fixture.create("namespaces", "", json!({"metadata": {"name": "c"}})).await;
    let later = fixture.applied();
    assert_eq!(read(&later).as_deref(), Some("a a2 b c"), "changes of no concern are not taken in");
    let many = async |name: &str| {
        let labels = |number: usize| json!({"metadata": {"labels": {"number": number.to_string()}}});
        for number in 0..300 {
            fixture.merge("namespaces", name, labels(number)).await;
        }
    };
    many("c").await;
    let later = fixture.applied();
    assert_eq!(read(&later), None, "many are taken in beside it");
    value.catch_up(&later).await;
    assert_eq!((read(&later).as_deref(), built()), (Some("a a2 b c"), 1), "change by change");
    fixture.create("namespaces", "", json!({"metadata": {"name": "d"}})).await;
    fixture.forget_history();
    let lost = fixture.applied();
    assert_eq!(read(&lost), None);
    value.catch_up(&lost).await;
    assert_eq!((read(&lost).as_deref(), built()), (Some("a a2 b c d"), 2));
    let right = with_namespaces(&[]).await;
    create_large(&right, "x").await;
    create_large(&right, "y").await;
    let found_out = Applied { revocations: 1, ..right.applied() };
    assert_eq!(read(&found_out), None, "what is known may be wrong");
    value.catch_up(&found_out).await;
    assert_eq!((read(&found_out).as_deref(), built()), (Some("x y"), 3));
    assert_eq!(read(&lost).as_deref(), Some("x y"), "what was seen before counts no more");
}

#[test]
fn changes_of_one_transaction_follow_one_another() {
    assert_eq!(in_order(Revision(3), Revision(5)), Revision(5));
    assert_eq!(in_order(Revision(5), Revision(5)), Revision(5));
}

#[test]
#[should_panic(expected = "each change is taken in once, and in order")]
fn an_older_change_behind_a_newer_one_is_a_bug() {
    in_order(Revision(5), Revision(4));
}
