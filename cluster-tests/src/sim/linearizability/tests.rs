//! The checker accepts outcomes that a correct store may give and rejects others.
//!
//! Histories are written one call a line: `asked-answered ask => told`. `w5 always`, `w5 absent`, `w5 at3`, `del at3`,
//! `read`; `ok7 was3` (applied at revision 7, where the version of revision 3 stood), `no7 was3`, `got7 was3`, `?`, `x`.
//! A version of revision R has tag R unless a line says otherwise by `tagged`.

use super::*;

/// The tag a write at `revision` has in these histories.
fn version(word: &str) -> Option<Version> {
    let revision: u64 = word.strip_prefix("was").unwrap().parse().unwrap();
    (revision > 0).then_some(Version { revision: Revision(revision), tag: Tag(revision), marked: false })
}

fn call(line: &str) -> Call {
    let (times, rest) = line.trim().split_once(' ').unwrap();
    let (ask, told) = rest.split_once("=>").unwrap();
    let (asked, answered) = times.split_once('-').unwrap();
    let words: Vec<&str> = ask.split_whitespace().collect();
    let guard = |word: &str| match word {
        "always" => Guard::Always,
        "absent" => Guard::Absent,
        at => Guard::At(Revision(at.strip_prefix("at").unwrap().parse().unwrap())),
    };
    let ask = match words[0] {
        "read" => Ask::Read,
        "del" => Ask::Write { guard: guard(words[1]), tag: None },
        write => Ask::Write { guard: guard(words[1]), tag: Some(Tag(write[1..].parse().unwrap())) },
    };
    let words: Vec<&str> = told.split_whitespace().collect();
    let revision = |prefix: &str| Revision(words[0].strip_prefix(prefix).unwrap().parse().unwrap());
    let told = match &words[0][..1] {
        "?" => Told::Unknown,
        "x" => Told::NotDone,
        "o" => Told::Applied { revision: revision("ok"), previous: version(words[1]) },
        "n" => Told::Refused { revision: revision("no"), current: version(words[1]) },
        _ => Told::Found { revision: revision("got"), current: version(words[1]) },
    };
    let answered = if told == Told::Unknown { u64::MAX } else { answered.parse().unwrap() };
    Call { client: 0, path: Arc::from("k"), ask, asked: asked.parse().unwrap(), answered, told }
}

fn history(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = text.lines().filter(|line| !line.trim().is_empty()).map(call).collect();
    calls.sort_by_key(|call| call.asked);
    calls
}

#[track_caller]
fn accepts(text: &str) {
    assert_eq!(check_registers(&history(text), |_| None), Ok(()));
    assert_eq!(check_order(&history(text)), Ok(()));
}

#[track_caller]
fn rejects(text: &str) {
    let found = check_registers(&history(text), |_| None);
    assert!(
        matches!(found, Err(Anomaly::NotLinearizable { .. } | Anomaly::TwoRevisions { .. })),
        "{found:?}"
    );
}

#[track_caller]
fn rejects_order(text: &str) {
    assert!(check_order(&history(text)).is_err());
}

#[test]
fn calls_one_after_the_other_are_linearizable() {
    accepts(
        "1-2 w3 absent => ok3 was0
         3-4 read => got3 was3
         5-6 w4 at3 => ok4 was3
         7-8 w9 at3 => no5 was4
         9-10 del at4 => ok6 was4
         11-12 read => got6 was0
         13-14 w7 absent => ok7 was0",
    );
}

#[test]
fn concurrent_calls_may_take_effect_in_either_order() {
    accepts(
        "1-9 w3 always => ok3 was0
         2-3 read => got2 was0
         4-5 read => got3 was3
         6-8 read => got3 was3",
    );
    accepts(
        "1-9 w4 always => ok4 was3
         2-8 w3 always => ok3 was0
         10-11 read => got4 was4",
    );
}

#[test]
fn a_stale_read_is_rejected() {
    rejects(
        "1-2 w3 absent => ok3 was0
         3-4 w4 at3 => ok4 was3
         5-6 read => got4 was3",
    );
}

#[test]
fn a_read_that_goes_back_is_rejected_even_while_the_write_is_open() {
    rejects(
        "1-9 w3 absent => ok3 was0
         2-3 read => got3 was3
         4-5 read => got3 was0",
    );
}

