//! Requests of one client over its link, which is opened again when it breaks.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::event;
use super::link::{Crowd, Link};
use crate::load::OPERATION_TIMEOUT;
use crate::load::tally::Tally;
use crate::load::wire::Call;

/// Sends requests one after the other.
pub(super) struct Requests {
    link: Arc<Link>,
    crowd: Arc<Crowd>,
    /// The newest connection that has broken.
    broken: u64,
}

/// The status of an answer, and the version of the object in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) version: Option<u64>,
}

impl Requests {
    /// No requests yet, over `link`.
    pub(super) fn new(link: &Arc<Link>, crowd: &Arc<Crowd>) -> Self {
        Self { link: link.clone(), crowd: crowd.clone(), broken: 0 }
    }

    /// Sends `call`. A status that is not among `expected`, a broken connection and a timeout count as failures of `kind`;
    /// the time of an answer with the first of `expected` goes to `tally`. `None`: there was no answer.
    pub(super) async fn ask(
        &mut self,
        kind: &str,
        call: &Call<'_>,
        expected: &[u16],
        tally: Option<&Mutex<Tally>>,
    ) -> Option<Answer> {
        let start = Instant::now();
        let connected = timeout(OPERATION_TIMEOUT, self.link.line(self.broken)).await;
        let Ok((generation, mut line)) = connected else {
            self.crowd.failure(format!("{kind}: no connection"));
            return None;
        };
        match timeout(OPERATION_TIMEOUT, line.exchange(call)).await {
            Ok(Ok(reply)) => {
                if !expected.contains(&reply.status) {
                    self.crowd.failure(format!("{kind}: status {}", reply.status));
                } else if let Some(tally) = tally.filter(|_| expected.first() == Some(&reply.status)) {
                    tally.lock().success(start.elapsed(), reply.bytes);
                }
                Some(Answer { status: reply.status, version: event::version(line.head()) })
            }
            Ok(Err(_)) => {
                self.crowd.failure(format!("{kind}: the connection broke"));
                self.broken = generation;
                None
            }
            Err(_) => {
                self.crowd.failure(format!("{kind}: no answer"));
                None
            }
        }
    }
}
