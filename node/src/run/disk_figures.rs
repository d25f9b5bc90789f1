//! Metrics of the member's disk: how long syncs of the log take, and leads that were given up for it.

use std::time::Duration;

use metrics::{counter, gauge};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::store::Handle;

/// Between two looks at figures of a minute.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Keeps the series equal to the status of `handle` until `stop`.
pub(super) async fn keep(handle: Handle, stop: CancellationToken) {
    let mut pace = interval(LOOK_EVERY);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(pace.tick()).await.is_some() {
        let status = handle.status();
        counter!("orch_slow_disk_handovers_total").absolute(status.slow_disk_handovers);
        // few: the members of a cluster.
        let own = status.members.iter().find(|member| member.peer.id == status.node.id);
        let Some(times) = own.and_then(|member| member.syncs) else { continue };
        for (percentile, time) in [("50", times.p50), ("99", times.p99)] {
            gauge!("orch_log_sync_seconds", "percentile" => percentile).set(time.as_secs_f64());
        }
    }
}
