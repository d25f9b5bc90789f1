//! Contacts: for each other member, whether it answers, when it was last heard, and the index that it had applied then.
//!
//! Owns that record for the status; no decision of the store depends on it. Every member asks every other each two seconds
//! anyway (see agreement), and a status asks once more. With each answer a member passes on its own contacts, so that a
//! member that has just started can tell since when a dead one is silent.
//!
//! Invariant: the record holds members alone: answers of others and words about others are not kept.

mod survey;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Sub;
use std::time::Duration;

use bytes::Bytes;
use orch_proto::store as wire;
use parking_lot::Mutex;

use crate::member::log::SyncTimes;

/// Marks of this member's own index: ten minutes of rounds.
const MARKS_MAX: usize = 300;

/// Most bytes of a report of another member: with some certificates and backups it has two thousand.
pub const REPORT_BYTES_MAX: usize = 16 << 10;

/// The last contact with each other member, by id. `I` is the instant of the member's clock.
pub(crate) struct Contacts<I> {
    members: Mutex<BTreeMap<u64, Contact<I>>>,
    /// The last index that this member had applied at each round, oldest first: by them the age of another one's state is known.
    marks: Mutex<VecDeque<(I, u64)>>,
}

/// The last contact with one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether it answered the last question of this member; `None` before the first.
    pub(crate) answers: Option<bool>,
    /// The time since it was heard by any member; `None` if none is known to have heard it.
    pub(crate) age: Option<Duration>,
    /// The last index that it had applied then; `None` for programs that do not say so.
    pub(crate) applied: Option<u64>,
    /// The highest feature level of its program; as above.
    pub(crate) supported: Option<u32>,
    /// How long its appends took; as above.
    pub(crate) syncs: Option<SyncTimes>,
    /// Milliseconds by which its wall clock is ahead of this member's, as far as an answer tells; as above.
    pub(crate) skew_ms: Option<i64>,
    /// Bytes that its store may still take; as above, and `None` for a disk without a bound.
    pub(crate) room: Option<u64>,
    /// The report of its program about itself, as it came with its last answer; `None` where it did not answer the last question, where it
    /// reports nothing, and for programs that do not.
    pub(crate) report: Option<Bytes>,
}

#[derive(Clone)]
struct Contact<I> {
    /// Contact as of `noted`, with the age as of that time.
    seen: Seen,
    noted: I,
}

impl<I> Default for Contacts<I> {
    fn default() -> Self {
        Contacts { members: Mutex::default(), marks: Mutex::default() }
    }
}

impl<I: Copy + Sub<Output = Duration>> Contacts<I> {
    /// Contact of `member` at `now`.
    pub(crate) fn of(&self, member: u64, now: I) -> Seen {
        self.members.lock().get(&member).map_or_else(Seen::default, |contact| contact.at(now))
    }

    /// Notes that this member has applied `index` at `now`.
    pub(crate) fn mark(&self, now: I, index: u64) {
        let mut marks = self.marks.lock();
        if marks.back().is_some_and(|(_, last)| *last >= index) {
            return;
        }
        if marks.len() >= MARKS_MAX {
            marks.pop_front();
        }
        marks.push_back((now, index));
    }

    /// For how long this member has had more than a member that has applied `index`: the time by which that one lags, to the length of a
    /// round; zero where it does not.
    pub(crate) fn behind(&self, now: I, index: u64) -> Duration {
        let marks = self.marks.lock();
        let after = marks.partition_point(|(_, mark)| *mark <= index);
        marks.get(after).map_or(Duration::ZERO, |(since, _)| now - *since)
    }

    /// Notes the result of a question to each of `asked`, by this member's wall clock: `None` if it was not answered. Forgets all other members.
    fn note<'a>(
        &self,
        (now, clock_ms): (I, u64),
        asked: impl Iterator<Item = (u64, Option<&'a wire::AgreementResponse>)>,
    ) {
        let mut contacts = self.members.lock();
        let mut before = std::mem::take(&mut *contacts);
        let mut told: Vec<&wire::Contact> = Vec::new();
        for (member, answer) in asked {
            let known = before.remove(&member).map_or_else(Seen::default, |contact| contact.at(now));
            let seen = match answer {
                // Its last report may be long out of date.
                None => Seen { answers: Some(false), report: None, ..known },
                Some(answer) => {
                    told.extend(&answer.contacts);
                    let says = answer.feature_level_max > 0;
                    Seen {
                        answers: Some(true),
                        age: Some(Duration::ZERO),
                        applied: says.then_some(answer.applied),
                        supported: says.then_some(answer.feature_level_max),
                        syncs: answer.syncs.as_ref().map(times_from_wire),
                        skew_ms: (answer.clock_ms > 0).then(|| skew_ms(answer.clock_ms, clock_ms)),
                        room: answer.room,
                        report: report(&answer.report),
                    }
                }
            };
            contacts.insert(member, Contact { seen, noted: now });
        }
        for word in told {
            if let Some(contact) = contacts.get_mut(&word.member) {
                contact.hear(word);
            }
        }
    }

