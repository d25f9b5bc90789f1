//! Limits of an evaluation: the reference's cost, and the time and memory of this implementation.
//!
//! Owns [`Run`], one evaluation, [`Limits`] of one, and [`Budget`] of several. The cost is what users meet; it counts
//! nothing for literals, however many a loop evaluates, and little for what a call makes. So nodes, bytes and comparisons
//! are counted as well, in ticks of some 25 ns, and an evaluation that runs out of either ends with the same words.

use smallvec::SmallVec;

use super::Outcome;
use super::lazy::Lazies;
use crate::error::{EvaluationError, Failure};
use crate::tree::{Node, Standing};
use crate::value::{Equality, Val, equal};

/// Ticks of a step of [`crate::Allowance`].
const TICKS_PER_STEP: u64 = 4;
/// Bytes that are copied, compared or searched in a tick.
const BYTES_PER_TICK: u64 = 64;
/// Bytes of what an evaluation makes, whether it is still used or not: ten times the largest object.
pub(super) const MADE_BYTES_MAX: usize = 32 << 20;

/// Bounds of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The reference's cost.
    pub cost: u64,
    /// Steps of a tenth of a microsecond.
    pub steps: u64,
    /// Steps of matching patterns, beside those.
    pub pattern_steps: u64,
}

impl Limits {
    /// The reference's bound of one evaluation; at most a quarter of a second.
    pub const CALL: Limits = Limits { cost: 1_000_000, steps: 2_500_000, pattern_steps: 1_000_000 };

    /// The same with patterns of an operator's configuration, which may be larger: five seconds for what an operator would
    /// have to write on purpose; usual patterns take a fiftieth.
    pub const CONFIGURED: Limits = Limits { pattern_steps: 50_000_000, ..Limits::CALL };
}

/// Cost that several evaluations may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    left: u64,
    is_exceeded: bool,
    steps: u64,
}

impl Budget {
    /// So much cost.
    pub const fn of(cost: u64) -> Budget {
        Budget { left: cost, is_exceeded: false, steps: 0 }
    }

    /// A budget that is never exceeded, for places that bound single evaluations only.
    pub const UNBOUNDED: Budget = Budget::of(u64::MAX);

    /// The cost that is left.
    pub fn left(self) -> u64 {
        self.left
    }

    /// Whether an evaluation cost more than was left.
    pub fn is_exceeded(self) -> bool {
        self.is_exceeded
    }

    /// Steps of a tenth of a microsecond that the evaluations took so far, for callers that bound the time of several.
    pub fn steps(self) -> u64 {
        self.steps
    }

    /// Takes the cost and the steps of an evaluation that was made.
    pub(crate) fn spend(&mut self, cost: u64, steps: u64) {
        self.is_exceeded |= cost > self.left;
        self.left = self.left.saturating_sub(cost);
        self.steps = self.steps.saturating_add(steps);
    }
}

/// Names in the messages of a program.
pub(crate) trait VariableNames {
    /// The variable at this place.
    fn name(&self, at: usize) -> &str;
    /// Before the names of the server's own types.
    fn brand(&self) -> &'static str;
}

impl VariableNames for crate::scope::Variables {
    fn name(&self, at: usize) -> &str {
        self.list.get(at).map_or("", |(name, _)| name)
    }

    fn brand(&self) -> &'static str {
        self.brand
    }
}

struct NoNames;

impl VariableNames for NoNames {
    fn name(&self, _at: usize) -> &str {
        ""
    }

    fn brand(&self) -> &'static str {
        ""
    }
}

/// The parts of a program that an evaluation reads.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'v> {
    pub(crate) root: &'v Node,
    pub(crate) names: &'v dyn VariableNames,
    pub(crate) patterns: &'v [Standing],
    pub(crate) slots: usize,
}

/// One evaluation.
pub(crate) struct Run<'v> {
    pub(crate) variables: &'v [Option<Val<'v>>],
    pub(crate) names: &'v dyn VariableNames,
    pub(crate) patterns: &'v [Standing],
    /// Variables of loops and bindings.
    pub(crate) slots: SmallVec<[Outcome<'v>; 8]>,
    /// Variables that are evaluated when they are read.
    pub(crate) lazies: Option<Lazies<'v>>,
    cost: u64,
    limits: Limits,
    ticks_left: u64,
    pattern_steps_left: u64,
    made_bytes_left: usize,
}

