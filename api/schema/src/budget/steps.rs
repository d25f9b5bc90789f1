//! The steps of one request, and its cancellation, checked inside the loops of every stage.
//!
//! Owns the count, the flags, and the thread's current budget. A request's [`Budget`] is entered around each of its
//! polls, in the pool and in a try. A loop over a client's input calls [`count_step`] for every value, which is a decrement, and a look at the flags every
//! [`LOOK_EVERY`] steps. The budget is a thread-local because those loops lie below functions that know no request: a
//! codec, a set of fields, a rule of validation, a path. A thread that shares its processor with others pauses at the same
//! looks ([`pausing`]).
//!
//! A budget also says whether its request waits for another server ([`Budget::wait`]): what is meant for work is not kept
//! from others meanwhile.
//!
//! Invariant: once a loop was stopped, all later loops of that request stop, and the incomplete result is neither
//! proposed nor answered. The gates are [`Budget::begin_write`] and [`Budget::check`].
//! Invariant: work outside a budget (small requests of built-in kinds, the controllers' loops, tests) is never stopped.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Steps of one write. A document at its bound of memory has some 200,000 values, each looked at some dozens of times from
/// decoding to rendering, and a JSON patch may look at five million: about ten million steps, a few hundred milliseconds.
/// The rest is room for attempts that lose against other writers.
pub const STEPS_MAX: u64 = 50_000_000;

/// Steps of a try on a thread that serves connections ([`Budget::make_brief`]): half a millisecond of work, at some thirty nanoseconds each. The
/// write of a common object of 1 kB takes a tenth of them.
pub const BRIEF_STEPS_MAX: u64 = 20_000;

/// Steps between two looks at the flags: some tens of microseconds, against a nanosecond for the look.
const LOOK_EVERY: u32 = 2048;

/// Flag: the client is gone, or the request's deadline has passed.
const CANCELLED: u8 = 1;
/// Flag: a write was, or may have been, proposed.
const WRITING: u8 = 2;
/// Flag: the steps are used up.
const OVER: u8 = 4;
/// Flag: the steps are those of a try ([`Budget::make_brief`]).
const BRIEF: u8 = 8;

thread_local! {
    /// Steps until the flags are looked at again.
    static LEFT: Cell<u32> = const { Cell::new(LOOK_EVERY) };
    /// The budget of the request that the thread works for.
    static ENTERED: RefCell<Option<Arc<Budget>>> = const { RefCell::new(None) };
    /// Called at every look.
    static PAUSE: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread, and calls `pause` at each look at the flags in it, which may block the thread for a while: no
/// loop that counts steps may hold a lock that other requests need.
pub fn pausing<T>(pause: Rc<dyn Fn()>, work: impl FnOnce() -> T) -> T {
    struct Restored(Option<Rc<dyn Fn()>>);
    impl Drop for Restored {
        fn drop(&mut self) {
            PAUSE.set(self.0.take());
        }
    }
    let _outer = Restored(PAUSE.replace(Some(pause)));
    work()
}

fn pause() {
    if let Some(pause) = PAUSE.with_borrow(Clone::clone) {
        pause();
    }
}

/// Counts a step of the request that the thread works for. `false`: the loop must end; its result is not used.
#[inline]
pub fn count_step() -> bool {
    LEFT.with(|left| match left.get().checked_sub(1) {
        Some(rest) => {
            left.set(rest);
            true
        }
        None => look(left),
    })
}

/// Counts many steps at once, those of work that is about to be done and cannot be stopped inside. `false`: the work must
/// not begin; no result of it is used.
pub fn count_steps(steps: u64) -> bool {
    pause();
    let may = ENTERED.with_borrow(|entered| entered.as_ref().is_none_or(|budget| budget.spend(steps)));
    if !may {
        LEFT.set(0);
    }
    may
}

/// Takes the steps since the last look from the budget. In a stopped request every further step is a look.
#[cold]
fn look(left: &Cell<u32>) -> bool {
    pause();
    let may = ENTERED
        .with_borrow(|entered| entered.as_ref().is_none_or(|budget| budget.spend(u64::from(LOOK_EVERY))));
    // This look is a step, too.
    left.set(if may { LOOK_EVERY - 1 } else { 0 });
    may
}

/// A loop over a client's input.
pub trait Numbered: Iterator + Sized {
    /// The items with their indices, as long as the request goes on.
    fn numbered(self) -> impl Iterator<Item = (usize, Self::Item)> {
        self.take_while(|_| count_step()).enumerate()
    }
}

impl<I: Iterator> Numbered for I {}

/// The reason why a request was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Its client is gone, or its deadline has passed.
    #[error("nobody waits for the request any more")]
    Cancelled,
    /// Its steps are used up.
    #[error("the request needs more steps than one request may take: its values are too many")]
    TooManySteps,
}

