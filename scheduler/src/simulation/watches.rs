//! Open watches: which changes each has told, and when it tells the next.
//!
//! Owns their faults: a watch lags by its own time, stalls, breaks within its stream, is ended in order, or says that its
//! history is gone. It never loses or repeats a change, and tells changes of its kind in their order.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::channel::mpsc;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::api::{Changed, Entry, Kept, Step, Store, is_finished};
use super::manner::Manner;
use super::network::Life;
use super::server::{WatchRequest, Watched, frame};
use crate::api::core::v1::Pod;
use crate::api::meta::v1::{ObjectMeta, Status};
use crate::client::ResponseBody;

type Frames = mpsc::UnboundedSender<Result<Frame<Bytes>, std::io::Error>>;

/// Milliseconds between bookmarks.
const BOOKMARK: Moment = 5_000;

struct Watch {
    from: Life,
    server: usize,
    kind: Watched,
    // Everything up to here has been told.
    position: u64,
    lag: Moment,
    stalled_until: Moment,
    ends_at: Moment,
    bookmark_at: Moment,
    was_cut: bool,
    frames: Frames,
}

/// All open watches.
#[derive(Default)]
pub(super) struct Watches {
    open: Vec<Watch>,
}

/// How a watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchFault {
    Breaks,
    Expires,
    Ends,
    Stalls(Moment),
}

impl Watches {
    pub(super) fn open(
        &mut self,
        now: Moment,
        from: Life,
        server: usize,
        request: WatchRequest,
        random: &mut StdRng,
        manner: &Manner,
    ) -> Response<ResponseBody> {
        let (frames, stream) = mpsc::unbounded();
        self.open.push(Watch {
            from,
            server,
            kind: request.kind,
            position: request.from,
            lag: random.random_range(0..=manner.lag_max),
            stalled_until: 0,
            ends_at: now + request.seconds * 1_000,
            bookmark_at: now + BOOKMARK,
            was_cut: false,
            frames,
        });
        let body: ResponseBody = StreamBody::new(stream).boxed_unsync();
        Response::new(body)
    }

    /// Tells what is due.
    pub(super) fn flush(
        &mut self,
        now: Moment,
        store: &Store,
        random: &mut StdRng,
        manner: &Manner,
        cuts: &BTreeMap<(usize, usize), Moment>,
    ) {
        self.open.retain_mut(|watch| {
            let is_cut = cuts.get(&(watch.from.process, watch.server)).is_some_and(|until| *until > now);
            if watch.frames.is_closed() || is_cut {
                watch.was_cut |= is_cut;
                return !watch.frames.is_closed();
            }
            if std::mem::take(&mut watch.was_cut) && random.random_bool(0.7) {
                return watch.fail();
            }
            if now < watch.stalled_until {
                return true;
            }
            watch.lag = watch.lag.min(manner.lag_max);
            watch.tell(now, store);
            now < watch.ends_at
        });
    }

    /// A fault of watches of `process`, of some of them.
    pub(super) fn strike(&mut self, now: Moment, process: usize, fault: WatchFault, random: &mut StdRng) {
        self.open.retain_mut(|watch| {
            if watch.from.process != process || watch.kind == Watched::Nothing || random.random_bool(0.3) {
                return true;
            }
            match fault {
                WatchFault::Breaks => watch.fail(),
                WatchFault::Expires => watch.expire(),
                WatchFault::Ends => watch.end(now),
                WatchFault::Stalls(time) => {
                    watch.stalled_until = now + time;
                    true
                }
            }
        });
    }

    /// Of all watches of `process`, those of pods tell nothing until `until`.
    pub(super) fn blind(&mut self, process: usize, until: Moment) {
        let watches = self.open.iter_mut().filter(|watch| watch.from.process == process);
        watches.filter(|watch| watch.kind == Watched::Pods).for_each(|watch| watch.stalled_until = until);
    }

