//! Tests of the state machine's decisions, one by one.

use std::time::Duration;

use super::machine::{Attempt, Machine, Monotonic, Timing, TimingError, Version, Written};
use super::record::Record;
use crate::wall_time::WallTime;

fn at(seconds: u64) -> Monotonic {
    Monotonic(Duration::from_secs(seconds))
}

fn version(number: u64) -> Version {
    Version(number.to_string())
}

fn held_by(holder: &str, renewed: i64) -> Record {
    Record {
        holder: holder.to_owned(),
        lease_duration_seconds: 15,
        acquired: WallTime(1),
        renewed: WallTime(renewed),
        transitions: 4,
    }
}

fn machine() -> Machine {
    Machine::new("me".to_owned(), Timing::DEFAULT)
}

/// A machine that took a free lock by a write from 0 to 1 s.
fn leader() -> Machine {
    let mut machine = machine();
    let Some(Attempt::Create(record)) = machine.observe(at(0), WallTime(7), None) else { panic!("free") };
    machine.wrote(at(0), at(1), record, Written::Done(version(1)));
    machine
}

#[test]
fn a_missing_lock_is_created() {
    let mut machine = machine();
    assert_eq!(machine.begin(at(0), WallTime(0)), Attempt::Read);
    let expected = Record {
        holder: "me".to_owned(),
        lease_duration_seconds: 15,
        acquired: WallTime(7),
        renewed: WallTime(7),
        transitions: 0,
    };
    assert_eq!(machine.observe(at(0), WallTime(7), None), Some(Attempt::Create(expected)));
    assert!(!machine.is_leading(at(0)), "not before the write is done");
}

#[test]
fn a_lock_of_another_is_left_until_it_was_seen_unchanged_for_its_duration() {
    let mut machine = machine();
    let found = || Some((held_by("other", 5), version(3)));
    assert_eq!(machine.observe(at(100), WallTime(7), found()), None);
    assert_eq!(machine.observe(at(114), WallTime(7), found()), None);
    let Some(Attempt::Update(on, record)) = machine.observe(at(115), WallTime(8), found()) else {
        panic!("lapsed")
    };
    assert_eq!((on, record.holder.as_str(), record.transitions), (version(3), "me", 5));
    assert_eq!((record.acquired, record.renewed), (WallTime(8), WallTime(8)));
}

#[test]
fn a_contender_reads_again_when_the_record_that_it_saw_lapses() {
    let mut machine = machine();
    assert_eq!(machine.next_attempt(at(99), 1.0), Monotonic(Duration::from_millis(103_400)), "nothing seen");
    let found = || Some((held_by("other", 5), version(3)));
    assert_eq!(machine.observe(at(100), WallTime(7), found()), None);
    assert_eq!(machine.next_attempt(at(100), 0.0), at(102), "reads are spread");
    assert_eq!(machine.observe(at(114), WallTime(7), found()), None);
    assert_eq!(machine.next_attempt(at(114), 1.0), at(115), "and never miss the lapse");
    assert!(machine.observe(at(115), WallTime(8), found()).is_some());
    assert_eq!(machine.next_attempt(at(115), 0.0), at(117), "a take-over that failed is not tried at once");
}

#[test]
fn a_leader_renews_evenly() {
    assert_eq!(leader().next_attempt(at(5), 1.0), at(7));
}

#[test]
fn a_renewal_by_another_starts_the_wait_anew() {
    let mut machine = machine();
    assert_eq!(machine.observe(at(0), WallTime(0), Some((held_by("other", 5), version(3)))), None);
    assert_eq!(machine.observe(at(14), WallTime(0), Some((held_by("other", 6), version(4)))), None);
    assert_eq!(machine.observe(at(28), WallTime(0), Some((held_by("other", 6), version(4)))), None);
    assert!(machine.observe(at(29), WallTime(0), Some((held_by("other", 6), version(4)))).is_some());
}

#[test]
fn a_change_of_the_object_that_is_no_renewal_does_not_start_the_wait_anew() {
    let mut machine = machine();
    assert_eq!(machine.observe(at(0), WallTime(0), Some((held_by("other", 5), version(3)))), None);
    let next = machine.observe(at(15), WallTime(0), Some((held_by("other", 5), version(9))));
    assert!(matches!(next, Some(Attempt::Update(on, _)) if on == version(9)));
}

