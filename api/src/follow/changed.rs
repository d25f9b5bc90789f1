//! Waiting for changes of several resources at once.
//!
//! Owns no subscription: one future polls all of them, and none is boxed.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use orch_raft::Subscription;

/// Ready when a change was announced. Every announcement so far counts as seen: the loop reads the state afterwards.
pub(crate) fn poll_changed(subscriptions: &mut [Subscription], context: &mut Context<'_>) -> Poll<()> {
    let mut is_changed = false;
    for subscription in subscriptions {
        let changed = pin!(subscription.changed());
        // Pending for ever once the store has ended.
        is_changed |= matches!(changed.poll(context), Poll::Ready(Some(_)));
    }
    if is_changed { Poll::Ready(()) } else { Poll::Pending }
}

/// Waits for a change on one of `subscriptions`. Never completes once the store has ended.
pub(crate) async fn any_changed(subscriptions: &mut [Subscription]) {
    poll_fn(|context| poll_changed(subscriptions, context)).await;
}
