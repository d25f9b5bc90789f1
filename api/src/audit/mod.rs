//! Audit: events of who asked for what, what was decided, and what was answered.
//!
//! Owns the policy, the events (`Event` of the group `audit`, version v1) and the way of a request through its stages.
//! Sinks are handed in: this module opens no file and no socket.
//!
//!     authenticate -> policy decides once -> RequestReceived -> authorize ... answer -> ResponseComplete
//!                                                       a watch: ResponseStarted ... end of the stream -> ResponseComplete
//!     refused with 401: ResponseStarted alone, without a user
//!
//! A panic ends the process, so that there is no event of the stage `Panic`; policies may name it.
//!
//! Invariant: no event holds data of a Secret, a token, or a credential of the request, whatever the policy says
//! (`redaction`). Invariant: a request at the level `None` copies nothing, and without an auditor allocates nothing.

mod cut;
mod draft;
mod event;
pub mod policy;
mod redaction;
mod sink;
mod source;
mod stage;
mod trail;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use orch_proto::Brand;
use smallvec::SmallVec;

pub(crate) use self::draft::Document;
use self::event::Event;
pub(crate) use self::event::Facts;
pub use self::event::event_list;
pub use self::policy::Policy;
pub use self::sink::{NotStored, Sink, Storing, settled};
pub use self::stage::{Level, Stage};
pub use self::trail::Trail;
pub(crate) use self::trail::{document, with_head};
use crate::ambient::Ambient;

/// Bytes of the longest object in an event: those of the largest body of a request. A longer one, such as a list, is
/// left out, and the event says so in an annotation.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 3 << 20;

/// The policy and the sinks of a node.
pub struct Auditor {
    brand: &'static Brand,
    policy: Arc<ArcSwap<Policy>>,
    sinks: Vec<Arc<dyn Sink>>,
    ambient: Arc<dyn Ambient>,
}

/// Sinks that were handed an event, with the outcome to come. Two: a file and a webhook.
type Outcomes = SmallVec<[(bool, Storing); 2]>;

impl Auditor {
    /// An auditor whose policy may be replaced while it works.
    pub fn new(
        brand: &'static Brand,
        policy: Arc<ArcSwap<Policy>>,
        sinks: Vec<Arc<dyn Sink>>,
        ambient: Arc<dyn Ambient>,
    ) -> Arc<Self> {
        Arc::new(Auditor { brand, policy, sinks, ambient })
    }

    /// Hands `event` to every sink. It is theirs when this returns; the outcomes tell whether they have stored it. One that
    /// is too long for a sink is not stored, like one that cannot be written.
    fn hand_over(&self, event: &Event<'_>) -> Outcomes {
        metrics::counter!("apiserver_audit_event_total").increment(1);
        let whole = Bytes::from(event.write());
        let hand_to = |sink: &Arc<dyn Sink>| {
            let bytes_max = sink.event_bytes_max();
            let fitting = match whole.len() <= bytes_max {
                true => Some(whole.clone()),
                false => event.write_within(bytes_max).map(Bytes::from),
            };
            let storing = match fitting {
                Some(event) => sink.store(event),
                None => sink.lose(NotStored(format!("it is longer than {bytes_max} bytes"))),
            };
            (sink.is_required(), storing)
        };
        self.sinks.iter().map(hand_to).collect()
    }
}

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auditor").field("sinks", &self.sinks.len()).finish_non_exhaustive()
    }
}

/// Waits until the sinks have stored an event or given it up.
///
/// # Errors
/// A sink without which no request may be carried out has not stored it.
async fn settle(outcomes: Outcomes) -> Result<(), NotStored> {
    let mut settled = Ok(());
    for (is_required, storing) in outcomes {
        if let Err(error) = storing.await
            && is_required
        {
            settled = Err(error);
        }
    }
    settled
}