/// The steps that one request has left, and its flags.
#[derive(Debug)]
pub struct Budget {
    flags: AtomicU8,
    steps_left: AtomicU64,
    /// Parts of the request that wait for something else than this node's work: see [`Budget::wait`].
    waits: AtomicU32,
}

/// A part of a request that waits, until it is dropped.
#[derive(Debug)]
pub struct Wait<'a>(&'a Budget);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.waits.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::of(STEPS_MAX)
    }
}

impl Budget {
    /// A budget of `steps` steps.
    pub fn of(steps: u64) -> Budget {
        Budget { flags: AtomicU8::new(0), steps_left: AtomicU64::new(steps), waits: AtomicU32::new(0) }
    }

    /// Leaves the request the steps of a try: a few, until it begins to write or is made [whole](Budget::make_whole). For work whose cost
    /// shows while it is done. What is tried must have no effects before [`Budget::begin_write`], or
    /// [end the try](Budget::begin_effects) before them.
    pub fn make_brief(&self) {
        self.steps_left.store(BRIEF_STEPS_MAX, Ordering::Relaxed);
        self.flags.fetch_or(BRIEF, Ordering::SeqCst);
    }

    /// Whether a try ended for want of steps, with nothing written and nobody gone. The request has all steps of a write
    /// from then on, and may be begun again.
    pub fn make_whole(&self) -> bool {
        let over = |flags: u8| (flags == BRIEF | OVER).then_some(0);
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        let ended = self.flags.fetch_update(success, failure, over).is_ok();
        if ended {
            self.steps_left.store(STEPS_MAX, Ordering::Relaxed);
        }
        ended
    }

    /// Must be called before another server is asked, or anything else that must not happen twice for one request.
    ///
    /// # Errors
    /// Those of [`Budget::check`]. A try ends, as if its steps were used up.
    pub fn begin_effects(&self) -> Result<(), Stopped> {
        if self.flags.load(Ordering::SeqCst) & BRIEF != 0 {
            self.flags.fetch_or(OVER, Ordering::SeqCst);
        }
        self.check()
    }

    /// Cancels the request because its client is gone or its deadline has passed: its loops end at their next look.
    /// Returns whether the request may have changed something; if not, it never will.
    pub fn cancel(&self) -> bool {
        self.flags.fetch_or(CANCELLED, Ordering::SeqCst) & WRITING != 0
    }

    /// Must be called after each stage, before its result is used.
    ///
    /// # Errors
    /// The request was stopped, and why.
    pub fn check(&self) -> Result<(), Stopped> {
        match self.flags.load(Ordering::SeqCst) & (CANCELLED | OVER) {
            0 => Ok(()),
            OVER => Err(Stopped::TooManySteps),
            _ => Err(Stopped::Cancelled),
        }
    }

    /// Must be called before each proposal. From then on the request may have changed something.
    ///
    /// # Errors
    /// Those of [`Budget::check`]: nothing may be proposed.
    pub fn begin_write(&self) -> Result<(), Stopped> {
        self.check()?;
        // Both flags are in one atomic word: either `cancel` sees WRITING, or this call sees CANCELLED.
        let before = self.flags.fetch_or(WRITING, Ordering::SeqCst);
        if before & CANCELLED != 0 {
            return Err(Stopped::Cancelled);
        }
        if before & BRIEF != 0 {
            // The steps behind the proposal resemble those before it: the answer, or another attempt.
            self.steps_left.store(STEPS_MAX, Ordering::Relaxed);
            self.flags.fetch_and(!BRIEF, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Whether a write may have been proposed.
    pub fn has_begun_to_write(&self) -> bool {
        self.flags.load(Ordering::SeqCst) & WRITING != 0
    }

    /// Begins a wait for another server, or for a loop: as long as the result lives, whoever polls the request takes
    /// back what is meant for work, such as its place in a pool.
    pub fn wait(&self) -> Wait<'_> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        Wait(self)
    }

    /// Whether a part of the request waits.
    pub fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::SeqCst) > 0
    }

