//! A member's service behind a change of the frames that peers send.
//!
//! Owns the passage of calls and streams through a change of each frame, also for wrappers that change answers. The
//! plant chooses the frames.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use orch_raft::transport::{Duplex, NodeId, PeerService, Purpose};
use tokio::sync::mpsc;

/// Frames between the connection and the service: few, so that back-pressure reaches the sender as without the change.
pub(super) const WINDOW_FRAMES: usize = 8;

/// The service, and the change of each frame that peers send.
pub struct Altered<F> {
    service: Arc<dyn PeerService>,
    alter: F,
}

impl<F: Fn(Purpose, Bytes) -> Bytes + Copy + Send + Sync + 'static> Altered<F> {
    /// Puts `alter` before `service`.
    pub fn before(service: Arc<dyn PeerService>, alter: F) -> Arc<dyn PeerService> {
        Arc::new(Altered { service, alter })
    }
}

impl<F: Fn(Purpose, Bytes) -> Bytes + Copy + Send + Sync + 'static> PeerService for Altered<F> {
    fn call(
        &self,
        from: NodeId,
        purpose: Purpose,
        frame: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        self.service.call(from, purpose, (self.alter)(purpose, frame))
    }

    fn stream(&self, from: NodeId, purpose: Purpose, duplex: Duplex) -> BoxFuture<'static, ()> {
        let alter = self.alter;
        let Duplex { sender, receiver } = duplex;
        let (altered, reads) = mpsc::channel(WINDOW_FRAMES);
        let serving = self.service.stream(from, purpose, Duplex { sender, receiver: reads });
        serve(serving, pass(receiver, altered, move |frame| alter(purpose, frame)))
    }
}

/// Passes frames on through `change`, until one of the ends is gone.
pub(super) async fn pass(
    mut from: mpsc::Receiver<Bytes>,
    to: mpsc::Sender<Bytes>,
    mut change: impl FnMut(Bytes) -> Bytes,
) {
    while let Some(frame) = from.recv().await {
        if to.send(change(frame)).await.is_err() {
            return;
        }
    }
}

/// Runs `serving` to its end beside `hearing`, which ends first where the peer says nothing more.
pub(super) fn serve(
    serving: impl Future<Output: Send> + Send + 'static,
    hearing: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, ()> {
    async move {
        if let Either::Right(((), serving)) = select(serving.boxed(), hearing.boxed()).await {
            serving.await;
        }
    }
    .boxed()
}
