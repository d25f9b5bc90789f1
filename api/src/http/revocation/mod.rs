//! Watches end with the right to watch, and with the credential that they were opened with.
//!
//! Owns asking again, once a minute, whether the request that opened a watch would still be let in: whether its token,
//! certificate or front proxy still proves the same user, who may still impersonate whom the request acts as, who may
//! still watch. One task asks for all watches of a node, each question once for all watches that depend on it; it begins with
//! the first watch and ends with the last one. A watch outlives, for a while, a server that has to be asked and gives no
//! answer, and the other questions do not wait for it; how many of its questions are under way is bounded. The task ends all
//! watches when the node stops. It knows no rule. The listener ends connections whose certificate has expired or was revoked.

mod ledger;
mod question;
mod relayed;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use orch_raft::Store;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::ledger::{Answer, Outcome};
use self::question::Question;
use crate::ambient::Timestamp;
use crate::authn::{Credential, Moment};
use crate::exchange::Exchange;
use crate::follow::Applied;
use crate::gate::NotAdmitted;
use crate::pipeline::{Pipeline, Request};
use crate::watch::Ending;

pub(super) use self::ledger::{Ledger, Right};
pub(super) use self::relayed::RelayedRight;

/// Longest time that a watch outlives its right: the interval of bookmarks. A decision takes microseconds.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Time for which a watch goes on while a webhook or an issuer that decides on it gives no answer, counted from the first question
/// without one: enough to restart that server, which would otherwise cost every watch of its users, all of which come back
/// together; and a bound for credentials that ended meanwhile.
const UNDECIDED_SPAN_MAX: Duration = Duration::from_secs(600);
/// Questions that are begun before other tasks have their turn: some hundred microseconds. The task then waits for the next
/// tick of the runtime's clock, so that the questions of ten thousand watches that came together take a third of a second.
const ASKED_AT_ONCE: usize = 32;
/// Questions that wait for another server: some megabytes. With an answer in a second sixty thousand of them are decided in a
/// minute. Beyond it a question that is not decided at once counts as one without an answer, and is asked again in its next
/// turn.
const UNDER_WAY_MAX: usize = 1_000;

/// Enters the watch of `request`, which was let in, into `ledger`. The node ends it by the second result, as long as the
/// first one is kept.
pub(super) fn hold<S: Store>(
    ledger: &Arc<Ledger>,
    request: Request<'_>,
    pipeline: &Arc<Pipeline<S>>,
    stopping: &CancellationToken,
) -> (Right, Ending) {
    let ending = Ending::default();
    let (right, is_first) = ledger.add(Question::of(request), ending.clone(), pipeline.store.elapsed());
    // Simulated nodes have no runtime, and their watches end with their connections.
    if is_first && let Ok(runtime) = Handle::try_current() {
        runtime.spawn(sweep(ledger.clone(), pipeline.clone(), stopping.clone()));
    }
    (right, ending)
}

/// Asks each question when it is due, until no watch is left or the node stops.
async fn sweep<S: Store>(ledger: Arc<Ledger>, pipeline: Arc<Pipeline<S>>, stopping: CancellationToken) {
    let mut asking = FuturesUnordered::new();
    loop {
        let now = pipeline.store.elapsed();
        let wait = ledger.next_turn().map_or(ASK_EVERY, |at| at.saturating_sub(now)).min(ASK_EVERY);
        tokio::select! {
            biased;
            () = stopping.cancelled() => return ledger.end_all(),
            // Answers do not put off what is due.
            Some(()) = asking.next(), if !wait.is_zero() => {}
            () = pipeline.store.sleep(wait) => {
                if ledger.end_sweep() {
                    return;
                }
                let now = pipeline.store.elapsed();
                for _ in 0..ASKED_AT_ONCE {
                    let Some(question) = ledger.take_due(now) else { break };
                    let mut asked = Box::pin(ask(&ledger, question.clone(), &pipeline));
                    if asking.len() < UNDER_WAY_MAX {
                        asking.push(asked);
                    } else if asked.as_mut().now_or_never().is_none() {
                        drop(asked);
                        ledger.answer(&question, Answer::Undecided, pipeline.ambient.now(), now);
                    }
                }
            }
        }
    }
}

/// Asks whether the watches of `question` would still be let in, and notes the answer.
async fn ask<S: Store>(ledger: &Ledger, question: Arc<Question>, pipeline: &Pipeline<S>) {
    // Questions without a credential are never due.
    let Some(credential) = &question.credential else { return };
    let at = pipeline.ambient.now();
    let (answer, error) = match is_held_still(&question, credential, at, pipeline).await {
        Ok(()) => (Answer::Held, None),
        Err(error @ NotAdmitted::Undecided(_)) => (Answer::Undecided, Some(error)),
        Err(error) => (Answer::Lost, Some(error)),
    };
    let outcome = ledger.answer(&question, answer, at, pipeline.store.elapsed());
    if let Some(error) = error {
        let ends = outcome == Outcome::Ended;
        tracing::debug!(?credential, %error, ends, "the right to a watch is lost or not decided");
    }
}

async fn is_held_still<S: Store>(
    question: &Question,
    credential: &Credential,
    now: Timestamp,
    pipeline: &Pipeline<S>,
) -> Result<(), NotAdmitted> {
    let (applied, exchange) = (Applied::of(&pipeline.store), Exchange::internal());
    let at = Moment { applied: &applied, now, remarks: &exchange };
    pipeline.gate.admits_still(credential, question.attributes(), at).await
}