    /// Ends all watches in order.
    pub(super) fn end_all(&mut self, now: Moment) {
        self.open.retain_mut(|watch| watch.end(now));
    }

    /// Ends stalls.
    pub(super) fn calm(&mut self) {
        for watch in &mut self.open {
            watch.stalled_until = 0;
        }
    }
}

impl Watch {
    fn send(&self, frame: Bytes) {
        // The other side may have crashed.
        drop(self.frames.unbounded_send(Ok(Frame::data(frame))));
    }

    fn fail(&self) -> bool {
        drop(self.frames.unbounded_send(Err(std::io::Error::other("the connection broke"))));
        false
    }

    /// Says up to which version everything has been told, and ends.
    fn end(&mut self, now: Moment) -> bool {
        self.bookmark(now);
        false
    }

    fn expire(&self) -> bool {
        let status = Status {
            status: "Failure".to_owned(),
            code: 410,
            reason: "Expired".to_owned(),
            ..Status::default()
        };
        self.send(frame("ERROR", &status));
        false
    }

    fn tell(&mut self, now: Moment, store: &Store) {
        let until = now.saturating_sub(self.lag);
        // Entries stand in the order of their revisions.
        let first = store.history.partition_point(|entry| entry.revision <= self.position);
        for entry in store.history[first..].iter().take_while(|entry| entry.at <= until) {
            self.position = entry.revision;
            if let Some(frame) = event(self.kind, entry) {
                self.send(frame);
            }
        }
        if now >= self.bookmark_at {
            self.bookmark(now);
        }
    }

    fn bookmark(&mut self, now: Moment) {
        self.bookmark_at = now + BOOKMARK;
        let metadata = ObjectMeta { resource_version: self.position.to_string(), ..ObjectMeta::default() };
        self.send(frame("BOOKMARK", &Pod { metadata: Some(metadata), ..Pod::default() }));
    }
}

/// What a watch of `kind` tells of a change.
fn event(kind: Watched, entry: &Entry) -> Option<Bytes> {
    match (kind, &entry.changed) {
        (Watched::Pods, Changed::Pod(step)) => pod_event(step, entry.revision),
        (Watched::Claims, Changed::Claim(step)) => object_event(step, entry.revision),
        (Watched::Nodes, Changed::Node(step)) => object_event(step, entry.revision),
        (Watched::Volumes, Changed::Volume(step)) => object_event(step, entry.revision),
        (Watched::VolumeClaims, Changed::VolumeClaim(step)) => object_event(step, entry.revision),
        _ => None,
    }
}

/// A deletion has a version of its own.
fn object_event<T: Kept>(step: &Step<T>, revision: u64) -> Option<Bytes> {
    let (kind, object) = match (&step.before, &step.after) {
        (None, Some(object)) => ("ADDED", object),
        (Some(_), Some(object)) => ("MODIFIED", object),
        (Some(object), None) => ("DELETED", object),
        (None, None) => return None,
    };
    let mut object = (**object).clone();
    object.metadata_mut().resource_version = revision.to_string();
    Some(frame(kind, &object))
}

/// Pods that have finished are outside of the selection.
fn pod_event(step: &Step<Pod>, revision: u64) -> Option<Bytes> {
    let selected = |pod: &&std::sync::Arc<Pod>| !is_finished(pod);
    let version = |pod: &Pod| {
        let mut pod = pod.clone();
        pod.metadata.get_or_insert_default().resource_version = revision.to_string();
        pod
    };
    let last = step.after.as_ref().or(step.before.as_ref())?;
    match (step.before.as_ref().filter(selected), step.after.as_ref().filter(selected)) {
        (None, Some(pod)) => Some(frame("ADDED", &version(pod))),
        (Some(_), Some(pod)) => Some(frame("MODIFIED", &version(pod))),
        (Some(_), None) => Some(frame("DELETED", &version(last))),
        (None, None) => None,
    }
}
