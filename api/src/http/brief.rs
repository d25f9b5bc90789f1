//! Writes whose cost only their definition knows: tried on the thread of their connection with few steps.
//!
//! Owns which writes are tried, the end of a try, and which kinds are left to the pool for a while. What a small object of a custom
//! kind costs is up to its definition: alternatives in alternatives, patterns, rules. Nearly all cost what built-in ones do, and the way to
//! the pool and back would cost as much again. One that uses up the steps of a try is begun again in the [pool](super::pool), where each of its
//! steps counts: nothing of it was written, and nobody was asked about it.
//!
//! Invariant: what the thread of a connection does for a write before its proposal ends with the try's steps.

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use http::Response;
use orch_schema::budget::Budget;

use super::pool::unless_stopped;
use crate::error::ApiError;
use crate::pipeline::Request;
use crate::request::Verb;

/// Places for kinds. Two kinds of one place go to the pool together, which costs time and changes no answer.
const PLACES: usize = 1024;

/// Writes of a kind that go straight to the pool after one whose try ended: the steps of tries are less than a hundredth of those
/// of the kind.
const HEAVY_WRITES: u32 = 128;

/// Which kinds had a write lately that needed more than the steps of a try.
pub(super) struct Weights([AtomicU32; PLACES]);

impl Weights {
    pub(super) fn new() -> Weights {
        Weights([const { AtomicU32::new(0) }; PLACES])
    }

    fn place(&self, request: Request<'_>) -> &AtomicU32 {
        let mut hasher = DefaultHasher::new();
        request.resource.storage.hash(&mut hasher);
        &self.0[hasher.finish() as usize % PLACES]
    }

    /// Whether the request is a write of a custom kind: only a try shows what it costs.
    pub(super) fn is_unknown(request: Request<'_>) -> bool {
        matches!(request.verb, Verb::Create | Verb::Update | Verb::Patch) && request.resource.is_declared()
    }

    /// Counts a write of a kind of which one was heavy. Whether the request goes to the pool untried.
    pub(super) fn counts_as_heavy(&self, request: Request<'_>) -> bool {
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let counted = |left: u32| left.checked_sub(1);
        Weights::is_unknown(request) && self.place(request).fetch_update(success, failure, counted).is_ok()
    }

    /// Notes that the steps of a try did not suffice for the request.
    pub(super) fn note_heavy(&self, request: Request<'_>) {
        self.place(request).store(HEAVY_WRITES, Ordering::Relaxed);
    }
}

/// The result of `work`, which is given the steps of a try if `is_tried`. `None`: they did not suffice, and `budget` is whole again.
/// It stays where its caller keeps it: a future that is handed in by value is held twice.
pub(super) async fn tried(
    is_tried: bool,
    budget: &Arc<Budget>,
    mut work: Pin<&mut impl Future<Output = Result<Response<Body>, ApiError>>>,
) -> Option<Result<Response<Body>, ApiError>> {
    if !is_tried {
        return Some(work.await);
    }
    budget.make_brief();
    let result = poll_fn(|context| budget.enter(|| work.as_mut().poll(context))).await;
    if budget.make_whole() { None } else { Some(unless_stopped(budget, result)) }
}