#[test]
fn a_released_lock_is_taken_at_once() {
    let mut machine = machine();
    let released = Record { holder: String::new(), lease_duration_seconds: 1, ..held_by("", 5) };
    assert!(machine.observe(at(0), WallTime(0), Some((released, version(3)))).is_some());
}

#[test]
fn a_record_without_a_sensible_duration_lapses_at_once() {
    for seconds in [0, -5] {
        let mut machine = machine();
        let record = Record { lease_duration_seconds: seconds, ..held_by("other", 5) };
        assert!(machine.observe(at(0), WallTime(0), Some((record, version(3)))).is_some());
    }
}

#[test]
fn a_leader_works_until_the_deadline_after_the_start_of_its_write() {
    let leader = leader();
    assert!(leader.is_leading(at(1)));
    assert!(leader.is_leading(at(9)));
    assert!(!leader.is_leading(at(10)), "counted from the start of the write, not from its end");
}

#[test]
fn a_leader_renews_without_reading_and_keeps_when_it_took_the_lock() {
    let mut leader = leader();
    let Attempt::Update(on, record) = leader.begin(at(3), WallTime(9)) else { panic!("reads") };
    assert_eq!((on, record.acquired, record.renewed), (version(1), WallTime(7), WallTime(9)));
    assert_eq!(record.transitions, 0);
    leader.wrote(at(3), at(4), record, Written::Done(version(2)));
    assert!(leader.is_leading(at(12)));
    assert!(!leader.is_leading(at(13)));
}

#[test]
fn a_write_in_doubt_prolongs_nothing_and_is_read_before_the_next() {
    let mut leader = leader();
    let Attempt::Update(_, record) = leader.begin(at(3), WallTime(9)) else { panic!("reads") };
    leader.wrote(at(3), at(8), record.clone(), Written::Unsure);
    assert!(leader.is_leading(at(9)));
    assert!(!leader.is_leading(at(10)));
    assert_eq!(leader.begin(at(8), WallTime(0)), Attempt::Read);
    // It had happened: the lock is ours, and the next write keeps it.
    let next = leader.observe(at(9), WallTime(10), Some((record, version(2))));
    assert!(matches!(next, Some(Attempt::Update(on, _)) if on == version(2)));
}

#[test]
fn a_leader_that_lost_the_lock_to_another_does_not_write() {
    let mut leader = leader();
    let Attempt::Update(_, record) = leader.begin(at(3), WallTime(9)) else { panic!("reads") };
    leader.wrote(at(3), at(4), record, Written::Unsure);
    assert_eq!(leader.observe(at(5), WallTime(0), Some((held_by("other", 5), version(9)))), None);
    assert_eq!(leader.holder(), "other");
}

#[test]
fn after_the_deadline_a_leader_reads_like_anyone() {
    let leader = leader();
    assert_eq!(leader.begin(at(10), WallTime(0)), Attempt::Read);
}

#[test]
fn a_release_frees_the_lock_once() {
    let mut leader = leader();
    let Some(Attempt::Update(on, record)) = leader.release(WallTime(20)) else { panic!("held") };
    assert_eq!((on, record.holder.as_str(), record.lease_duration_seconds), (version(1), "", 1));
    assert!(!leader.is_leading(at(1)));
    assert_eq!(leader.release(WallTime(20)), None);
    assert_eq!(machine().release(WallTime(0)), None, "who does not hold it has nothing to release");
}

#[test]
fn durations_are_checked_against_each_other() {
    let check = |lease, renew, retry, expected| {
        let millis = Duration::from_millis;
        let timing = Timing::new(millis(lease), millis(renew), millis(retry));
        assert_eq!(timing.err(), expected, "{lease} {renew} {retry}");
    };
    check(15_000, 10_000, 2_000, None);
    check(10_000, 10_000, 2_000, Some(TimingError::Deadline));
    check(15_000, 2_400, 2_000, Some(TimingError::Retry));
    check(15_000, 2_401, 2_000, None);
    check(900, 500, 100, Some(TimingError::Second));
    check(1_000, 500, 0, Some(TimingError::Zero));
}

#[test]
fn the_record_never_promises_less_than_the_duration() {
    let seconds = Duration::from_secs;
    let timing = Timing::new(Duration::from_millis(10_500), seconds(10), seconds(2)).unwrap();
    let mut machine = Machine::new("me".to_owned(), timing);
    let Some(Attempt::Create(record)) = machine.observe(at(0), WallTime(0), None) else { panic!("free") };
    assert_eq!(record.lease_duration_seconds, 11);
}
