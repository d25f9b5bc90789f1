//! The response to a watch: its start, what it counts with, and where its looks are carried out.
//!
//! Owns the order: the watch begins, its account is taken, and it passes what is due and does not concern it, all with the
//! request's seat; then it is answered. So ten thousand watches that resume together wait for their turn where requests have
//! seats. Looks that take long are jobs of the pool; a watch that waits occupies no thread.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, select};
use http::{Method, Response};
use orch_raft::Store;
use orch_schema::budget::Budget;

use super::large::{GATHERED_OBJECTS_MIN, RENDERED_BYTES_MIN};
use super::pool::{Pool, Work};
use super::rights::WatchRight;
use super::turns::Party;
use super::{Api, respond};
use crate::authz::Asked;
use crate::error::{ApiError, NotAcceptable};
use crate::negotiate::{Encoding, Representation};
use crate::pipeline::Request;
use crate::render::Renderer;
use crate::watch::{LookResult, Watch};

/// Most bytes of objects that a look reads on a thread which serves connections: less than what makes a request large.
const READ_MAX: usize = RENDERED_BYTES_MIN - 1;

impl<S: Store> Api<S> {
    /// Starts a watch in `representation`, which `renderer` writes.
    ///
    /// # Errors
    /// Those of [`Watch::start`]; `NotAcceptable`: the representation has no stream; `NoRoom`: the user or the node has as
    /// many watches as it may.
    pub(super) async fn start_watch(
        self: &Arc<Self>,
        request: Request<'_>,
        representation: Representation,
        renderer: Renderer,
    ) -> Result<Response<Body>, ApiError> {
        if representation.encoding == Encoding::Yaml {
            return Err(ApiError::NotAcceptable(NotAcceptable::Stream));
        }
        let stopping = self.end_of_watch(request);
        let content_type = renderer.watch_content_type();
        let watch = Watch::start(self.pipeline.clone(), request, renderer, stopping).await?;
        let watcher = self.flow.watch(&request.resource.storage, watch.interest());
        let bytes = request.query.held_bytes() + watch.selector_bytes() + request.exchange.held_bytes();
        let held = self.watch_ledger.take_for_watch(request.user, bytes)?;
        let under_way = (self.measure_watch(request), watcher, held);
        let mut watch = Box::new(watch);
        watch.catch_up();
        Ok(respond::stream(&content_type, request.user, watch, self.clone(), under_way))
    }

    /// Completes when a watch has to end: the node stops, the credential or the right to watch has ended, or the kind is taken
    /// away or served in another form.
    fn end_of_watch(&self, request: Request<'_>) -> BoxFuture<'static, ()> {
        let stopping = self.stopping.clone().cancelled_owned();
        let right = WatchRight {
            gate: self.pipeline.gate.clone(),
            ambient: self.pipeline.ambient.clone(),
            credential: request.exchange.credential().cloned(),
            asked: Asked::of(&Method::GET, request.target, request.query),
            target: request.target.clone(),
            query: request.query.clone(),
        };
        let lost = right.lost(self.pipeline.store.clone());
        let ended = select(Box::pin(stopping), Box::pin(lost)).map(drop);
        match request.resource.end.clone() {
            Some(end) => select(Box::pin(ended), Box::pin(end.wait())).map(drop).boxed(),
            None => ended.boxed(),
        }
    }
}

impl Pool {
    /// The next frame of `watch`, which `party` opened. `None`: the watch has ended, or the node stops.
    pub(super) async fn next_frame<S: Store>(
        &self,
        party: &Party,
        mut watch: Box<Watch<S>>,
    ) -> Option<(Box<Watch<S>>, Bytes)> {
        loop {
            let mut looked = match watch.has_much_to_look_at(GATHERED_OBJECTS_MIN) {
                true => LookResult::Costly,
                false => watch.look(READ_MAX),
            };
            if matches!(looked, LookResult::Costly) {
                // In a box of its own while it runs: the rest of this future is held by every watch that waits.
                (watch, looked) = Box::pin(self.look(party, watch)).await?;
            }
            match looked {
                LookResult::Frame(frame) => return Some((watch, frame)),
                LookResult::Ended => return None,
                // Without a thread of the pool.
                LookResult::Nothing => watch.rest().await,
                // Not in the pool.
                LookResult::Costly => {}
            }
        }
    }

    /// A look without a bound, in the pool. Each look is a job of its own, so that other jobs get turns and the work for a
    /// disconnected client ends.
    async fn look<S: Store>(
        &self,
        party: &Party,
        mut watch: Box<Watch<S>>,
    ) -> Option<(Box<Watch<S>>, LookResult)> {
        let job = Box::pin(async move {
            let looked = watch.look(usize::MAX);
            (watch, looked)
        });
        self.run(party, Work::Read, &Arc::new(Budget::of(u64::MAX)), job).await.ok()
    }
}
