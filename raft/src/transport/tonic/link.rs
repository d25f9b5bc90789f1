//! The connection to one peer for one purpose: idle, being made, or ready.
//!
//! Callers that arrive during an attempt wait for it. The attempt goes on when they give up: a call with a deadline
//! shorter than a handshake would otherwise never get through. After a failure, and after a connection that did not
//! last, the link backs off and callers get the last reason at once.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::connector::{Failure, connect};
use super::tls::PeerTls;

/// The first pause after a failure. It doubles with every further one.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest pause: about as long as an election, so that a member that is back is found soon after one.
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// A connection that ends sooner counts as a failure: a peer that refuses our certificate says so only after the
/// handshake.
const STEADY_AFTER: Duration = Duration::from_secs(1);

type Attempt = Shared<BoxFuture<'static, Result<Ready, Failure>>>;

/// A connection and the time it was made.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) channel: Channel,
    since: Instant,
}

enum State {
    Idle { not_before: Option<Instant>, failure: Failure },
    Connecting(Attempt),
    Ready(Ready),
}

struct Line {
    state: State,
    // Failures since the last connection that lasted [`STEADY_AFTER`].
    failures: u32,
}

/// One peer, one address, one purpose. Clones share the connection.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) name: Arc<str>,
    pub(super) address: Arc<str>,
    line: Arc<Mutex<Line>>,
}

impl Link {
    /// An idle link; dials nothing.
    pub(super) fn new(name: Arc<str>, address: Arc<str>) -> Link {
        let state = State::Idle { not_before: None, failure: Failure::other("not tried") };
        Link { name, address, line: Arc::new(Mutex::new(Line { state, failures: 0 })) }
    }

    /// The connection, or the reason why there is none. `runtime` makes and drives it, whichever caller asks first.
    pub(super) async fn ready(&self, tls: &PeerTls, runtime: &Handle) -> Result<Ready, Failure> {
        let attempt = {
            let mut line = self.line.lock();
            match &line.state {
                State::Ready(ready) => return Ok(ready.clone()),
                State::Connecting(attempt) => attempt.clone(),
                State::Idle { not_before: Some(instant), failure } if Instant::now() < *instant => {
                    return Err(failure.clone());
                }
                State::Idle { .. } => {
                    let attempt = self.attempt(tls.clone(), runtime);
                    line.state = State::Connecting(attempt.clone());
                    attempt
                }
            }
        };
        attempt.await
    }

    /// Forgets a closed connection, unless a newer one has taken its place.
    pub(super) fn closed(&self, spent: &Ready) {
        let mut line = self.line.lock();
        if !matches!(&line.state, State::Ready(ready) if ready.since == spent.since) {
            return;
        }
        let is_steady = spent.since.elapsed() >= STEADY_AFTER;
        let failures = if is_steady { 0 } else { line.failures.saturating_add(1) };
        let reason = "the peer closes the connection; it may refuse this member's certificate";
        let not_before = (failures > 0).then(|| Instant::now() + backoff(failures));
        *line = Line { state: State::Idle { not_before, failure: Failure::other(reason) }, failures };
    }

    fn attempt(&self, tls: PeerTls, runtime: &Handle) -> Attempt {
        let link = self.clone();
        let attempt = runtime.spawn(async move {
            let connected = connect(&tls, &link.name, &link.address).await;
            link.settle(connected)
        });
        let ended = |ended: Result<Result<Ready, Failure>, _>| {
            ended.unwrap_or_else(|_| Err(Failure::other("the runtime is shutting down")))
        };
        attempt.map(ended).boxed().shared()
    }

    fn settle(&self, connected: Result<Channel, Failure>) -> Result<Ready, Failure> {
        let mut line = self.line.lock();
        match connected {
            Ok(channel) => {
                let ready = Ready { channel, since: Instant::now() };
                line.state = State::Ready(ready.clone());
                Ok(ready)
            }
            Err(failure) => {
                let failures = line.failures.saturating_add(1);
                let not_before = Some(Instant::now() + backoff(failures));
                *line = Line { state: State::Idle { not_before, failure: failure.clone() }, failures };
                Err(failure)
            }
        }
    }
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(BACKOFF_MAX.as_millis().ilog2());
    BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<u128> = [0, 1, 2, 3, 4, 5, 6, u32::MAX].map(|n| backoff(n).as_millis()).to_vec();
        assert_eq!(pauses, [50, 50, 100, 200, 400, 500, 500, 500]);
    }
}
