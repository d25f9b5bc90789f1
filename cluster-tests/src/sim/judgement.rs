//! What is held against what happened at the end of a run, and what a run must have done to count.
//!
//! Owns the order of the checks and the least of each that must have been possible: a check that cannot tell is none.

use std::fmt;

use super::linearizability::{check_order, check_registers};
use super::world::World;

/// Calls with an outcome, for each second of its length, below which a run counts for nothing.
const CALLS_PER_SECOND_MIN: usize = 12;

/// Watches, lists and answers that must have been verified. A usual run has several times as many.
const WATCHES_MIN: usize = 3;
const LISTS_MIN: usize = 4;
const ANSWERS_MIN: usize = 8;

/// Calls with an outcome, on the store and through the API.
pub(super) fn answered(world: &World) -> usize {
    let through_api = world.outcomes();
    world.history().answered() + through_api
}

pub(super) fn calls_min(world: &World) -> usize {
    let seconds = usize::try_from(world.setup().length.as_secs()).unwrap_or(usize::MAX);
    seconds.saturating_mul(CALLS_PER_SECOND_MIN)
}

/// Holds everything that clients saw against what happened.
pub(super) fn judge(world: &World) -> Verified {
    let calls = world.history().calls();
    let ledger = world.ledger();
    let fail = |error: &dyn fmt::Display| world.fail(error);
    check_registers(&calls).unwrap_or_else(|error| fail(&error));
    check_order(&calls).unwrap_or_else(|error| fail(&error));
    ledger.check_calls(&calls).unwrap_or_else(|error| fail(&error));
    let mut verified = Verified::default();
    for watched in world.watched() {
        verified.watches.note(watched.check(ledger), world);
    }
    let (mut listed, mut replay) = (world.listed(), ledger.replay());
    listed.sort_by_key(|listed| listed.revision);
    for listed in listed {
        verified.lists.note(listed.check(&mut replay), world);
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

/// How many checks could tell, and how many could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Held against what happened.
    pub told: usize,
    /// Nobody knows what happened.
    pub untold: usize,
}

/// What was verified in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Watches.
    pub watches: Tally,
    /// Lists, and copies kept by watching.
    pub lists: Tally,
    /// Answers of the API.
    pub answers: Tally,
}

impl Verified {
    /// A run of which too little could be judged counts for nothing.
    fn require(&self, world: &World) {
        let Verified { watches, lists, answers } = self;
        for (what, tally, least) in [
            ("watches", watches, WATCHES_MIN),
            ("lists", lists, LISTS_MIN),
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
        let Verified { watches, lists, answers } = self;
        let of = |tally: &Tally| format!("{} of {}", tally.told, tally.told + tally.untold);
        write!(f, "{} watches, {} lists, {} answers verified", of(watches), of(lists), of(answers))
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
