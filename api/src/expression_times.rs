//! Durations of compiling and evaluating expressions, observed for every place that does so in a request.
//!
//! Owns the names of both series. One sample is what a place does at once: all expressions of a policy, all rules that an object
//! meets. A rule of a definition is compiled when an object first meets it, which counts as a part of that evaluation.

use std::time::Duration;

use metrics::histogram;
use tokio::time::Instant;

/// The result of `work`, which compiles expressions.
pub(crate) fn compiling<T>(work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let made = work();
    histogram!("apiserver_cel_compilation_duration_seconds").record(begun.elapsed());
    made
}

/// The result of `work`, which evaluates expressions, and the time that it took.
pub(crate) fn evaluating<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let value = work();
    let taken = begun.elapsed();
    histogram!("apiserver_cel_evaluation_duration_seconds").record(taken);
    (value, taken)
}

/// Carries out `work`, which evaluates expressions.
pub(crate) fn within_evaluation(work: &mut dyn FnMut()) {
    evaluating(work);
}
