//! CPU time and memory of the servers' processes, whose processes may be killed meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::load::process::{cpu_time, resident_kb};

/// Interval of looks at the memory, and what is not known of the CPU time of a process that is killed.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The meter. Its task ends with it.
pub(super) struct Meter {
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Seen {
    /// CPU time of each process when it was last seen.
    cpu: BTreeMap<u32, Duration>,
    peak_kb: u64,
}

/// A reading of all processes together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) cpu: Duration,
    pub(super) resident_kb: u64,
}

impl Meter {
    /// A meter of `pids`, which samples from now on; needs a runtime.
    pub(super) fn start(pids: &[u32]) -> Self {
        let cpu = pids.iter().map(|pid| (*pid, Duration::ZERO)).collect();
        let seen = Arc::new(Mutex::new(Seen { cpu, peak_kb: 0 }));
        let sampled = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                sampled.lock().read();
                sleep(LOOK_INTERVAL).await;
            }
        });
        Self { seen, task: task.abort_handle() }
    }

    /// CPU time and memory now. A process that has ended counts with its last CPU time and no memory.
    pub(super) fn read(&self) -> Reading {
        self.seen.lock().read()
    }

    /// The most memory since the last call.
    pub(super) fn take_peak_kb(&self) -> u64 {
        std::mem::take(&mut self.seen.lock().peak_kb)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn read(&mut self) -> Reading {
        let mut total_kb = 0;
        for (pid, cpu) in &mut self.cpu {
            *cpu = cpu_time(&[*pid]).unwrap_or(*cpu);
            total_kb += resident_kb(*pid).unwrap_or(0);
        }
        self.peak_kb = self.peak_kb.max(total_kb);
        Reading { at: Instant::now(), cpu: self.cpu.values().sum(), resident_kb: total_kb }
    }
}

impl Reading {
    /// CPU time from here to `later`.
    pub(super) fn cpu_until(&self, later: &Reading) -> Duration {
        later.cpu.saturating_sub(self.cpu)
    }

    /// Cores used from here to `later`.
    pub(super) fn cores_until(&self, later: &Reading) -> f64 {
        let time = (later.at - self.at).as_secs_f64();
        self.cpu_until(later).as_secs_f64() / time.max(1e-9)
    }

    /// Kilobytes that `later` has more than this for each of `count`; negative where it has less.
    pub(super) fn kb_each_until(&self, later: &Reading, count: u32) -> f64 {
        (later.resident_kb as f64 - self.resident_kb as f64) / f64::from(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_keeps_its_cpu_time_and_has_no_memory() {
        let mut seen = Seen::default();
        seen.cpu.insert(u32::MAX, Duration::from_secs(3));
        let alone = seen.read();
        assert_eq!((alone.cpu, alone.resident_kb), (Duration::from_secs(3), 0));
        seen.cpu.insert(std::process::id(), Duration::ZERO);
        let both = seen.read();
        assert!(both.cpu >= alone.cpu && both.resident_kb > 0 && seen.peak_kb == both.resident_kb);
        assert!(alone.kb_each_until(&both, 2) > 0.0 && both.kb_each_until(&alone, 2) < 0.0);
    }
}
