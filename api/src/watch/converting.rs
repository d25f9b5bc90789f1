//! The conversion stage of a watch: objects of a declared kind on their way to its renderer.
//!
//! Owns the batch that is converted for one watch, and what came of it. Where a converter asks another server, the changes
//! behind the due one are asked about with it, and the watch waits without a thread. A watch of a built-in kind holds nothing
//! here.
//!
//! Invariant: an object is rendered in the form of the watch's version, or the watch ends with the converter's failure.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::{BoxFuture, Either, FutureExt};
use orch_raft::object::SharedObject;

use crate::error::ApiError;
use crate::pipeline::staged::{begin_shared, is_current};
use crate::registry::Resource;

/// Objects behind the due one that are asked about with it: the changes of some milliseconds, and forty questions for the first events of
/// 10,000 objects, each of which takes this thread a few milliseconds.
const AHEAD_MAX: usize = 250;

/// The batch of one watch; nothing until the first object has to be converted.
#[derive(Default)]
pub(super) struct Conversions(Option<Box<Converting>>);

#[derive(Default)]
struct Converting {
    /// The objects of the last batch, which their place is found by.
    asked: HashMap<usize, (SharedObject, usize)>,
    /// Each of them in the form of the watch's version; empty while they are being converted.
    shown: Vec<SharedObject>,
    pending: Option<BoxFuture<'static, Result<Vec<SharedObject>, ApiError>>>,
    failed: Option<ApiError>,
}

/// The address of an object, which is its own while it is held.
fn address(object: &SharedObject) -> usize {
    Arc::as_ptr(object).addr()
}

impl Conversions {
    /// The form in which `resource` shows `object`. `None`: it has to be converted first.
    pub(super) fn shown<'o>(
        &'o self,
        resource: &Resource,
        object: &'o SharedObject,
    ) -> Option<&'o SharedObject> {
        if is_current(resource, object) {
            return Some(object);
        }
        let Converting { asked, shown, .. } = &**self.0.as_ref()?;
        let (_, at) = asked.get(&address(object))?;
        shown.get(*at)
    }

    /// Begins the conversion of the objects in `due`, and of those of `ahead` that need it: no more than `bytes_max` bytes
    /// of those.
    ///
    /// # Errors
    /// The failure of a converter that is ready at once.
    pub(super) fn begin<'o>(
        &mut self,
        resource: &Arc<Resource>,
        due: impl Iterator<Item = &'o SharedObject>,
        ahead: impl Iterator<Item = &'o SharedObject>,
        bytes_max: usize,
    ) -> Result<(), ApiError> {
        let Some(staged) = resource.staged() else { return Ok(()) };
        let needs = |object: &&SharedObject| !is_current(resource, object);
        let mut asked: Vec<SharedObject> = due.filter(needs).cloned().collect();
        if staged.converter.asks_others() {
            let mut left = bytes_max;
            let fits = |object: &&SharedObject| match left.checked_sub(object.json.len()) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            };
            asked.extend(ahead.filter(needs).take(AHEAD_MAX).take_while(fits).cloned());
        }
        let converting = self.0.insert(Box::default());
        let places = asked.iter().cloned().enumerate();
        converting.asked = places.map(|(at, object)| (address(&object), (object, at))).collect();
        match begin_shared(resource, staged, asked) {
            Either::Left(known) => converting.shown = known.into_inner()?,
            Either::Right(pending) => converting.pending = Some(pending),
        }
        Ok(())
    }

    /// Whether a batch is with another server.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.as_ref().is_some_and(|converting| converting.pending.is_some())
    }

    /// Ready when no batch is with another server. The failure of one is that of the next look.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(converting) = &mut self.0 else { return Poll::Ready(()) };
        let Some(pending) = &mut converting.pending else { return Poll::Ready(()) };
        match ready!(pending.poll_unpin(context)) {
            Ok(shown) => converting.shown = shown,
            Err(error) => converting.failed = Some(error),
        }
        converting.pending = None;
        Poll::Ready(())
    }

    /// Takes the failure of the last batch.
    pub(super) fn take_failure(&mut self) -> Option<ApiError> {
        self.0.as_mut()?.failed.take()
    }

    /// Frees the last batch: the watch has sent it. One that is being converted stays.
    pub(super) fn clear(&mut self) {
        if !self.is_waiting() {
            self.0 = None;
        }
    }
}
