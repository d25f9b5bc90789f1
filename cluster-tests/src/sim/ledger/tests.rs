//! The ledger accepts members that agree and names the member that differs.

use orch_raft::{HistoryBounds, Key};

use super::super::history::{Ask, Guard, Told};
use super::super::things::{self, Extras, transaction};
use super::*;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

/// A member that applied writes of these tags to key `k`, at revisions from 2 on.
fn member(tags: &[u64]) -> State {
    let mut state = State::default();
    state.advance(Revision(1));
    for (position, tag) in tags.iter().enumerate() {
        write(&mut state, 2 + position as u64, *tag, Extras::default());
    }
    state
}

fn write(state: &mut State, revision: u64, tag: u64, extras: Extras) {
    state.apply(Revision(revision), &transaction("k", Guard::Always, Some(Tag(tag)), extras, 0));
}

/// A ledger that has seen a member with these writes.
fn ledger(tags: &[u64]) -> Ledger {
    let ledger = Ledger::default();
    ledger.observe(A, &member(tags), &mut Cursor::default()).unwrap();
    ledger
}

fn observe(ledger: &Ledger, state: &State) -> Result<(), Disagreement> {
    ledger.observe(B, state, &mut Cursor::default())
}

#[test]
fn equal_members_agree_wherever_they_are() {
    let ledger = ledger(&[7, 8, 9]);
    for length in 0..=3 {
        assert_eq!(observe(&ledger, &member(&[7, 8, 9][..length])), Ok(()));
    }
    assert_eq!(observe(&ledger, &member(&[7, 8, 9, 10])), Ok(()), "ahead");
    assert_eq!((ledger.len(), ledger.frontier()), (4, Revision(5)));
    assert_eq!(ledger.replay().at(Revision(3)).unwrap().values().next().unwrap().tag, Tag(8));
}

#[test]
fn a_member_that_went_back_is_named() {
    let (ledger, mut cursor) = (Ledger::default(), Cursor::default());
    ledger.observe(A, &member(&[7, 8]), &mut cursor).unwrap();
    let found = ledger.observe(A, &member(&[7]), &mut cursor);
    assert!(matches!(found, Err(Disagreement::WentBack { .. })), "{found:?}");
}

#[test]
fn another_value_or_a_missing_change_is_named() {
    let ledger = ledger(&[7, 8, 9]);
    let found = observe(&ledger, &member(&[7, 18, 9]));
    assert!(matches!(found, Err(Disagreement::Change { revision: Revision(3), .. })), "{found:?}");
    let mut skipped = member(&[7]);
    skipped.advance(Revision(3));
    write(&mut skipped, 4, 9, Extras::default());
    let found = observe(&ledger, &skipped);
    assert!(
        matches!(found, Err(Disagreement::Change { revision: Revision(3), shown: None, .. })),
        "{found:?}"
    );
}

#[test]
fn a_change_more_is_named() {
    let mut quiet = member(&[7]);
    quiet.advance(Revision(3));
    let ledger = Ledger::default();
    ledger.observe(A, &quiet, &mut Cursor::default()).unwrap();
    let found = observe(&ledger, &member(&[7, 8]));
    assert!(matches!(found, Err(Disagreement::Change { noted: None, .. })), "{found:?}");
}

#[test]
fn other_bytes_of_one_write_are_named() {
    let ledger = ledger(&[7]);
    let mut other = member(&[]);
    write(&mut other, 2, 7, Extras { filling: 3, ..Extras::default() });
    let found = observe(&ledger, &other);
    assert!(matches!(found, Err(Disagreement::Change { .. })), "{found:?}");
}

#[test]
fn a_state_that_is_not_the_sum_of_its_changes_is_named() {
    let ledger = ledger(&[7, 8]);
    let mut other = member(&[7, 8]);
    let key = super::super::things::thing("stray");
    let stray = member(&[9]).object(&super::super::things::thing("k")).unwrap().clone();
    other.restore(&key, stray);
    let found = observe(&ledger, &other);
    assert!(matches!(found, Err(Disagreement::Digest { .. })), "{found:?}");
}

#[test]
fn a_write_applied_twice_is_named() {
    let found = observe(&Ledger::default(), &member(&[7, 8, 7]));
    let twice = Disagreement::AppliedTwice { tag: Tag(7), first: Revision(2), second: Revision(4) };
    assert_eq!(found, Err(twice));
}

#[test]
fn a_member_restored_from_a_snapshot_leaves_a_gap_that_others_fill() {
    let whole = member(&[7, 8, 9]);
    let mut restored = State::default();
    let key: Key = super::super::things::thing("k");
    restored.restore(&key, whole.object(&key).unwrap().clone());
    restored.finish_restore(Revision(4), None);
    let ledger = self::ledger(&[7]);
    assert_eq!(ledger.observe(A, &restored, &mut Cursor::default()), Ok(()));
    assert_eq!(ledger.changes(THINGS, Revision(1), Revision(3)), None, "unknown, not empty");
    assert_eq!(observe(&ledger, &whole), Ok(()));
    let mut trimmed = whole;
    trimmed.trim_history(&HistoryBounds { entries_max: 1, ..HistoryBounds::NONE });
    assert_eq!(observe(&ledger, &trimmed), Ok(()), "told less, not otherwise");
}