#[test]
fn a_lost_acknowledged_write_is_rejected() {
    rejects(
        "1-2 w3 always => ok3 was0
         3-4 read => got5 was0",
    );
    rejects(
        "1-2 w3 always => ok3 was0
         3-4 w4 always => ok4 was0",
    );
}

#[test]
fn two_winners_of_one_condition_are_rejected() {
    rejects(
        "1-2 w3 absent => ok3 was0
         3-9 w4 at3 => ok4 was3
         4-8 w5 at3 => ok5 was3",
    );
    rejects(
        "1-8 w3 absent => ok3 was0
         2-9 w4 absent => ok4 was0",
    );
}

#[test]
fn a_write_that_applied_against_its_guard_is_rejected() {
    rejects(
        "1-2 w3 absent => ok3 was0
         3-4 w4 absent => ok4 was3",
    );
}

#[test]
fn a_refusal_while_the_guard_held_is_rejected() {
    rejects(
        "1-2 w3 absent => ok3 was0
         3-4 w4 at3 => no5 was3",
    );
    rejects("1-2 w3 absent => no3 was0");
}

#[test]
fn an_unknown_outcome_may_have_happened_may_not_or_may_later() {
    accepts(
        "1-2 w3 absent => ok3 was0
         3-0 w4 at3 => ?
         5-6 read => got9 was3",
    );
    accepts(
        "1-2 w3 absent => ok3 was0
         3-0 w4 always => ?
         5-6 read => got3 was3
         7-8 read => got4 was4",
    );
    accepts(
        "1-2 w3 absent => ok3 was0
         3-0 del at3 => ?
         5-6 read => got4 was0",
    );
}

#[test]
fn an_unknown_outcome_happens_at_most_once() {
    rejects(
        "1-2 w3 absent => ok3 was0
         3-0 w4 always => ?
         5-6 read => got4 was4
         7-8 w6 at4 => ok6 was4
         9-10 read => got7 was4",
    );
    let mut twice = history(
        "1-0 w4 always => ?
         5-6 read => got4 was4
         9-10 read => got7 was4",
    );
    twice[2].told = Told::Found {
        revision: Revision(7),
        current: Some(Version { revision: Revision(7), tag: Tag(4), marked: false }),
    };
    assert!(matches!(check_registers(&twice, |_| None), Err(Anomaly::TwoRevisions { .. })));
}

#[test]
fn an_unknown_outcome_happens_not_before_it_was_asked() {
    rejects(
        "1-2 read => got4 was4
         3-0 w4 always => ?",
    );
}

#[test]
fn a_version_from_before_all_calls_is_known() {
    let read = history("1-2 read => got4 was4");
    let version = version("was4");
    assert_eq!(check_registers(&read, |_| version), Ok(()));
    assert!(check_registers(&history("1-2 read => got4 was0"), |_| version).is_err());
}

#[test]
fn writes_that_were_certainly_not_done_are_never_seen() {
    rejects(
        "1-2 w4 always => x
         3-4 read => got4 was4",
    );
}

#[test]
fn a_value_from_nowhere_is_rejected() {
    rejects("1-2 read => got4 was4");
}

#[test]
fn revisions_grow_with_real_time() {
    rejects_order(
        "1-2 w5 always => ok5 was0
         3-4 read => got4 was0",
    );
    rejects_order(
        "1-2 w5 always => ok5 was0
         3-4 w6 always => ok4 was0",
    );
    rejects_order(
        "1-9 w5 always => ok5 was0
         2-8 w6 always => ok5 was0",
    );
}

/// Many clients on a correct register, and one outcome of it falsified: the first history passes at once though
/// hundreds of calls overlap, the second is rejected.
#[test]
fn long_overlapping_histories_are_judged_quickly() {
    let mut calls = Vec::new();
    let mut revision = 1;
    for round in 0..120_u64 {
        let base = round * 20;
        let before = revision;
        for client in 0..6 {
            revision += 1;
            let was = if revision == 2 { 0 } else { revision - 1 };
            calls.push(format!(
                "{}-{} w{revision} always => ok{revision} was{was}",
                base + client,
                base + 19 - client
            ));
        }
        calls.push(format!("{}-0 w9{round:04} at{before} => ?", base + 7));
    }
    accepts(&calls.join("\n"));
    let position = calls.iter().position(|line| line.contains("ok400 ")).unwrap();
    calls[position] = calls[position].replace("was399", "was397");
    rejects(&calls.join("\n"));
}
