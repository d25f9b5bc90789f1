//! The list of history blocks: lookup, gaps, the cache of decoded blocks, removal of excess blocks.

use super::*;

const NOW: Generation = Generation(3);

fn span(resource: &str, after: u64, through: u64, bytes: u64) -> HistorySpan {
    HistorySpan { resource: resource.into(), after, through, bytes }
}

fn past() -> Past {
    let spans = vec![
        span("leases", 10, 20, 100),
        span("leases", 20, 30, 100),
        span("leases", 30, 40, 100),
        span("roles", 5, 12, 50),
    ];
    Past::load(NOW, spans, |resource| Revision(if resource == "leases" { 40 } else { 12 }))
}

fn found(past: &Past, resource: &str, revision: u64) -> Result<u64, u64> {
    let place = past.block_after(&Arc::from(resource), Revision(revision), Revision(99));
    place.map(|place| place.through).map_err(|gone| gone.oldest.0)
}

/// The `through` of the blocks to undo from `floor` back to `revision`; `None` when [`Compacted`].
fn back(past: &Past, revision: u64, floor: u64, bytes_max: u64) -> Option<Vec<u64>> {
    let leases = Arc::from("leases");
    let places = past.blocks_back_to(&leases, Revision(revision), Revision(floor), bytes_max).ok()?;
    Some(places.iter().map(|place| place.through).collect())
}

#[test]
fn the_first_block_with_a_later_change_is_found_or_the_gap_is_told() {
    let past = past();
    let cases = [
        ("leases", 9, Err(10)),
        ("leases", 10, Ok(20)),
        ("leases", 19, Ok(20)),
        ("leases", 20, Ok(30)),
        ("leases", 39, Ok(40)),
        ("roles", 5, Ok(12)),
        ("pods", 5, Err(99)),
    ];
    for (resource, revision, expected) in cases {
        assert_eq!(found(&past, resource, revision), expected, "{resource} after {revision}");
    }
    assert_eq!(back(&past, 25, 40, 200), Some(vec![40, 30]));
    assert_eq!(back(&past, 15, 40, 299), None, "more than is read");
    assert_eq!(back(&past, 9, 40, 999), None, "older than the oldest block");
    assert_eq!(
        back(&past, 25, 30, 999),
        Some(vec![30]),
        "the reader's state still holds what is in the last"
    );
    assert_eq!(back(&past, 25, 50, 999), None, "changes after the last block are missing");
}

#[test]
fn blocks_before_a_gap_are_off_the_list_and_leave_the_disk() {
    let past = past();
    past.add(NOW, vec![span("leases", 60, 70, 100)]);
    assert_eq!((found(&past, "leases", 35), found(&past, "leases", 50)), (Err(60), Err(60)));
    assert_eq!((found(&past, "leases", 60), found(&past, "roles", 5)), (Ok(70), Ok(12)));
    let gone = past.take_excess(NOW, Revision(0), 1000);
    assert_eq!(gone, [("leases".into(), 20), ("leases".into(), 30), ("leases".into(), 40)]);
    assert!(past.take_excess(NOW, Revision(0), 1000).is_empty(), "once");
    // Blocks as on a disk written by a version that left gaps.
    let spans = vec![
        span("leases", 10, 20, 1),
        span("leases", 30, 40, 1),
        span("pods", 1, 2, 1),
        span("roles", 5, 12, 1),
    ];
    let floor = |resource: &str| Revision(if resource == "pods" { 3 } else { 40 });
    let past = Past::load(NOW, spans, floor);
    assert_eq!((found(&past, "leases", 15), found(&past, "leases", 30)), (Err(30), Ok(40)));
    assert_eq!((found(&past, "pods", 1), found(&past, "roles", 5)), (Err(99), Err(99)), "before the floor");
    let gone = past.take_excess(NOW, Revision(0), 1000);
    assert_eq!(gone, [("leases".into(), 20), ("pods".into(), 2), ("roles".into(), 12)]);
}

#[test]
fn decoded_blocks_are_kept_within_a_budget() {
    let past = Past::load(NOW, vec![span("pods", 0, 9, DECODED_BYTES_MAX / 2)], |_| Revision(9));
    let place = |through| Place {
        generation: NOW,
        resource: Arc::from("pods"),
        through,
        bytes: DECODED_BYTES_MAX / 2,
    };
    (1..=3).for_each(|through| past.keep_decoded(place(through), Arc::new([])));
    assert!(past.decoded(&place(1)).is_none() && past.decoded(&place(2)).is_some());
    past.keep_decoded(Place { bytes: DECODED_BYTES_MAX + 1, ..place(4) }, Arc::new([]));
    assert!([2, 3, 4].iter().all(|through| past.decoded(&place(*through)).is_none()));
    past.clear(Generation(4));
    past.keep_decoded(place(5), Arc::new([]));
    assert!(past.decoded(&place(5)).is_none(), "of a state that was replaced");
}

#[test]
fn the_resource_with_most_pays_for_the_budget() {
    let past = past();
    let gone = past.take_excess(NOW, Revision(0), 200);
    assert_eq!(gone, [("leases".into(), 20), ("leases".into(), 30)]);
    assert_eq!((found(&past, "leases", 25), found(&past, "leases", 30)), (Err(30), Ok(40)));
    assert_eq!(found(&past, "roles", 5), Ok(12), "a resource at rest keeps its window");
    let gone = past.take_excess(NOW, Revision(12), 200);
    assert_eq!(gone, [("roles".into(), 12)], "until it is too old");
}

#[test]
fn writes_of_another_generation_are_ignored() {
    let past = past();
    past.clear(Generation(4));
    past.add(NOW, vec![span("leases", 10, 20, 100)]);
    assert_eq!(found(&past, "leases", 15), Err(99));
    past.add(Generation(4), vec![span("leases", 50, 60, 100)]);
    assert!(past.take_excess(NOW, Revision(60), 0).is_empty());
    assert_eq!(found(&past, "leases", 55), Ok(60));
}
