//! A caller of a test: answers are made by a function, calls are kept.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;

use super::{Call, Caller};
use crate::egress::{EgressError, Reply};

/// The answer to a call: status and body, or the failure of the connection.
pub(crate) type Answer = Result<(u16, String), EgressError>;

/// Answers every call by a function of it. Clones share the calls.
#[derive(Clone)]
pub(crate) struct Answering {
    answer: Arc<dyn Fn(&Call) -> Answer + Send + Sync>,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl std::fmt::Debug for Answering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answering").field("calls", &self.calls.lock().len()).finish_non_exhaustive()
    }
}

impl Answering {
    /// A caller that answers with `answer`.
    pub(crate) fn new(answer: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Answering {
        Answering { answer: Arc::new(answer), calls: Arc::default() }
    }

    /// The calls so far, in their order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }
}

impl Caller for Answering {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let answer = (self.answer)(&call);
        self.calls.lock().push(call);
        ready(answer.map(|(status, body)| Reply { status, retry_after: None, body: body.into() })).boxed()
    }
}
