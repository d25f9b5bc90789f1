//! A writer of the watch work: patches its own objects, never further ahead of the slowest watcher than the lag limit.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::{sleep, timeout};

use super::{LAG_EVENTS_MAX, OBJECTS, Shared};
use crate::load::OPERATION_TIMEOUT;
use crate::load::line::Line;
use crate::load::tally::Tally;
use crate::load::wire::Call;

/// Polling interval of a writer that waits for slow watchers.
const LAG_PAUSE: Duration = Duration::from_millis(1);

/// Patches until the count or the time is up. Its tally holds errors only: the watchers count events as operations.
pub(super) async fn write(shared: &Shared, number: u32, mut line: Line, deadline: Instant) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let mut turn = number;
    while Instant::now() < deadline {
        if shared.written.load(Ordering::Relaxed) > shared.slowest().saturating_add(LAG_EVENTS_MAX) {
            sleep(LAG_PAUSE).await;
            continue;
        }
        if shared.budget.fetch_sub(1, Ordering::Relaxed) <= 0 {
            break;
        }
        let path = format!("/api/v1/namespaces/{}/configmaps/o-{}", shared.namespace, turn % OBJECTS);
        turn = turn.wrapping_add(shared.writers);
        let body = format!(r#"{{"data":{{"at":"{}"}}}}"#, shared.epoch.elapsed().as_nanos());
        let content_type = "application/merge-patch+json";
        let call = Call { method: "PATCH", path: &path, content_type, body: body.as_bytes() };
        match timeout(OPERATION_TIMEOUT, line.exchange(&call)).await {
            Ok(Ok(reply)) if reply.status == 200 => {
                shared.written.fetch_add(1, Ordering::AcqRel);
            }
            Ok(Ok(reply)) => tally.failure(format!("write: status {}", reply.status)),
            // The outcome of this write is unknown, so the expected number of events is, too.
            Ok(Err(error)) => {
                tally.failure(format!("write: {error}"));
                break;
            }
            Err(_) => {
                tally.failure("write: timeout");
                break;
            }
        }
    }
    shared.writers_left.fetch_sub(1, Ordering::AcqRel);
    Ok(tally)
}