#[test]
fn members_behind_one_that_came_after_a_gap_are_still_compared() {
    let whole = member(&[7, 8, 9, 10, 11]);
    let mut late = whole.clone();
    late.trim_history(&HistoryBounds { entries_max: 3, ..HistoryBounds::NONE });
    let ledger = Ledger::default();
    assert_eq!(ledger.observe(A, &late, &mut Cursor::default()), Ok(()));
    for length in 2..=5 {
        assert_eq!(observe(&ledger, &member(&[7, 8, 9, 10, 11][..length])), Ok(()), "{length}");
    }
    assert!(observe(&ledger, &member(&[7, 8, 9, 12])).is_err());
}

#[test]
fn a_mirror_without_its_thing_is_named() {
    let (ledger, mut state) = (Ledger::default(), member(&[]));
    write(&mut state, 2, 7, Extras { mirrored: true, ..Extras::default() });
    observe(&ledger, &state).unwrap();
    assert_eq!(ledger.check_calls(&[]), Ok(()));
    let mut torn =
        transaction("k", Guard::Always, Some(Tag(8)), Extras { mirrored: true, ..Extras::default() }, 0);
    torn.operations.remove(0);
    state.apply(Revision(3), &torn);
    observe(&ledger, &state).unwrap();
    assert_eq!(ledger.check_calls(&[]), Err(Disagreement::Torn { revision: Revision(3) }));
}

#[test]
fn answers_are_held_against_what_happened() {
    let ledger = ledger(&[7]);
    let call = |tag, told| Call {
        client: 0,
        path: Arc::from("k"),
        ask: Ask::Write { guard: Guard::Always, tag: Some(Tag(tag)) },
        asked: 1,
        answered: 2,
        told,
    };
    let applied = |revision| Told::Applied { revision: Revision(revision), previous: None };
    for right in [call(7, applied(2)), call(7, Told::Unknown), call(9, Told::NotDone), call(9, Told::Unknown)]
    {
        assert_eq!(ledger.check_calls(&[right]), Ok(()));
    }
    for wrong in [call(7, applied(3)), call(7, Told::NotDone), call(9, applied(2))] {
        assert!(ledger.check_calls(&[wrong]).is_err());
    }
}

/// The first state of a cluster that begins at 1000, with an object that was written with `tag` at `revision`.
fn remade(revision: u64, tag: u64) -> State {
    let mut written = State::default();
    written.advance(Revision(revision - 1));
    write(&mut written, revision, tag, Extras::default());
    let (key, mut state) = (things::thing("k"), State::default());
    state.restore(&key, written.object(&key).unwrap().clone());
    state.finish_restore(Revision(1000), None);
    state
}

/// The objects of a state, as a snapshot has them.
fn objects(state: &State) -> Model {
    let mut model = Model::new();
    for (resource, collection) in state.collections() {
        let objects = collection.range_from("");
        model.extend(objects.map(|(path, object)| ((resource.clone(), path.clone()), Version::of(object))));
    }
    model
}

#[test]
fn the_objects_that_a_cluster_is_made_from_are_those_of_the_point() {
    let (point, beginning) = (Revision(3), Revision(1000));
    let ledger = ledger(&[7, 8, 9]);
    assert_eq!(ledger.make_anew(point, &objects(&member(&[7, 8])), beginning), Ok(()));
    for wrong in [objects(&member(&[7, 18])), objects(&member(&[7])), Model::new()] {
        let found = ledger.make_anew(point, &wrong, beginning);
        assert!(matches!(found, Err(Disagreement::Remade { at: Revision(3), .. })), "{found:?}");
    }
}

#[test]
fn a_cluster_made_anew_begins_with_the_objects_that_were_read() {
    let begins = |state: &State| {
        let ledger = ledger(&[7, 8, 9]);
        ledger.make_anew(Revision(3), &objects(&member(&[7, 8])), Revision(1000)).unwrap();
        observe(&ledger, state)
    };
    assert_eq!(begins(&remade(1000, 8)), Ok(()));
    let mut empty = State::default();
    empty.finish_restore(Revision(1000), None);
    for wrong in [remade(1000, 9), remade(3, 8), empty] {
        let found = begins(&wrong);
        assert!(matches!(found, Err(Disagreement::Remade { at: Revision(1000), .. })), "{found:?}");
    }
}

#[test]
fn entries_that_only_the_survivor_has_are_kept() {
    let ledger = ledger(&[7, 8]);
    assert_eq!(ledger.make_anew(Revision(4), &objects(&member(&[7, 8, 9])), Revision(1000)), Ok(()));
    let found = ledger.make_anew(Revision(4), &objects(&member(&[7, 18])), Revision(1000));
    assert!(matches!(found, Err(Disagreement::Remade { .. })), "{found:?}");
}