    /// Runs `work` on this thread with this budget.
    pub fn enter<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let entered = Entered {
            outer: ENTERED.replace(Some(self.clone())),
            left: LEFT.replace(if self.check().is_ok() { LOOK_EVERY } else { 0 }),
        };
        let result = work();
        drop(entered);
        result
    }

    /// Steps that are left, as of the last look.
    pub fn steps_left(&self) -> u64 {
        self.steps_left.load(Ordering::Relaxed)
    }

    /// Takes `steps` from the budget. Returns whether the request may go on.
    fn spend(&self, steps: u64) -> bool {
        let taken = |left: u64| left.checked_sub(steps);
        let relaxed = Ordering::Relaxed;
        if self.steps_left.fetch_update(relaxed, relaxed, taken).is_err() {
            self.flags.fetch_or(OVER, Ordering::SeqCst);
        }
        self.check().is_ok()
    }
}

/// The budget that a thread worked for before it entered another one, restored on drop.
struct Entered {
    outer: Option<Arc<Budget>>,
    left: u32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let budget = ENTERED.replace(self.outer.take());
        let left = LEFT.replace(self.left);
        if let Some(budget) = budget {
            // Steps since the last look are taken from the budget, too: a job is polled many times.
            budget.spend(u64::from(LOOK_EVERY.saturating_sub(left)));
        }
    }
}

/// Helpers for tests that a stage stops with its request.
#[cfg(any(test, feature = "testing"))]
pub mod stopping {
    use super::*;

    /// Runs `work` with a budget of `steps`. Returns its result, and whether the request was stopped.
    pub fn is_stopped<T>(steps: u64, work: impl FnOnce() -> T) -> (T, bool) {
        let budget = Arc::new(Budget::of(steps));
        let result = budget.enter(work);
        (result, budget.check().is_err())
    }

    /// Checks that `work` counts at least `steps_min` steps, and that it ends within a tenth of them when it was
    /// cancelled.
    pub fn check_stops<T>(what: &str, steps_min: u64, mut work: impl FnMut() -> T) {
        let whole = Arc::new(Budget::default());
        drop(whole.enter(&mut work));
        let used = STEPS_MAX - whole.steps_left();
        assert!(used >= steps_min, "{what}: {used} steps, {steps_min} values");
        let gone = Arc::new(Budget::default());
        gone.cancel();
        drop(gone.enter(&mut work));
        assert_eq!(gone.check(), Err(Stopped::Cancelled));
        // Each step of a stopped request is a look, and each look takes `LOOK_EVERY` steps from the budget.
        let looks = (STEPS_MAX - gone.steps_left()) / u64::from(LOOK_EVERY);
        assert!(looks * 10 <= steps_min, "{what}: went on for {looks} of {steps_min} values");
    }
}

#[cfg(test)]
mod tests {
    use super::stopping::is_stopped;
    use super::*;

    #[test]
    fn a_request_waits_until_its_last_wait_ends() {
        let budget = Budget::default();
        assert!(!budget.is_waiting());
        let (first, second) = (budget.wait(), budget.wait());
        drop(first);
        assert!(budget.is_waiting());
        drop(second);
        assert!(!budget.is_waiting());
        assert_eq!(budget.begin_write(), Ok(()), "a wait stops nothing");
    }

    #[test]
    fn a_cancelled_request_goes_no_further() {
        let budget = Arc::new(Budget::default());
        assert_eq!(budget.check(), Ok(()));
        let steps = budget.enter(|| {
            let mut steps = 0;
            while count_step() && steps < 1_000_000 {
                steps += 1;
                if steps == 10_000 {
                    assert!(!budget.cancel(), "nothing was written");
                }
            }
            steps
        });
        assert!((10_000..=10_000 + LOOK_EVERY).contains(&steps), "{steps}");
        assert_eq!(budget.check(), Err(Stopped::Cancelled));
        assert_eq!(budget.begin_write(), Err(Stopped::Cancelled));
        assert!(!budget.has_begun_to_write());
        assert!(!budget.enter(count_step), "the next poll does not go on either");
        assert!(count_step(), "another request of the thread does");
    }

