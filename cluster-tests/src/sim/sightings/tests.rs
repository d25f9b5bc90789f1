//! Correct watches and lists pass; a lost, repeated, swapped or wrong event does not.

use orch_raft::transport::NodeId;
use orch_raft::{Change, State};

use super::super::history::{Guard, Tag};
use super::super::ledger::{Cursor, THINGS};
use super::super::things::{Extras, transaction};
use super::*;

/// Six changes at revisions 2 to 7: two objects, one of which gains and loses the mark and is removed.
fn member() -> State {
    let mut state = State::default();
    state.advance(Revision(1));
    let writes = [
        ("a", Some(1), false),
        ("b", Some(2), true),
        ("a", Some(3), true),
        ("a", Some(4), true),
        ("a", Some(5), false),
        ("b", None, false),
    ];
    for (position, (path, tag, marked)) in writes.into_iter().enumerate() {
        let extras = Extras { marked, ..Extras::default() };
        let write = transaction(path, Guard::Always, tag.map(Tag), extras, 0);
        state.apply(Revision(2 + position as u64), &write);
    }
    state
}

fn ledger() -> Ledger {
    let ledger = Ledger::default();
    ledger.observe(NodeId(1), &member(), &mut Cursor::default()).unwrap();
    ledger
}

/// The events that a correct server sends to a watch with this filter from `start` on.
fn watched(filter: Filter, start: u64) -> Watched {
    let collection = member().collection(THINGS);
    let changes = collection.changes_after(Revision(start)).unwrap();
    let event = |change: &Change| filter.expect(change.revision, &Noted::of(THINGS, change));
    let sightings = changes.filter_map(event).collect();
    Watched {
        client: 1,
        resource: Arc::from(THINGS),
        filter,
        start: Revision(start),
        through: Revision(7),
        resumed: 0,
        sightings,
    }
}

#[test]
fn honest_watches_pass_from_every_start_under_every_filter() {
    for start in 1..=7 {
        for filter in [Filter::All, Filter::Marked, Filter::Path(Arc::from("things/a"))] {
            assert_eq!(watched(filter, start).check(&ledger()), Ok(true));
        }
    }
}

#[test]
fn a_mark_that_comes_and_goes_is_an_object_that_comes_and_goes() {
    let kinds: Vec<(u64, Kind)> =
        watched(Filter::Marked, 1).sightings.iter().map(|seen| (seen.revision.0, seen.kind)).collect();
    let expected =
        [(3, Kind::Added), (4, Kind::Added), (5, Kind::Modified), (6, Kind::Deleted), (7, Kind::Deleted)];
    assert_eq!(kinds, expected);
}

#[test]
fn a_lost_repeated_or_swapped_event_is_found_wherever_it_is() {
    let whole = watched(Filter::All, 1);
    for position in 0..whole.sightings.len() {
        let (mut lost, mut repeated, mut swapped) = (whole.clone(), whole.clone(), whole.clone());
        lost.sightings.remove(position);
        repeated.sightings.insert(position, whole.sightings[position].clone());
        swapped.sightings.swap(position, (position + 1) % whole.sightings.len());
        for wrong in [lost, repeated, swapped] {
            assert!(matches!(wrong.check(&ledger()), Err(Mistaken::Watch { .. })), "{wrong:?}");
        }
    }
}

#[test]
fn a_promise_beyond_what_was_shown_is_found() {
    let mut hasty = watched(Filter::All, 1);
    hasty.sightings.pop();
    assert!(hasty.check(&ledger()).is_err());
    hasty.through = Revision(6);
    assert_eq!(hasty.check(&ledger()), Ok(true));
    hasty.through = Revision(99);
    assert_eq!(hasty.check(&ledger()), Ok(false), "nobody knows");
}

#[test]
fn lists_show_what_was_there() {
    for revision in 1..=7 {
        let collection = member().collection(THINGS).at(Revision(revision)).unwrap();
        let items: Vec<_> =
            collection.range_from("").map(|(path, object)| (path.clone(), Version::of(object))).collect();
        let (resource, revision) = (Arc::from(THINGS), Revision(revision));
        let list =
            Listed { resource, filter: Filter::All, revision, not_before: revision, items, way: Way::Scan };
        assert_eq!(list.check(&mut ledger().replay()), Ok(true));
        let stale = Listed { not_before: Revision(8), ..list.clone() };
        assert!(matches!(stale.check(&mut ledger().replay()), Err(Mistaken::Stale { .. })));
        let mut wrong = list;
        if wrong.items.pop().is_some() {
            assert!(wrong.check(&mut ledger().replay()).is_err());
        }
    }
}
