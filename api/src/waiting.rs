//! Waits of a request for another server, told to its budget.
//!
//! Owns nothing but the telling: while a future is pending, turns and permits that are meant for work go to others.

use std::future::poll_fn;
use std::task::Poll;

use orch_schema::budget::Budget;

/// The result of `pending`. While it is pending, `budget` says that its request waits.
pub(crate) async fn waited<F: Future + Unpin>(mut pending: F, budget: &Budget) -> F::Output {
    let mut wait = None;
    poll_fn(|context| {
        let polled = std::pin::Pin::new(&mut pending).poll(context);
        match polled {
            Poll::Pending if wait.is_none() => wait = Some(budget.wait()),
            Poll::Pending => {}
            Poll::Ready(_) => wait = None,
        }
        polled
    })
    .await
}
