//! Broken invariants of the state end the process: a member that went on would differ from the others or lose changes,
//! and the entries that it applied are in the log.

use super::*;

fn two_changes() -> State {
    state_after(vec![transaction(vec![write("pods", "a", "1")]), transaction(vec![write("pods", "a", "2")])])
}

#[test]
#[should_panic(expected = "entries are applied once, in order")]
fn an_entry_is_not_applied_twice() {
    two_changes().apply(Revision(3), &Transaction::default());
}

#[test]
#[should_panic(expected = "a resource's changes are in the order of their revisions")]
fn a_change_older_than_its_resource_is_not_recorded() {
    let mut state = two_changes();
    let change = Change { revision: Revision(2), time_ms: 0, path: Arc::from("ns/b"), old: None, new: None };
    state.collection_mut(&Arc::from("pods")).record(change);
}

#[test]
#[should_panic(expected = "a change keeps the object that it replaced")]
fn a_change_that_could_not_be_undone_is_not_recorded() {
    let mut state = two_changes();
    let path = Arc::from("ns/a");
    let change = Change { revision: Revision(4), time_ms: 0, path, old: None, new: None };
    state.collection_mut(&Arc::from("pods")).record(change);
}

#[test]
#[should_panic(expected = "the ring lists no change that its resource does not hold")]
fn a_change_that_is_missing_does_not_leave_for_the_disk() {
    let mut state = two_changes();
    state.collection_mut(&Arc::from("pods")).forget_oldest(Revision(2));
    state.oldest(&HistoryBounds { through: Revision(3), ..EVERYTHING }, usize::MAX);
}

#[test]
#[should_panic(expected = "a resource's changes leave in the order of the ring")]
fn no_other_change_is_forgotten_than_was_written() {
    two_changes().collection_mut(&Arc::from("pods")).forget_oldest(Revision(3));
}

#[test]
#[should_panic(expected = "what leaves the history was applied")]
fn nothing_is_forgotten_that_is_yet_to_come() {
    two_changes().drop_history_through(Revision(4));
}

#[test]
#[should_panic(expected = "no resource changed after the state's revision")]
fn a_restore_does_not_end_before_its_newest_change() {
    let changed = BTreeMap::from([(Arc::from("pods"), Revision(8))]);
    State::default().finish_restore(Revision(7), Some(&changed));
}

#[test]
#[should_panic(expected = "no object is newer than its resource's last change")]
fn an_object_is_not_newer_than_the_last_change_of_its_resource() {
    let object = two_changes().object(&key("pods", "a")).unwrap().clone();
    let mut state = State::default();
    state.restore(&key("pods", "a"), object);
    let changed = BTreeMap::from([(Arc::from("pods"), Revision(2))]);
    state.finish_restore(Revision(7), Some(&changed));
}

#[test]
#[should_panic(expected = "what leaves the state was counted when it came")]
fn usage_does_not_go_below_zero() {
    let state = two_changes();
    let object = state.object(&key("pods", "a")).unwrap();
    Usage::default().replace("pods", "ns/a", Some(object), None);
}

#[test]
#[should_panic(expected = "an object is counted out that was counted in")]
fn no_object_leaves_a_fingerprint_that_has_none() {
    let state = two_changes();
    let object = state.object(&key("pods", "a")).unwrap();
    Fingerprint::default().remove("pods", "ns/a", object);
}