impl<'v> Run<'v> {
    pub(crate) fn new(
        variables: &'v [Option<Val<'v>>],
        names: &'v dyn VariableNames,
        patterns: &'v [Standing],
        slots: usize,
        limits: Limits,
    ) -> Run<'v> {
        Run {
            variables,
            names,
            patterns,
            slots: (0..slots).map(|_| Ok(Val::Null)).collect(),
            lazies: None,
            cost: 0,
            limits,
            ticks_left: limits.steps.saturating_mul(TICKS_PER_STEP),
            pattern_steps_left: limits.pattern_steps,
            made_bytes_left: MADE_BYTES_MAX,
        }
    }

    /// A run for literals, while an expression is compiled.
    pub(crate) fn of_constant() -> Run<'static> {
        Run::new(&[], &NoNames, &[], 0, Limits::CALL)
    }

    /// Before the names of the server's own types in messages.
    pub(crate) fn brand(&self) -> &'static str {
        self.names.brand()
    }

    /// The cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The steps so far, those of patterns among them.
    pub(crate) fn steps(&self) -> u64 {
        let own = self.limits.steps.saturating_sub(self.ticks_left / TICKS_PER_STEP);
        own.saturating_add(self.limits.pattern_steps.saturating_sub(self.pattern_steps_left))
    }

    /// The bounds.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Bytes that may still be made.
    pub(super) fn made_bytes_left(&self) -> usize {
        self.made_bytes_left
    }

    pub(super) fn set_made_bytes_left(&mut self, bytes: usize) {
        self.made_bytes_left = bytes;
    }

    /// Adds cost.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limits.cost { Err(too_costly()) } else { Ok(()) }
    }

    /// Takes ticks.
    pub(crate) fn tick(&mut self, ticks: u64) -> Result<(), Failure> {
        match self.ticks_left.checked_sub(ticks) {
            Some(left) => {
                self.ticks_left = left;
                Ok(())
            }
            None => Err(too_costly()),
        }
    }

    /// Takes the ticks of reading `bytes` bytes, before that is done.
    pub(crate) fn read_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.tick(crate::length(bytes) / BYTES_PER_TICK)
    }

    /// Takes the memory and the ticks of making a text of `bytes` bytes, before that is done.
    pub(crate) fn make_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.made_bytes_left = self.made_bytes_left.checked_sub(bytes).ok_or_else(too_costly)?;
        self.read_bytes(bytes)
    }

    /// Takes the memory and the ticks of making a list of `values` values, before that is done.
    pub(crate) fn make_values(&mut self, values: usize) -> Result<(), Failure> {
        self.made_bytes_left = self
            .made_bytes_left
            .checked_sub(values.saturating_mul(size_of::<Val<'_>>()))
            .ok_or_else(too_costly)?;
        self.tick(crate::length(values))
    }

    /// Whether so many steps of matching are left; they are not taken.
    pub(crate) fn has_match_steps(&self, steps: u64) -> Result<(), Failure> {
        if steps > self.pattern_steps_left { Err(too_costly()) } else { Ok(()) }
    }

    /// Takes steps of matching.
    pub(crate) fn match_steps(&mut self, steps: u64) -> Result<(), Failure> {
        match self.pattern_steps_left.checked_sub(steps) {
            Some(left) => {
                self.pattern_steps_left = left;
                Ok(())
            }
            None => Err(too_costly()),
        }
    }

    /// Whether two values are equal.
    pub(crate) fn equal(&mut self, one: &Val<'v>, other: &Val<'v>) -> Result<bool, Failure> {
        equal(one, other, self).map_err(|_| too_costly())
    }
}

impl Equality for Run<'_> {
    fn take(&mut self, steps: u64) -> Result<(), crate::value::TooLong> {
        self.tick(steps).map_err(|_| crate::value::TooLong)
    }
}

fn too_costly() -> Failure {
    Box::new(EvaluationError::Cost)
}
