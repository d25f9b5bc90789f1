//! Eras: the times of the clusters of one run, each made from the objects of the one before.
//!
//! Owns the division of clients' calls by era, and the judgement of watches at its borders. A recovery or a restore loses
//! writes after its point, so that no order of calls explains both sides of it; within an era one must. A watch ends with its
//! era: what it shows after the beginning of the next one, it passed silently over changes that are lost.
//!
//! Revisions and times need no division: a revision of a later era is beyond every one of an earlier era.

use orch_raft::Revision;

use super::history::Call;
use super::sightings::Watched;

/// A cluster that was made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    /// Time in the history at which it was made: no process of any cluster ran.
    pub began: u64,
    /// The revision that it begins at.
    pub beginning: Revision,
}

/// The calls of the first cluster, and of each of `eras` with its beginning. A call whose outcome is of a later era than the one it was
/// asked in was carried out there: its client waited until a member was up again. One without an outcome is among the calls of each era in
/// which its client had not given it up, since it may have been carried out in any of them, or in none.
pub fn divide(calls: Vec<Call>, eras: &[Era]) -> Vec<(Revision, Vec<Call>)> {
    let mut divided = vec![(Revision(0), Vec::new())];
    divided.extend(eras.iter().map(|era| (era.beginning, Vec::new())));
    for call in calls {
        let of = |is_past: &dyn Fn(&Era) -> bool| eras.iter().filter(|era| is_past(era)).count();
        let asked_in = of(&|era| era.began < call.asked);
        let last = match call.told.revision() {
            Some(told) => asked_in.max(of(&|era| era.beginning <= told)),
            None => asked_in.max(of(&|era| era.began < call.answered)),
        };
        let first = if call.told.revision().is_some() { last } else { asked_in };
        for (_, calls) in &mut divided[first..=last] {
            calls.push(call.clone());
        }
    }
    divided
}

/// A description of `watched` where it went on into a later era than its own.
pub fn went_on(watched: &Watched, eras: &[Era]) -> Option<String> {
    let Watched { client, resource, filter, start, through, .. } = watched;
    let passed = eras.iter().find(|era| *start < era.beginning && era.beginning <= *through)?;
    let beginning = passed.beginning;
    Some(format!(
        "watch of client {client} on {resource} ({filter:?}) from {start} through {through} went on over the beginning \
         {beginning} of a cluster made anew"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sim::history::{Ask, Told};
    use crate::sim::sightings::Filter;

    const ERAS: [Era; 2] =
        [Era { began: 10, beginning: Revision(1000) }, Era { began: 20, beginning: Revision(2000) }];

    #[test]
    fn a_call_belongs_to_the_era_that_it_was_carried_out_or_asked_in() {
        let call = |(asked, told): (u64, Option<u64>)| Call {
            client: 1,
            path: Arc::from("a"),
            ask: Ask::Read,
            asked,
            answered: asked + 1,
            told: told.map_or(Told::Unknown, |told| Told::Found { revision: Revision(told), current: None }),
        };
        let calls = [(5, None), (6, Some(900)), (9, Some(1000)), (10, None), (11, Some(1001)), (30, None)];
        let divided = divide(calls.map(call).to_vec(), &ERAS);
        let asked: Vec<(u64, Vec<u64>)> = divided
            .into_iter()
            .map(|(beginning, calls)| (beginning.0, calls.iter().map(|call| call.asked).collect()))
            .collect();
        assert_eq!(asked, [(0, vec![5, 6, 10]), (1000, vec![9, 10, 11]), (2000, vec![30])]);
    }

    #[test]
    fn a_watch_ends_with_its_era() {
        let watched = |start, through| Watched {
            client: 1,
            resource: "configmaps".into(),
            filter: Filter::All,
            start: Revision(start),
            through: Revision(through),
            resumed: 1,
            sightings: Vec::new(),
        };
        for (start, through) in [(5, 999), (1000, 1999), (1000, 1000), (2000, 2500)] {
            assert_eq!(went_on(&watched(start, through), &ERAS), None, "{start} {through}");
        }
        for (start, through) in [(5, 1000), (999, 1001), (1000, 2000)] {
            assert!(went_on(&watched(start, through), &ERAS).is_some(), "{start} {through}");
        }
    }
}
