//! The figures of attacks, and their table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::honest::{Sample, Size};

/// The measurements of a time.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) samples: Vec<Sample>,
    pub(super) took: Duration,
    /// Processor time of the processes that are attacked.
    pub(super) cpu: Duration,
    pub(super) before_kb: u64,
    pub(super) peak_kb: u64,
    /// The attackers' answers.
    pub(super) answers: String,
}

/// An attack beside the calm before it.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) calm: Measured,
    pub(super) attacked: Measured,
    /// Cores in use when the attackers are gone.
    pub(super) after: f64,
    /// Processes that ended, with their logs.
    pub(super) ended: Vec<String>,
}

/// All attacks of a run.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<(String, Figures)>,
}

impl Report {
    pub(super) fn add(&mut self, name: String, figures: Figures) {
        self.rows.push((name, figures));
    }
}

impl Measured {
    /// The waits for what is of `size`, in order.
    fn waits(&self, size: Size) -> Vec<Duration> {
        let of_size = self.samples.iter().filter(|sample| sample.size == size);
        let mut waits: Vec<_> = of_size.map(|sample| sample.took).collect();
        waits.sort_unstable();
        waits
    }

    fn failed(&self) -> usize {
        self.samples.iter().filter(|sample| !sample.is_good).count()
    }
}

/// The statuses with their counts, as text; 0 is no answer.
pub(super) fn status_counts(statuses: impl IntoIterator<Item = u16>) -> String {
    let mut counts = BTreeMap::<u16, usize>::new();
    for status in statuses {
        *counts.entry(status).or_default() += 1;
    }
    let texts: Vec<_> = counts.iter().map(|(status, count)| format!("{count} times {status}")).collect();
    texts.join(", ")
}

/// The wait that `per_cent` of `waits` do not exceed, in milliseconds; `-` of none.
fn quantile(waits: &[Duration], per_cent: usize) -> String {
    let at = (waits.len() * per_cent).div_ceil(100).max(1) - 1;
    waits.get(at).map_or_else(|| "-".to_owned(), |wait| format!("{:.1}", wait.as_secs_f64() * 1e3))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| attack | | p50 | p99 | slowest | large p99 | large slowest | failed | CPU | memory |\n\
             |---|---|---|---|---|---|---|---|---|---|"
        )?;
        for (name, figures) in &self.rows {
            for (time, measured) in [("calm", &figures.calm), ("attack", &figures.attacked)] {
                let (small, large) = (measured.waits(Size::Small), measured.waits(Size::Large));
                writeln!(
                    f,
                    "| {name} | {time} | {} | {} | {} ms | {} | {} ms | {} of {} | {:.1} of {:.1} s | {} to {} MB |",
                    quantile(&small, 50),
                    quantile(&small, 99),
                    quantile(&small, 100),
                    quantile(&large, 99),
                    quantile(&large, 100),
                    measured.failed(),
                    measured.samples.len(),
                    measured.cpu.as_secs_f64(),
                    measured.took.as_secs_f64(),
                    measured.before_kb / 1000,
                    measured.peak_kb / 1000,
                )?;
            }
        }
        for (name, figures) in &self.rows {
            writeln!(
                f,
                "{name}: {}; {:.2} cores in use afterwards",
                figures.attacked.answers, figures.after
            )?;
            figures.ended.iter().try_for_each(|ended| writeln!(f, "{ended}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_waits_that_were_measured() {
        let waits: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!([50, 99, 100].map(|at| quantile(&waits, at)), ["100.0", "198.0", "200.0"]);
        assert_eq!(quantile(&waits[..1], 99), "1.0");
        assert_eq!(quantile(&[], 99), "-");
    }
}
