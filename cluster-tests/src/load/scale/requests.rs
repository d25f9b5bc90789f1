//! Requests of one client over its link, which is opened again when it breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use super::event;
use super::link::{Crowd, Link};
use super::retry::{Retry, random_part};
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
    /// the time of an answer with the first of `expected` goes to `tally`, with the time for which the server put it off. An
    /// answer that names a time to come back is asked again after it, ten times at most, as the reference's clients do.
    /// `None`: there was no answer.
    pub(super) async fn ask(
        &mut self,
        kind: &str,
        call: &Call<'_>,
        expected: &[u16],
        tally: Option<&Mutex<Tally>>,
    ) -> Option<Answer> {
        let (start, mut retry) = (Instant::now(), Retry::default());
        loop {
            let (answer, after) = self.once((kind, start), call, expected, tally).await;
            let Some(after) = after else { return answer };
            if !retry.may_ask_again() {
                self.crowd.failure(format!("{kind}: put off again and again"));
                return answer;
            }
            self.crowd.deferred.fetch_add(1, Ordering::Relaxed);
            sleep(retry.pause(Some(after), random_part())).await;
        }
    }

    /// Sends `call` once. Returns the answer, and the time that it named where it was put off.
    async fn once(
        &mut self,
        (kind, start): (&str, Instant),
        call: &Call<'_>,
        expected: &[u16],
        tally: Option<&Mutex<Tally>>,
    ) -> (Option<Answer>, Option<Duration>) {
        let connected = timeout(OPERATION_TIMEOUT, self.link.line(self.broken)).await;
        let Ok((generation, mut line)) = connected else {
            self.crowd.failure(format!("{kind}: no connection"));
            return (None, None);
        };
        match timeout(OPERATION_TIMEOUT, line.exchange(call)).await {
            Ok(Ok(reply)) => {
                let is_expected = expected.contains(&reply.status);
                let after = line.retry_after().filter(|_| !is_expected);
                if !is_expected && after.is_none() {
                    self.crowd.failure(format!("{kind}: status {}", reply.status));
                } else if let Some(tally) = tally.filter(|_| expected.first() == Some(&reply.status)) {
                    tally.lock().success(start.elapsed(), reply.bytes);
                }
                (Some(Answer { status: reply.status, version: event::version(line.head()) }), after)
            }
            Ok(Err(_)) => {
                self.crowd.failure(format!("{kind}: the connection broke"));
                self.broken = generation;
                (None, None)
            }
            Err(_) => {
                self.crowd.failure(format!("{kind}: no answer"));
                (None, None)
            }
        }
    }
}
