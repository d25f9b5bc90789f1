//! Steps that compiling may take, charged before the work.
//!
//! Owns the unit: a step is a tenth of a microsecond of one core, in compiling as in evaluating. The benchmark `price`
//! holds the prices against the clock (`docs/decisions/0033`). Invariant: nothing that a client sent is parsed or compiled
//! before its steps were charged, and each charge is a place where a request ends whose client is gone.

use orch_schema::budget::count_steps;

/// Steps of a request's budget (`orch_schema::budget`) for each step here: its steps are visits of a value, some thirty
/// nanoseconds each.
const REQUEST_STEPS_PER_STEP: u64 = 3;

/// Takes `steps` from those of the request that the thread works for: of work that is about to be done, or was done within bounds of its
/// own. `false`: the request was stopped, and no result of it is used.
pub fn charge_request(steps: u64) -> bool {
    count_steps(steps.saturating_mul(REQUEST_STEPS_PER_STEP))
}

/// No steps are left, or the request was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// Takes the steps of compiling.
pub trait Charge {
    /// Takes `steps`, those of work that is about to be done.
    ///
    /// # Errors
    /// So many are not left: the work must not begin.
    fn charge(&mut self, steps: u64) -> Result<(), Exhausted>;
}

/// A number of steps, taken from the request that the thread works for, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    left: u64,
}

impl Allowance {
    /// So many steps.
    pub const fn of(steps: u64) -> Allowance {
        Allowance { left: steps }
    }

    /// Steps that are left.
    pub fn left(self) -> u64 {
        self.left
    }

    /// Takes the steps of work that was done before, for the same text: the answer is that of doing it, without the work.
    /// # Errors
    /// So many are not left.
    pub fn charge_remembered(&mut self, steps: u64) -> Result<(), Exhausted> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Exhausted)
    }
}

impl Charge for Allowance {
    fn charge(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.charge_remembered(steps)?;
        if charge_request(steps) { Ok(()) } else { Err(Exhausted) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orch_schema::budget::Budget;

    use super::*;

    #[test]
    fn work_is_refused_beyond_the_steps_and_in_a_stopped_request() {
        let mut allowance = Allowance::of(10);
        assert_eq!(allowance.charge(7), Ok(()));
        assert_eq!(allowance.charge(4), Err(Exhausted));
        assert_eq!((allowance.left(), allowance.charge(1)), (0, Err(Exhausted)), "nothing smaller fits then");
        let gone = Arc::new(Budget::default());
        gone.cancel();
        assert_eq!(gone.enter(|| Allowance::of(10).charge(1)), Err(Exhausted));
        let poor = Arc::new(Budget::of(100_000));
        assert_eq!(poor.enter(|| Allowance::of(1_000_000).charge(900_000)), Err(Exhausted));
        assert_eq!(poor.enter(|| Allowance::of(10).charge(1)), Err(Exhausted), "the request has ended");
    }
}
