//! The cost of spans: where no trace is recorded, of a request outside of the recorded ones, and of a recorded one.
//!
//! Prints one line for each figure, the median of many short runs. Run with `make microbench BENCH=spans`. Nothing is asserted: figures
//! of one machine and one moment.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use orch_spans::{ActiveSpan, Parent, Sampling, Sources, SpanKind, TraceContext, TraceState, install, is_on};

/// Number of runs, of which the median is reported.
const RUNS: usize = 201;

/// Calls in a run.
const CALLS: u32 = 10_000;

fn main() {
    measure("without a recorder: the question whether there is one", || {
        black_box(is_on());
    });
    measure("without a recorder: the beginning of a request", || {
        black_box(ActiveSpan::begin(black_box(Parent::None)));
    });
    install(Sampling::per_million(0), Sources { now_micros: || 1, random: count }, drop);
    measure("a request that is not recorded", || {
        black_box(ActiveSpan::begin(black_box(Parent::None)));
    });
    let caller = TraceContext { trace_id: 7, span_id: 9, is_sampled: true, state: TraceState::default() };
    measure("a recorded request with one step, without the export", || {
        let request =
            ActiveSpan::begin(black_box(Parent::Caller(caller.clone()))).expect("its caller is recorded");
        request.child().ended(SpanKind::Internal, "decode", (5, 6)).record();
        request.ended(SpanKind::Server, "GET pods", (1, 9)).with_text("url.path", "/api/v1/pods").record();
    });
}

/// Random bits of almost no cost.
fn count() -> u128 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    u128::from(NEXT.fetch_add(1, Ordering::Relaxed)) << 64
}

fn measure(what: &str, call: impl Fn()) {
    let run = || {
        let began = Instant::now();
        (0..CALLS).for_each(|_| call());
        began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    let mut times: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    println!("{:8.1} ns  {what}", times[RUNS / 2]);
}
