//! The pool for requests over large documents: a bounded number of threads beside those that serve connections.
//!
//! Owns how requests are polled there, and who takes turns ([`super::large`] chooses them). Decoding, patching, checking and rendering
//! a body of 3 MiB occupies its thread for up to a few hundred milliseconds: on the runtime's threads a handful of
//! clients would delay all other responses. So would small objects with expressions, which are compiled when they are
//! written, and small objects of custom kinds whose checks take long ([`super::brief`] finds those). Each poll of such a request is one job of the pool, so that a request which
//! waits for a quorum occupies no thread. One that waits for another server, as its budget says, has no place among
//! those that hold documents either, unless there is no [room](super::waiting) for what it holds.
//!
//! Invariants: a small request is never queued behind a large one; users take turns of a slice of time, however long their
//! requests are; one user has half of the places for requests at most.

use std::num::NonZero;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::available_parallelism;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use orch_raft::Store;
use orch_rules::Action;
use orch_schema::budget::{Budget, pausing};
use tokio::sync::Notify;

use super::Api;
use super::body::BODY_BYTES_MAX;
use super::turns::{Party, Slices, Turns};
use super::waiting::WaitingRoom;
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::negotiate::Representation;
use crate::pipeline::{DELETIONS_UNDER_WAY_MAX, OBJECT_BYTES_MAX, Request};
use crate::registry::{Registry, Resource};
use crate::request::{Query, Target, Verb};

/// Requests for each thread that hold a large decoded document at the same time: while some wait for a quorum, the
/// thread works on others. Further requests wait with their undecoded body.
pub(super) const HELD_PER_THREAD: usize = 4;

/// Documents for each thread that wait for another server without a place: the creates of sixty-four clients, of which each
/// party has half. At the edge a document keeps its place while it waits.
const WAITING_PER_THREAD: usize = 64;

/// Bytes that the deletion of a collection may hold: its deletions under way, each with the largest object.
const DELETED_BYTES: usize = DELETIONS_UNDER_WAY_MAX * OBJECT_BYTES_MAX;

/// Bytes of the bodies and stored objects of these documents, for each thread: as many as its places hold at most.
const WAITING_BYTES_PER_THREAD: usize = HELD_PER_THREAD * BODY_BYTES_MAX;

/// The pool of one node. It uses a bounded number of the runtime's threads for blocking work.
pub(super) struct Pool {
    /// Places for jobs that run at the same time, as many as processors.
    threads: Turns,
    /// Places for writes in the pool, and for reads.
    writes: Turns,
    reads: Turns,
    waiting: WaitingRoom,
}

/// Requests that have places of their own in the pool: large reads hold no write up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    Write {
        /// Bytes of the body, and of the stored object that it changes.
        bytes: usize,
    },
}

/// A request that owns its parts, so that it outlives the caller's borrows.
pub(super) struct OwnedRequest {
    pub(super) verb: Verb,
    pub(super) registry: Arc<Registry>,
    pub(super) target: Target,
    pub(super) resource: Arc<Resource>,
    pub(super) action: Action,
    pub(super) query: Query,
    pub(super) user: Arc<User>,
    pub(super) user_agent: String,
    pub(super) content_type: String,
    pub(super) body: Bytes,
    pub(super) exchange: Arc<Exchange>,
    pub(super) budget: Arc<Budget>,
}

type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Pool {
    /// A pool with as many threads as there are processors.
    pub(super) fn new() -> Self {
        Pool::of(available_parallelism().map_or(1, NonZero::get))
    }

    /// A pool of `threads` threads. With none, jobs wait for ever (for tests).
    pub(super) fn of(threads: usize) -> Self {
        let held = || Turns::new(HELD_PER_THREAD * threads, (HELD_PER_THREAD * threads).div_ceil(2));
        let waiting = WaitingRoom::new(WAITING_PER_THREAD * threads, WAITING_BYTES_PER_THREAD * threads);
        Pool { threads: Turns::new(threads, threads), writes: held(), reads: held(), waiting }
    }

    /// Places of reads and of writes.
    #[cfg(test)]
    pub(super) fn places(&self) -> [Turns; 2] {
        [self.reads.clone(), self.writes.clone()]
    }

    /// Runs every poll of `job` in the pool, when it is `party`'s turn, and returns its result. A long poll takes several
    /// turns. The job's steps count for `budget`; while that says that the request waits, the job has no place. A job whose
    /// caller drops this future is not polled again.
    ///
    /// # Errors
    /// `Internal`: the job's thread ended early.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        party: &Party,
        work: Work,
        budget: &Arc<Budget>,
        mut job: Job<T>,
    ) -> Result<T, ApiError> {
        let (places, bytes) = match work {
            Work::Read => (&self.reads, 0),
            Work::Write { bytes } => (&self.writes, bytes),
        };
        let woken = Arc::new(Woken(Notify::new()));
        let (mut held, mut waits) = (None, None);
        loop {
            if held.is_none() {
                held = Some(places.take(party).await);
                drop(waits.take());
            }
            let place = self.threads.take(party).await;
            let (turns, own) = (self.threads.clone(), party.clone());
            let (waker, entered) = (Waker::from(woken.clone()), budget.clone());
            let step = move || {
                let slices = Rc::new(Slices::begin(turns, own, place));
                let pause = slices.clone();
                let mut poll = || entered.enter(|| job.as_mut().poll(&mut Context::from_waker(&waker)));
                let polled = pausing(Rc::new(move || pause.pause()), &mut poll);
                drop(slices);
                (job, polled)
            };
            let (back, polled) = match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(step).await.map_err(|error| {
                    ApiError::Internal(format!("the work on a large document broke off: {error}"))
                })?,
                // A simulation has one thread.
                Err(_) => step(),
            };
            if let Poll::Ready(result) = polled {
                return Ok(result);
            }
            job = back;
            if budget.is_waiting() {
                waits = self.waiting.enter(party, bytes);
                if waits.is_some() {
                    held = None;
                }
            }
            woken.0.notified().await;
        }
    }
}

