//! Pods that a writer makes and binds, and the time until the watch of their kubelet shows each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::time::sleep_until;

use super::kubelet;
use super::link::Link;
use super::pace::Pace;
use super::requests::Requests;
use super::stage::{Stage, pod};
use crate::load::tally::Tally;
use crate::load::wire::Call;

/// Pods of one run at most: as many as the longest run makes at the highest rate.
const PODS_MAX: u32 = 3_600_000;

/// First part of the names of these pods.
const PREFIX: &str = "bound-";

/// The pods of a run.
pub(super) struct Bound {
    epoch: Instant,
    /// For each pod: nanoseconds from the epoch to its binding, plus one; 0 before it, and once it was seen.
    begun: Vec<AtomicU64>,
    /// Bindings that were answered with success.
    pub(super) bound: AtomicU64,
    /// Pods that their kubelet has seen.
    pub(super) seen: AtomicU64,
    /// Times from before the binding was sent until the kubelet saw the pod.
    delays: Mutex<Tally>,
}

impl Bound {
    /// Room for `rate` pods a second during `time`.
    pub(super) fn new(rate: u32, time: Duration) -> Result<Arc<Self>> {
        let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        let count = rate.saturating_mul(seconds).min(PODS_MAX);
        Ok(Arc::new(Self {
            epoch: Instant::now(),
            begun: (0..count).map(|_| AtomicU64::new(0)).collect(),
            bound: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            delays: Mutex::new(Tally::new()?),
        }))
    }

    /// Records that pod `number` is about to be bound.
    fn begin(&self, number: u32) {
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        self.begun[number as usize].store(nanos + 1, Ordering::Release);
    }

    /// Records that the watch of its kubelet shows the pod `name`; its number, if it is one of these and new.
    pub(super) fn note(&self, name: &[u8]) -> Option<u32> {
        let digits = name.strip_prefix(PREFIX.as_bytes())?;
        let number: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let begun = self.begun.get(number as usize)?.swap(0, Ordering::AcqRel).checked_sub(1)?;
        self.delays.lock().latency(self.epoch.elapsed().saturating_sub(Duration::from_nanos(begun)));
        self.seen.fetch_add(1, Ordering::AcqRel);
        Some(number)
    }

    /// The delays so far.
    pub(super) fn delays(&self) -> Tally {
        self.delays.lock().clone()
    }
}

/// Path of the pod `number` in `pods`.
pub(super) fn path(pods: &str, number: u32) -> String {
    format!("{pods}/{PREFIX}{number}")
}

/// Makes and binds pods at `rate` until `stop`, or until there is no room; the tally of these writes.
pub(super) async fn bind(
    stage: &Stage,
    bound: &Bound,
    nodes: u32,
    rate: u32,
    stop: &AtomicBool,
) -> Result<Tally> {
    let link = Link::new(&stage.targets, 0, &stage.crowd);
    let (mut requests, tally) = (Requests::new(&link, &stage.crowd), Mutex::new(Tally::new()?));
    let (pace, pods) = (Pace::new(Instant::now(), rate), stage.pods());
    let room = u32::try_from(bound.begun.len()).unwrap_or(u32::MAX);
    for number in 0..room {
        sleep_until(pace.due(number).into()).await;
        if stop.load(Ordering::Acquire) {
            break;
        }
        let name = format!("{PREFIX}{number}");
        let body = pod(&name, None).to_string();
        let call =
            Call { method: "POST", path: &pods, content_type: "application/json", body: body.as_bytes() };
        let made = requests.ask("make a pod", &call, &[201], Some(&tally)).await;
        if made.is_none_or(|answer| answer.status != 201) {
            continue;
        }
        // Neighbours in time are on other nodes.
        let node = kubelet::name(number % nodes);
        let target =
            serde_json::json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        let (path, body) = (format!("{}/binding", path(&pods, number)), target.to_string());
        let call =
            Call { method: "POST", path: &path, content_type: "application/json", body: body.as_bytes() };
        bound.begin(number);
        let answer = requests.ask("bind a pod", &call, &[201], Some(&tally)).await;
        if answer.is_some_and(|answer| answer.status == 201) {
            bound.bound.fetch_add(1, Ordering::AcqRel);
        }
    }
    Ok(tally.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_counts_once_and_after_its_binding_alone() {
        let bound = Bound::new(2, Duration::from_secs(1)).unwrap();
        assert_eq!(bound.begun.len(), 4);
        assert_eq!(bound.note(b"bound-1"), None);
        bound.begin(1);
        assert_eq!(bound.note(b"bound-1"), Some(1));
        for name in [&b"bound-1"[..], b"bound-9", b"bound-", b"other"] {
            assert_eq!(bound.note(name), None);
        }
        assert_eq!((bound.seen.load(Ordering::Acquire), bound.delays().latencies.len()), (1, 1));
    }
}
