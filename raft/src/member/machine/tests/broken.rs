//! States that contradict their marks: refused if they come from a disk or a peer, a panic if only a bug could have made
//! them.

use super::*;
use crate::disk::Generation;
use crate::member::codec::Mark;
use crate::member::machine::Restore;
use crate::member::machine::lineage::Lineage;
use crate::object::SharedObject;

fn mark(index: u64, changed: Option<&[(&str, u64)]>) -> Mark {
    let of_resource = |(resource, revision): &(&str, u64)| (Arc::from(*resource), Revision(*revision));
    let changed = changed.map(|changed| changed.iter().map(of_resource).collect());
    Mark { log_id: Some(log_id(1, index)), changed, ..Mark::default() }
}

/// A pod as written at revision 7.
fn pod() -> SharedObject {
    let mut bench = Bench::new();
    bench.put(7, "a");
    bench.applied.state().collection("pods").get("ns/a").unwrap().clone()
}

#[test]
fn a_state_that_contradicts_its_mark_is_refused() {
    let restored = |index, changed: Option<&[(&str, u64)]>| {
        let mut restore = Restore::default();
        restore.add_object("pods", "ns/a", pod()).unwrap();
        restore.finish(&mark(index, changed)).map(|state| state.applied()).map_err(|error| error.to_string())
    };
    assert_eq!(restored(7, None), Ok(Revision(7)));
    assert_eq!(restored(9, Some(&[("pods", 8), ("nodes", 9)])), Ok(Revision(9)));
    for (index, changed, reason) in [
        (6, None, "it is at 6 and holds a change of 7"),
        (9, Some([("pods", 10)].as_slice()), "it is at 9 and holds a change of 10"),
        (9, Some(&[("pods", 8), ("nodes", 10)]), "it is at 9 and holds a change of 10"),
        (9, Some(&[("pods", 6)]), "pods last changed at 6 and holds an object of 7"),
        (9, Some(&[]), "pods last changed at 0 and holds an object of 7"),
    ] {
        let refused = restored(index, changed).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn an_object_comes_once() {
    let mut restore = Restore::default();
    restore.add_object("pods", "ns/a", pod()).unwrap();
    let refused = restore.add_object("pods", "ns/a", pod()).unwrap_err().to_string();
    assert!(refused.contains("pods ns/a is in it twice"), "{refused}");
    restore.add_object("nodes", "ns/a", pod()).unwrap();
}

#[test]
#[should_panic(expected = "a stored state is at the revision of its mark")]
fn no_writer_begins_with_a_state_of_another_revision() {
    drop(Writer::new(State::default(), &mark(5, None), Generation(1)));
}

#[test]
#[should_panic(expected = "the stored state is that of its mark")]
fn no_step_is_made_with_the_mark_of_another_revision() {
    let mut bench = Bench::new();
    bench.put(7, "a");
    bench.applied.writer.with(|writer| writer.lineage = Lineage::starting_at(&Mark::default()));
    bench.move_all(0);
}

/// A member whose log may be purged through 9, and an earlier state of it.
fn purgeable() -> (Bench, State, Mark) {
    let mut bench = Bench::new();
    bench.put(5, "a");
    let (earlier, mark) = bench.applied.now();
    bench.put(9, "b");
    bench.move_all(0);
    assert!(bench.applied.settle(9));
    (bench, (*earlier).clone(), mark)
}

#[test]
#[should_panic(expected = "the log holds every entry after the stored state")]
fn no_state_is_installed_whose_next_entries_are_purged() {
    let (bench, earlier, mark) = purgeable();
    bench.applied.writer.with(|writer| writer.finish_install(earlier, &mark, Generation(99)));
}

#[test]
#[should_panic(expected = "a replaced state is at the same revision")]
fn a_replacement_does_not_lag_behind_the_state() {
    let (bench, earlier, mark) = purgeable();
    let mut new = Writer::new(earlier, &mark, Generation(1));
    bench.applied.writer.with(|writer| writer.continue_as(&mut new, Generation(99)));
}

#[test]
#[should_panic(expected = "a step of the state before is told from one of this")]
fn no_two_states_have_one_generation() {
    let mut bench = Bench::new();
    bench.put(5, "a");
    let (state, mark) = bench.applied.now();
    let generation = bench.disk.generation().unwrap();
    bench.applied.writer.with(|writer| writer.finish_install((*state).clone(), &mark, generation));
}
