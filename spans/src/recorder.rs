//! The recorder of the process, and the choice of which traces it records.
//!
//! Owns one cell: a program installs a recorder once, before it serves, or never, with the sources of time and ids, which this crate has
//! none of. Recording never waits: a recorder that has no room drops the span.

use std::sync::OnceLock;

use crate::span::{FinishedSpan, Parent};

/// The denominator of a sampling rate.
const MILLION: u64 = 1_000_000;

/// The recorder, with the rate of the traces that begin here.
struct Recorder {
    sampling: Sampling,
    sources: Sources,
    take: Box<dyn Fn(FinishedSpan) + Send + Sync>,
}

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// The traces that are recorded among those that begin in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    per_million: u32,
}

/// The time and the randomness of spans. Crates that are simulated use both through the recorder, which simulations do not install.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    /// The time of day in microseconds since 1970.
    pub now_micros: fn() -> u64,
    /// 128 random bits.
    pub random: fn() -> u128,
}

impl Sampling {
    /// `per_million` of a million traces; all of them from a million on.
    pub fn per_million(per_million: u32) -> Sampling {
        Sampling { per_million }
    }

    /// Whether the trace `trace_id` is recorded. The choice depends on the trace's id alone: every process with this rate makes the same one.
    pub(crate) fn chooses(self, trace_id: u128) -> bool {
        // Of the lower 64 bits all but the last, as the libraries of OpenTelemetry take them: programs of one rate choose the same traces.
        let low = trace_id >> 1 & u128::from(u64::MAX >> 1);
        let bound = u128::from(u64::MAX >> 1) * u128::from(self.per_million) / u128::from(MILLION);
        self.per_million >= 1_000_000 || low < bound
    }
}

/// Installs the recorder of the process: `take` gets each span that has ended, on the thread that ended it, and must not wait.
/// `false`: there is one already.
pub fn install(
    sampling: Sampling,
    sources: Sources,
    take: impl Fn(FinishedSpan) + Send + Sync + 'static,
) -> bool {
    RECORDER.set(Recorder { sampling, sources, take: Box::new(take) }).is_ok()
}

/// Whether spans are recorded at all.
pub fn is_on() -> bool {
    RECORDER.get().is_some()
}

/// The time of day in microseconds since 1970, by the recorder's clock; 0 without a recorder.
pub fn now_micros() -> u64 {
    RECORDER.get().map_or(0, |recorder| (recorder.sources.now_micros)())
}

/// 128 random bits of the recorder's source; 0 without a recorder.
pub(crate) fn random() -> u128 {
    RECORDER.get().map_or(0, |recorder| (recorder.sources.random)())
}

/// Gives a span that has ended to the recorder.
pub fn record(span: FinishedSpan) {
    if let Some(recorder) = RECORDER.get() {
        (recorder.take)(span);
    }
}

/// Whether a trace with these parents is recorded: as its parent's process decided, else by the rate.
pub(crate) fn is_sampled(parent: &Parent, trace_id: u128) -> bool {
    match parent {
        Parent::Caller(caller) => caller.is_sampled,
        Parent::None | Parent::Linked(_) => {
            RECORDER.get().is_some_and(|recorder| recorder.sampling.chooses(trace_id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_zero_records_no_trace_and_a_million_all() {
        for trace in [1, u128::MAX, 1 << 63, u128::from(u64::MAX >> 1)] {
            assert!(!Sampling::per_million(0).chooses(trace), "{trace:x}");
            assert!(Sampling::per_million(1_000_000).chooses(trace), "{trace:x}");
        }
    }

    #[test]
    fn a_rate_records_its_share_of_evenly_spread_traces() {
        let spread = (0..1000).map(|at| u128::from(u64::MAX / 1000 * at));
        let chosen = spread.filter(|trace| Sampling::per_million(250_000).chooses(*trace)).count();
        assert!((249..=251).contains(&chosen), "{chosen} of 1000");
    }

    #[test]
    fn the_choice_is_that_of_other_programs_of_the_same_rate() {
        let half = Sampling::per_million(500_000);
        // The first has 0x3fff… of 0x7fff… in the bits that count, the second one more.
        assert!(half.chooses(0x9_7fff_ffff_ffff_fffc) && !half.chooses(0x9_8000_0000_0000_0000));
    }
}
