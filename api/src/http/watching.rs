//! The response to a watch: its start, its entries in the node's accounts, and where its looks are carried out.
//!
//! Owns the order: the watch begins, its account is taken, and it passes what is due and does not concern it, all with the
//! request's seat; then it is answered. So ten thousand watches that resume together wait for their turn where requests have
//! seats. Looks that take long are jobs of the pool; a watch that waits occupies no thread, and of its request only the
//! [question](super::revocation) of its right is kept.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::{Stream, StreamExt};
use http::Response;
use orch_raft::Store;
use orch_schema::budget::Budget;

use super::large::{GATHERED_OBJECTS_MIN, RENDERED_BYTES_MIN};
use super::memory_ledger::Hold;
use super::pool::Work;
use super::revocation::{self, Right};
use super::turns::Party;
use super::{Api, respond};
use crate::error::{ApiError, NotAcceptable};
use crate::flow::Watcher;
use crate::metrics::LongRunning;
use crate::negotiate::{Encoding, Representation};
use crate::pipeline::Request;
use crate::render::Renderer;
use crate::watch::{Ending, LookResult, Watch};

/// Most bytes of objects that a look reads on a thread which serves connections: less than what makes a request large.
const READ_MAX: usize = RENDERED_BYTES_MIN - 1;

/// The accounts that a watch is entered in until it ends, and the API that carries its looks out.
struct UnderWay<S> {
    api: Arc<Api<S>>,
    party: Party,
    _measured: LongRunning,
    _watcher: Watcher,
    _held: Hold,
    _right: Right,
}

/// The frames of a watch. Looks over many objects run in the pool, in the turns of the watch's user.
///
/// A node holds one for each watch; what a look in the pool takes is held while it runs.
struct Frames<S> {
    under_way: Arc<UnderWay<S>>,
    state: State<S>,
}

enum State<S> {
    /// The next look is due.
    Looking(Box<Watch<S>>),
    /// The last look found nothing.
    Resting(Box<Watch<S>>),
    /// A look in the pool.
    InPool(BoxFuture<'static, Option<(Box<Watch<S>>, LookResult)>>),
    Ended,
}

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
        let (right, ending) = revocation::hold(&self.rights, request, &self.pipeline, &self.stopping);
        let kind_end = request.resource.end.clone().map(|end| (end, ending.clone()));
        let content_type = renderer.watch_content_type();
        let watch = Watch::start(self.pipeline.clone(), request, renderer, ending).await?;
        let watcher = self.flow.watch(&request.resource.storage, watch.interest());
        let bytes = request.query.held_bytes() + watch.selector_bytes() + request.exchange.held_bytes();
        let held = self.watch_ledger.take_for_watch(request.user, bytes)?;
        let under_way = UnderWay {
            api: self.clone(),
            party: Party::of(request.user),
            _measured: self.measure_watch(request),
            _watcher: watcher,
            _held: held,
            _right: right,
        };
        let mut watch = Box::new(watch);
        watch.catch_up();
        let initial_events = watch.initial_events();
        let frames = Frames { under_way: Arc::new(under_way), state: State::Looking(watch) };
        Ok(match kind_end {
            Some((end, ending)) => {
                let frames = FramesOfKind { end: Some(end.wait().boxed()), ending, frames };
                respond::stream(&content_type, initial_events, frames)
            }
            None => respond::stream(&content_type, initial_events, frames),
        })
    }
}

/// The frames of a watch of a kind that may be taken away, or be served in another form: its last look is then due.
struct FramesOfKind<S> {
    /// `None` once it has come.
    end: Option<BoxFuture<'static, ()>>,
    ending: Ending,
    frames: Frames<S>,
}

impl<S: Store> Stream for FramesOfKind<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.as_mut().is_some_and(|end| end.poll_unpin(context).is_ready()) {
            self.end = None;
            self.ending.give();
        }
        self.frames.poll_next_unpin(context)
    }
}

impl<S: Store> Frames<S> {
    /// The next frame after a look, `None` at the end; pending, where the stream has to go on.
    fn proceed(&mut self, mut watch: Box<Watch<S>>, looked: LookResult) -> Poll<Option<Bytes>> {
        self.state = match looked {
            LookResult::Frame(frame) => {
                self.state = State::Looking(watch);
                return Poll::Ready(Some(frame));
            }
            LookResult::Ended => return Poll::Ready(None),
            // Without a thread of the pool.
            LookResult::Nothing => State::Resting(watch),
            LookResult::Costly => {
                let under_way = self.under_way.clone();
                let looking = async move {
                    let UnderWay { api, party, .. } = &*under_way;
                    // A look without a bound. Each is a job of its own, so that other jobs get turns and the work for a
                    // disconnected client ends.
                    let job = Box::pin(async move {
                        let looked = watch.look(usize::MAX);
                        (watch, looked)
                    });
                    api.pool.run(party, Work::Read, &Arc::new(Budget::of(u64::MAX)), job).await.ok()
                };
                State::InPool(looking.boxed())
            }
        };
        Poll::Pending
    }
}

impl<S: Store> Stream for Frames<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let (watch, looked) = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Poll::Ready(None),
                State::Resting(mut watch) => {
                    let rested = watch.poll_rest(context);
                    if rested.is_pending() {
                        self.state = State::Resting(watch);
                        return Poll::Pending;
                    }
                    self.state = State::Looking(watch);
                    continue;
                }
                State::Looking(mut watch) => {
                    let looked = match watch.has_much_to_look_at(GATHERED_OBJECTS_MIN) {
                        true => LookResult::Costly,
                        false => watch.look(READ_MAX),
                    };
                    (watch, looked)
                }
                State::InPool(mut looking) => match looking.poll_unpin(context) {
                    Poll::Pending => {
                        self.state = State::InPool(looking);
                        return Poll::Pending;
                    }
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Ready(Some((watch, looked))) => (watch, looked),
                },
            };
            if let Poll::Ready(frame) = self.proceed(watch, looked) {
                return Poll::Ready(frame.map(Ok));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::memory::MemoryStore;

    use super::*;

    /// A node holds a hundred thousand of them.
    #[test]
    fn the_stream_of_a_watch_is_small() {
        let bytes = size_of::<Frames<MemoryStore>>();
        assert!(bytes <= 32, "{bytes} bytes");
        let bytes = size_of::<UnderWay<MemoryStore>>();
        assert!(bytes <= 216, "{bytes} bytes");
    }
}