    #[test]
    fn steps_run_out_and_polls_add_up() {
        let steps = |count: u32| (0..count).all(|_| count_step());
        assert_eq!(is_stopped(100_000, || steps(90_000)), (true, false));
        assert_eq!(is_stopped(100_000, || steps(110_000)), (false, true));
        let budget = Arc::new(Budget::of(100_000));
        let polls = (0..1_000).take_while(|_| budget.enter(|| steps(1_000))).count();
        assert!((95..=101).contains(&polls), "{polls}");
        assert!(matches!(budget.check(), Err(Stopped::TooManySteps)));
        assert!(steps(1_000_000), "work of no request has no bound");
    }

    #[test]
    fn a_try_that_needs_more_steps_is_begun_again_with_all_of_them() {
        let steps = |count: u32| (0..count).all(|_| count_step());
        let budget = Arc::new(Budget::default());
        budget.make_brief();
        assert!(budget.enter(|| steps(15_000)) && budget.check().is_ok());
        assert!(!budget.enter(|| steps(30_000)));
        assert_eq!(budget.begin_write(), Err(Stopped::TooManySteps), "nothing of it is written");
        assert!(budget.make_whole());
        assert!(budget.enter(|| steps(1_000_000)) && budget.begin_write().is_ok());
        assert!(!budget.make_whole(), "once");
    }

    #[test]
    fn a_try_that_began_to_write_is_not_begun_again() {
        let budget = Arc::new(Budget::default());
        budget.make_brief();
        assert_eq!(budget.begin_write(), Ok(()));
        assert!(budget.enter(|| (0..1_000_000).all(|_| count_step())), "it has all steps from here on");
        assert!(budget.enter(|| !count_steps(STEPS_MAX)));
        assert!(!budget.make_whole() && budget.check() == Err(Stopped::TooManySteps));
    }

    #[test]
    fn a_try_ends_before_effects_and_a_cancelled_one_stays_cancelled() {
        let budget = Budget::default();
        assert_eq!(budget.begin_effects(), Ok(()), "no try");
        budget.make_brief();
        assert_eq!(budget.begin_effects(), Err(Stopped::TooManySteps));
        assert!(budget.make_whole());
        assert_eq!(budget.begin_effects(), Ok(()));
        let gone = Budget::default();
        gone.make_brief();
        gone.cancel();
        assert_eq!(gone.begin_effects(), Err(Stopped::Cancelled));
        assert!(!gone.make_whole());
    }

    #[test]
    fn many_steps_are_counted_before_the_work() {
        assert_eq!(is_stopped(100_000, || (count_steps(90_000), count_steps(20_000))), ((true, false), true));
        let after = is_stopped(100_000, || (count_steps(200_000), count_step(), count_steps(0)));
        assert_eq!(after, ((false, false, false), true), "other loops of the request end, too");
        let gone = Arc::new(Budget::default());
        gone.cancel();
        assert!(!gone.enter(|| count_steps(1)));
        assert!(count_steps(u64::MAX), "work of no request has no bound");
    }

    #[test]
    fn looks_pause_inside_and_nowhere_else() {
        let pauses = Rc::new(Cell::new(0));
        let counted = pauses.clone();
        let steps = |count: u32| (0..count).for_each(|_| assert!(count_step()));
        pausing(Rc::new(move || counted.set(counted.get() + 1)), || {
            steps(10 * LOOK_EVERY);
            assert!(count_steps(1_000_000));
        });
        assert!((10..=12).contains(&pauses.get()), "{}", pauses.get());
        steps(10 * LOOK_EVERY);
        assert!(pauses.get() <= 12);
    }

    #[test]
    fn a_canceller_learns_of_a_write_that_was_begun() {
        let budget = Budget::default();
        assert_eq!(budget.begin_write(), Ok(()));
        assert!(budget.cancel() && budget.has_begun_to_write());
        assert_eq!(budget.begin_write(), Err(Stopped::Cancelled), "nothing else is written");
    }
}
