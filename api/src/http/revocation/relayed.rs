//! The right to an answer of another server: a watch, a connection that left HTTP, or any other answer that takes long.
//!
//! Owns asking again, as for watches of this server, whether the request would still be let in; the bytes that come are the
//! other server's. Such requests are few, and each asks for itself; one that is answered within a minute asks nothing.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::Store;
use tokio_util::sync::CancellationToken;

use super::{ASK_EVERY, UNDECIDED_SPAN_MAX};
use crate::authn::{Credential, Moment};
use crate::authz::{Attributes, KeptAttributes};
use crate::exchange::Exchange;
use crate::follow::Applied;
use crate::gate::NotAdmitted;
use crate::pipeline::Pipeline;

/// Credential and attributes that a request to an aggregated server was authorized with.
pub(in crate::http) struct RelayedRight {
    credential: Credential,
    asked: KeptAttributes,
}

impl RelayedRight {
    /// That of a request with `credential` that was let in with `attributes`.
    pub(in crate::http) fn of(credential: Credential, attributes: Attributes<'_>) -> RelayedRight {
        RelayedRight { credential, asked: KeptAttributes::of(attributes) }
    }

    /// Completes when the right is lost, or is not decided for too long, or the node stops.
    pub(in crate::http) async fn ended<S: Store>(
        self,
        pipeline: Arc<Pipeline<S>>,
        stopping: CancellationToken,
    ) {
        let mut undecided_since: Option<Duration> = None;
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                () = pipeline.store.sleep(ASK_EVERY) => {}
            }
            let now = pipeline.store.elapsed();
            match self.is_held_still(&pipeline).await {
                Ok(()) => undecided_since = None,
                Err(NotAdmitted::Undecided(_)) => {
                    let since = *undecided_since.get_or_insert(now);
                    if now.saturating_sub(since) >= UNDECIDED_SPAN_MAX {
                        return;
                    }
                }
                Err(error @ NotAdmitted::Refused(_)) => {
                    tracing::debug!(credential = ?self.credential, %error, "the right to an answer of another server is lost");
                    return;
                }
            }
        }
    }

    async fn is_held_still<S: Store>(&self, pipeline: &Pipeline<S>) -> Result<(), NotAdmitted> {
        let (applied, exchange) = (Applied::of(&pipeline.store), Exchange::internal());
        let at = Moment { applied: &applied, now: pipeline.ambient.now(), remarks: &exchange };
        pipeline.gate.admits_still(&self.credential, self.asked.attributes(), at).await
    }
}
