//! The checks at the end of a run, and the least that a run must have done to count.
//!
//! Owns the order of the checks and the minimum of decidable cases for each: a check that can decide nothing is none.

use std::fmt;

use orch_api::index::Way;

use super::eras::{divide, went_on};
use super::history::Version;
use super::ledger::THINGS;
use super::linearizability::{check_order, check_registers};
use super::things;
use super::world::World;

/// Minimum of calls with an outcome for each second of a run; a run with fewer does not count.
const CALLS_PER_SECOND_MIN: usize = 12;

/// Minimum of watches, lists and responses that must be checked. A default run has several times as many.
const WATCHES_MIN: usize = 3;
const LISTS_MIN: usize = 4;
const ANSWERS_MIN: usize = 8;
/// Minimum of the lists whose items an index proposed.
const INDEXED_MIN: usize = 1;

/// Calls with an outcome, on the store and through the API.
pub(super) fn answered(world: &World) -> usize {
    let through_api = world.outcomes();
    world.history().answered() + through_api
}

pub(super) fn calls_min(world: &World) -> usize {
    let seconds = usize::try_from(world.setup().length.as_secs()).unwrap_or(usize::MAX);
    seconds.saturating_mul(CALLS_PER_SECOND_MIN)
}

/// Checks everything that clients saw against the ledger.
pub(super) fn judge(world: &World) -> Verified {
    let calls = world.history().calls();
    let ledger = world.ledger();
    let fail = |error: &dyn fmt::Display| world.fail(error);
    let eras = world.eras();
    for (beginning, calls) in divide(calls.clone(), &eras) {
        let first = |key: &str| -> Option<Version> {
            let path = format!("{}/{key}", things::NAMESPACE);
            ledger.versions(THINGS, &path, beginning, beginning)?.pop()?
        };
        check_registers(&calls, first).unwrap_or_else(|error| fail(&error));
    }
    check_order(&calls).unwrap_or_else(|error| fail(&error));
    ledger.check_calls(&calls).unwrap_or_else(|error| fail(&error));
    let mut verified = Verified::default();
    for watched in world.watched() {
        if let Some(passed) = went_on(&watched, &eras) {
            world.fail(passed);
        }
        verified.watches.note(watched.check(ledger), world);
    }
    let (mut listed, mut replay) = (world.listed(), ledger.replay());
    listed.sort_by_key(|listed| listed.revision);
    for listed in listed {
        let checked = listed.check(&mut replay);
        if listed.way == Way::Index {
            verified.indexed.note(checked.clone(), world);
        }
        verified.lists.note(checked, world);
    }
    for answer in world.answers() {
        verified.answers.note(answer.check(ledger), world);
    }
    if let Some(unasked) = world.duties(|duties| duties.unasked(ledger)) {
        world.fail(unasked);
    }
    verified.require(world);
    let (done, least) = (answered(world), calls_min(world));
    if done < least {
        world.fail(format_args!("only {done} calls had an outcome, {least} make a test"));
    }
    verified
}

/// Counts of decidable and undecidable cases of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases checked.
    pub told: usize,
    /// Cases for which the ledger lacks revisions.
    pub untold: usize,
}

/// Counts of the checks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Checked watches.
    pub watches: Tally,
    /// Checked lists, and copies of informers.
    pub lists: Tally,
    /// Those of the checked lists that went through an index.
    pub indexed: Tally,
    /// Checked responses of the API.
    pub answers: Tally,
}

impl Verified {
    /// Fails the run if too few cases could be checked.
    fn require(&self, world: &World) {
        let Verified { watches, lists, indexed, answers } = self;
        for (what, tally, least) in [
            ("watches", watches, WATCHES_MIN),
            ("lists", lists, LISTS_MIN),
            ("lists through an index", indexed, INDEXED_MIN),
            ("answers", answers, ANSWERS_MIN),
        ] {
            let Tally { told, untold } = tally;
            if *told < least || *told < *untold {
                world.fail(format_args!("too little was verified: {told} {what}, {untold} could not be"));
            }
        }
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verified { watches, lists, indexed, answers } = self;
        let of = |tally: &Tally| format!("{} of {}", tally.told, tally.told + tally.untold);
        write!(
            f,
            "{} watches, {} lists ({} of them through an index), {} answers verified",
            of(watches),
            of(lists),
            indexed.told,
            of(answers),
        )
    }
}

impl Tally {
    fn note<E: fmt::Display>(&mut self, checked: Result<bool, E>, world: &World) {
        match checked {
            Ok(true) => self.told += 1,
            Ok(false) => self.untold += 1,
            Err(error) => world.fail(error),
        }
    }
}
