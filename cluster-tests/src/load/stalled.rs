//! Watchers that never read: their connections stay open and fill up to what the kernel and the server hold for them.
//!
//! Owns those connections for as long as another work runs. What the server does with a watcher that does not read (it
//! ends it after a while) is no error here.

use anyhow::{Context, Result, ensure};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::OPERATION_TIMEOUT;
use super::driver::Load;
use super::line::{Line, Lines};
use super::wire::Call;

/// Starts `watchers` watches of the config maps of `namespace`, runs `work` while nobody reads them, and closes them.
pub(super) fn beside_stalled_watchers<T>(
    load: &Load,
    namespace: &str,
    version: &str,
    watchers: u32,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Nothing polls the runtime while the work runs, so that no watcher reads.
    let lines = runtime.block_on(open(load, namespace, version, watchers))?;
    let result = work();
    drop(lines);
    result
}

async fn open(load: &Load, namespace: &str, version: &str, watchers: u32) -> Result<Vec<Line>> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?watch=1&resourceVersion={version}");
    let call = Call { method: "GET", path: &path, content_type: "", body: b"" };
    let (mut lines, mut opened) = (Lines::new(load.protocol), Vec::new());
    for number in 0..watchers as usize {
        let mut line = lines.open(&load.targets, number % load.targets.len()).await?;
        let status =
            timeout(OPERATION_TIMEOUT, line.begin(&call)).await.context("a watch was not answered")??;
        ensure!(status == 200, "watch number {number} was answered {status}");
        opened.push(line);
    }
    Ok(opened)
}