    /// Contacts of `members` at `now`, to be passed on.
    fn words(&self, now: I, members: &BTreeSet<u64>) -> Vec<wire::Contact> {
        let contacts = self.members.lock();
        let known = contacts.iter().filter(|(member, _)| members.contains(member));
        let word = |(member, contact): (&u64, &Contact<I>)| {
            let Seen { age, applied, .. } = contact.at(now);
            let heard_ms_ago = u64::try_from(age?.as_millis()).unwrap_or(u64::MAX);
            Some(wire::Contact { member: *member, heard_ms_ago, applied: applied.unwrap_or(0) })
        };
        known.filter_map(word).collect()
    }
}

impl<I: Copy + Sub<Output = Duration>> Contact<I> {
    /// The contact with the age as of `now`.
    fn at(&self, now: I) -> Seen {
        let age = self.seen.age.map(|age| age.saturating_add(now - self.noted));
        Seen { age, ..self.seen.clone() }
    }

    /// Takes over the contact that another member passed on, if it is the newer one.
    fn hear(&mut self, word: &wire::Contact) {
        let age = Duration::from_millis(word.heard_ms_ago);
        if self.seen.age.is_none_or(|known| age < known) {
            self.seen.age = Some(age);
            self.seen.applied = (word.applied > 0).then_some(word.applied).max(self.seen.applied);
        }
    }
}

/// The report in an answer. One that is too long is dropped: the status does without it.
fn report(sent: &Bytes) -> Option<Bytes> {
    (1..=REPORT_BYTES_MAX).contains(&sent.len()).then(|| sent.clone())
}

/// Milliseconds by which `theirs` is ahead of `ours`.
fn skew_ms(theirs: u64, ours: u64) -> i64 {
    let away = i64::try_from(theirs.abs_diff(ours)).unwrap_or(i64::MAX);
    if theirs < ours { -away } else { away }
}

fn times_from_wire(times: &wire::SyncTimes) -> SyncTimes {
    let wire::SyncTimes { count, p50_us, p99_us, pending_us } = *times;
    let [p50, p99, pending] = [p50_us, p99_us, pending_us].map(Duration::from_micros);
    SyncTimes { count, p50, p99, pending }
}