/// Wakes a job. A wake-up that comes before the job waits is kept.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Cancels the work on a request when its caller drops it.
pub(super) struct CancelOnDrop(pub(super) Arc<Budget>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl OwnedRequest {
    /// An owned copy of `request`, which `user` sent.
    pub(super) fn of(
        request: Request<'_>,
        exchange: Arc<Exchange>,
        user: Arc<User>,
        budget: Arc<Budget>,
    ) -> Self {
        OwnedRequest {
            verb: request.verb,
            registry: request.registry.clone(),
            target: request.target.clone(),
            resource: request.resource.clone(),
            action: request.action,
            query: request.query.clone(),
            user,
            user_agent: request.user_agent.to_owned(),
            content_type: request.content_type.to_owned(),
            body: request.body.clone(),
            exchange,
            budget,
        }
    }

    fn request(&self) -> Request<'_> {
        Request {
            verb: self.verb,
            registry: &self.registry,
            target: &self.target,
            resource: &self.resource,
            action: self.action,
            query: &self.query,
            user: &self.user,
            user_agent: &self.user_agent,
            content_type: &self.content_type,
            body: &self.body,
            exchange: &self.exchange,
            budget: &self.budget,
        }
    }
}

impl<S: Store> Api<S> {
    fn work_of(&self, large: &OwnedRequest) -> Work {
        if large.verb.is_read() {
            return Work::Read;
        }
        let state = self.pipeline.store.state();
        let key = large.request().stored_key().filter(|_| !large.target.name.is_empty());
        let stored = key.and_then(|key| state.object(&key).map(|object| object.json.len()));
        // A deletion of a collection holds many of its objects at once.
        let deleted = (large.verb == Verb::DeleteCollection).then_some(DELETED_BYTES);
        Work::Write { bytes: large.body.len() + stored.or(deleted).unwrap_or(0) }
    }

    /// Carries out a request in the pool.
    ///
    /// # Errors
    /// Those of the request, and the errors of a request that was stopped.
    pub(super) async fn carry_out_in_pool(
        self: &Arc<Self>,
        large: OwnedRequest,
        representation: Representation,
    ) -> Result<Response<Body>, ApiError> {
        let (budget, work) = (large.budget.clone(), self.work_of(&large));
        let _cancel = CancelOnDrop(budget.clone());
        let (api, party) = (self.clone(), Party::of(&large.user));
        let job = Box::pin(async move { api.carry_out(large.request(), representation).await });
        unless_stopped(&budget, self.pool.run(&party, work, &budget, job).await?)
    }
}

