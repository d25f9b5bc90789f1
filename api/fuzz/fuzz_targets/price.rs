//! Prices of device selectors and patterns: time for each step that is counted. What has to hold of the steps stands in
//! `api/tests/arbitrary/targets.rs`; here they are held against the clock.
#![no_main]

use std::time::{Duration, Instant};

#[allow(dead_code, reason = "each target is one function of it")]
#[path = "../../tests/arbitrary/targets.rs"]
mod targets;

/// Time of a step, with a factor of twenty for the instrumented code of a fuzz target.
const STEP: Duration = Duration::from_micros(2);
/// Time that any input may take: interruptions by other work, and texts without steps.
const FREE: Duration = Duration::from_millis(50);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let began = Instant::now();
    let (steps, _) = targets::priced(input);
    let took = began.elapsed();
    let most = STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)) + FREE;
    assert!(took <= most, "{took:?} for {steps} steps");
});