/// The form of `times` for other members.
pub(crate) fn times_to_wire(times: &SyncTimes) -> wire::SyncTimes {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let SyncTimes { count, p50, p99, pending } = *times;
    wire::SyncTimes { count, p50_us: micros(p50), p99_us: micros(p99), pending_us: micros(pending) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, as an instant and as an age.
    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn answer(applied: u64, contacts: Vec<wire::Contact>) -> wire::AgreementResponse {
        wire::AgreementResponse { applied, feature_level_max: 2, contacts, ..Default::default() }
    }

    fn word(member: u64, heard_ms_ago: u64, applied: u64) -> wire::Contact {
        wire::Contact { member, heard_ms_ago, applied }
    }

    fn age_and_applied(
        contacts: &Contacts<Duration>,
        member: u64,
        now: u64,
    ) -> (Option<Duration>, Option<u64>) {
        let Seen { age, applied, .. } = contacts.of(member, s(now));
        (age, applied)
    }

    #[test]
    fn a_member_that_falls_silent_keeps_the_time_and_the_index_of_its_last_answer() {
        let contacts = Contacts::default();
        assert_eq!(contacts.of(2, s(9)), Seen::default());
        contacts.note((s(10), 0), [(2, Some(&answer(7, vec![]))), (3, None)].into_iter());
        let answered = Seen {
            answers: Some(true),
            age: Some(s(0)),
            applied: Some(7),
            supported: Some(2),
            ..Seen::default()
        };
        assert_eq!(contacts.of(2, s(10)), answered);
        assert_eq!(contacts.of(3, s(10)), Seen { answers: Some(false), ..Seen::default() });
        contacts.note((s(12), 0), [(2, None), (3, None)].into_iter());
        contacts.note((s(14), 0), [(2, None), (3, None)].into_iter());
        let silent = Seen { answers: Some(false), age: Some(s(7)), ..answered };
        assert_eq!(contacts.of(2, s(17)), silent);
        contacts.note((s(18), 0), std::iter::empty());
        assert_eq!(contacts.of(2, s(18)), Seen::default(), "it was removed");
    }

    #[test]
    fn the_newest_word_about_a_dead_member_counts_and_none_about_a_stranger() {
        let contacts = Contacts::default();
        let told = answer(9, vec![word(3, 5000, 4), word(8, 1, 1)]);
        contacts.note((s(10), 0), [(2, Some(&told)), (3, None)].into_iter());
        assert_eq!(age_and_applied(&contacts, 3, 10), (Some(s(5)), Some(4)));
        assert_eq!(contacts.of(8, s(10)), Seen::default());
        let older = answer(9, vec![word(3, 90_000, 3)]);
        contacts.note((s(12), 0), [(2, Some(&older)), (3, None)].into_iter());
        assert_eq!(age_and_applied(&contacts, 3, 12), (Some(s(7)), Some(4)));
        let newest = answer(9, vec![word(3, u64::MAX, 0), word(3, 1000, 6)]);
        contacts.note((s(14), 0), [(2, Some(&newest)), (3, None)].into_iter());
        assert_eq!(age_and_applied(&contacts, 3, 14), (Some(s(1)), Some(6)));
        assert_eq!(contacts.of(3, s(14)).answers, Some(false), "no word makes a member answer");
    }

    #[test]
    fn contacts_that_are_passed_on_leave_out_members_never_heard() {
        let contacts = Contacts::default();
        contacts.note(
            (s(10), 0),
            [(2, Some(&answer(7, vec![]))), (3, None), (4, Some(&answer(8, vec![])))].into_iter(),
        );
        assert_eq!(contacts.words(s(11), &[2, 3].into()), [word(2, 1000, 7)]);
        contacts.note((s(12), 0), [(2, Some(&answer(1, vec![word(4, u64::MAX, 1)]))), (4, None)].into_iter());
        assert_eq!(
            contacts.words(s(13), &[4].into()),
            [word(4, 3000, 8)],
            "no age that a peer makes up overflows"
        );
    }

    #[test]
    fn a_member_that_does_not_answer_reports_nothing() {
        let contacts = Contacts::default();
        let told = wire::AgreementResponse { report: Bytes::from_static(b"r"), ..answer(7, vec![]) };
        contacts.note((s(10), 0), [(2, Some(&told))].into_iter());
        assert_eq!(contacts.of(2, s(10)).report.as_deref(), Some(&b"r"[..]));
        contacts.note((s(12), 0), [(2, None)].into_iter());
        assert_eq!(contacts.of(2, s(12)).report, None);
        assert_eq!(contacts.of(2, s(12)).applied, Some(7));
    }

    #[test]
    fn an_older_program_answers_and_its_state_is_unknown() {
        let contacts = Contacts::default();
        contacts.note((s(1), 0), [(2, Some(&wire::AgreementResponse::default()))].into_iter());
        let expected = Seen { answers: Some(true), age: Some(s(0)), ..Seen::default() };
        assert_eq!(contacts.of(2, s(1)), expected);
    }

    #[test]
    fn an_answer_tells_of_the_disk_and_of_the_clock() {
        let contacts = Contacts::default();
        let syncs = wire::SyncTimes { count: 3, p50_us: 7, p99_us: 9, pending_us: 11 };
        let told = |clock_ms| wire::AgreementResponse {
            clock_ms,
            syncs: Some(syncs),
            room: Some(5),
            ..answer(9, vec![])
        };
        let (ahead, behind) = (told(1_000_250), told(999_000));
        contacts.note((s(1), 1_000_000), [(2, Some(&ahead)), (3, Some(&behind))].into_iter());
        let (two, three) = (contacts.of(2, s(1)), contacts.of(3, s(1)));
        assert_eq!((two.skew_ms, three.skew_ms, two.room), (Some(250), Some(-1000), Some(5)));
        assert_eq!(two.syncs.map(|times| times_to_wire(&times)), Some(syncs));
    }

    #[test]
    fn a_member_lags_by_the_time_since_this_one_had_more() {
        let contacts = Contacts::<Duration>::default();
        assert_eq!(contacts.behind(s(1), 0), Duration::ZERO);
        [(2, 10), (4, 10), (6, 30), (8, 40)].into_iter().for_each(|(at, index)| contacts.mark(s(at), index));
        assert_eq!(contacts.behind(s(9), 40), Duration::ZERO);
        assert_eq!(contacts.behind(s(9), 30), s(1));
        assert_eq!(contacts.behind(s(9), 12), s(3));
        assert_eq!(contacts.behind(s(9), 3), s(7));
        (10..1000).for_each(|at| contacts.mark(s(at), 100 + at));
        assert!(contacts.marks.lock().len() <= MARKS_MAX);
    }
}