/// `result`, unless its request was stopped: the result of a stopped stage must not become that of the request.
pub(super) fn unless_stopped<T>(budget: &Budget, result: Result<T, ApiError>) -> Result<T, ApiError> {
    match budget.check() {
        Ok(()) => result,
        Err(stopped) if budget.has_begun_to_write() => {
            Err(ApiError::OutcomeUnknown(ApiError::from(stopped).to_string()))
        }
        Err(stopped) => Err(stopped.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{self, ThreadId};

    use orch_schema::budget::Stopped;

    use super::*;

    const WRITE: Work = Work::Write { bytes: 1 };

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn budget() -> Arc<Budget> {
        Arc::default()
    }

    fn party() -> Party {
        Party::of(&User::anonymous())
    }

    fn pool(threads: usize) -> Arc<Pool> {
        Arc::new(Pool::of(threads))
    }

    #[test]
    fn work_runs_beside_the_runtime_and_waits_on_no_thread() {
        let (pool, here, budget) = (pool(1), thread::current().id(), budget());
        runtime().block_on(async {
            let (send, receive) = tokio::sync::oneshot::channel::<()>();
            let (a, b) = (party(), party());
            let waiting = pool.run(
                &a,
                WRITE,
                &budget,
                Box::pin(async move {
                    let before: ThreadId = thread::current().id();
                    receive.await.unwrap();
                    (before, thread::current().id())
                }),
            );
            // The only thread is free while the first job waits.
            let other = async {
                let at =
                    pool.run(&b, WRITE, &budget, Box::pin(async { thread::current().id() })).await.unwrap();
                send.send(()).unwrap();
                at
            };
            let (first, at) = tokio::join!(waiting, other);
            let (before, after) = first.unwrap();
            assert!(before != here && after != here && at != here);
        });
    }

    #[test]
    fn no_more_jobs_run_at_once_than_there_are_threads() {
        let pool = pool(2);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        runtime().block_on(async {
            let jobs = (0..50).map(|_| {
                let (pool, now, most) = (pool.clone(), now.clone(), most.clone());
                async move {
                    pool.run(
                        &party(),
                        Work::Read,
                        &budget(),
                        Box::pin(async move {
                            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            thread::yield_now();
                            now.fetch_sub(1, Ordering::SeqCst);
                        }),
                    )
                    .await
                }
            });
            futures::future::join_all(jobs).await.into_iter().for_each(|done| done.unwrap());
        });
        assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
    }

    #[test]
    fn requests_that_wait_for_another_server_have_no_places() {
        let pool = pool(1);
        runtime().block_on(async {
            let (waiting, mut all_wait) = tokio::sync::watch::channel(0);
            let hook = Arc::new(tokio::sync::Semaphore::new(0));
            let ask = || {
                let (pool, waiting, hook, budget) = (pool.clone(), waiting.clone(), hook.clone(), budget());
                async move {
                    let waits = budget.clone();
                    let job = Box::pin(async move {
                        let wait = waits.wait();
                        waiting.send_modify(|count| *count += 1);
                        let answered = hook.acquire().await.is_ok();
                        drop(wait);
                        answered
                    });
                    pool.run(&party(), WRITE, &budget, job).await
                }
            };
            // Many more than places, of one party.
            let asked = futures::future::join_all((0..WAITING_PER_THREAD / 2).map(|_| ask()));
            let meanwhile = async {
                all_wait.wait_for(|count| *count == WAITING_PER_THREAD / 2).await.unwrap();
                let other = pool.run(&party(), WRITE, &budget(), Box::pin(async { true })).await;
                assert_eq!(other, Ok(true));
                hook.add_permits(WAITING_PER_THREAD);
            };
            let (asked, ()) = tokio::join!(asked, meanwhile);
            assert!(asked.into_iter().all(|answered| answered == Ok(true)));
            assert_eq!(pool.places().map(|places| places.free()), [HELD_PER_THREAD; 2]);
        });
    }

    #[test]
    fn a_request_that_finds_no_room_keeps_its_place_while_it_waits() {
        let pool = pool(1);
        runtime().block_on(async {
            let work = Work::Write { bytes: WAITING_BYTES_PER_THREAD };
            let (send, receive) = tokio::sync::oneshot::channel::<()>();
            let budget = budget();
            let waits = budget.clone();
            let job = Box::pin(async move {
                let _wait = waits.wait();
                receive.await.is_ok()
            });
            let (party, free) = (party(), pool.clone());
            let waiting = pool.run(&party, work, &budget, job);
            let other = async {
                let own = Work::Write { bytes: 0 };
                let (admin, budget) = (Party::of(&User::local_admin()), Arc::default());
                let done = free.run(&admin, own, &budget, Box::pin(async {}));
                done.await.unwrap();
                let places = free.places().map(|places| places.free());
                send.send(()).unwrap();
                places
            };
            let (answered, places) = tokio::join!(waiting, other);
            assert_eq!((answered, places), (Ok(true), [HELD_PER_THREAD, HELD_PER_THREAD - 1]));
        });
    }

    #[test]
    fn a_client_that_goes_cancels_the_work() {
        let budget = Arc::new(Budget::default());
        drop(CancelOnDrop(budget.clone()));
        assert_eq!(budget.check(), Err(Stopped::Cancelled));
        // A job that is running ends at its next step.
        let job = Box::pin(async { !orch_schema::budget::count_step() });
        let ended = runtime().block_on(pool(1).run(&party(), WRITE, &budget, job));
        assert_eq!(ended, Ok(true));
    }
}
