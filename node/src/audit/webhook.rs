//! Events posted to a webhook in batches.
//!
//! Owns the attempts: a batch that is not taken is posted again after longer and longer pauses, and given up after the
//! last one. A batch whose answer was lost may be posted twice; receivers tell events apart by id and stage.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use orch_api::audit::{NotStored, event_list};
use orch_api::egress::{Egress, Outgoing, TIMEOUT_MAX, Url};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::worker::{Deliver, STORING_MAX, SinkOptions, Worker};

/// Attempts to post a batch, as in the reference.
const ATTEMPTS_MAX: u32 = 5;

/// Growth of the pause from one attempt to the next, as in the reference.
const PAUSE_GROWTH: f64 = 1.5;

/// Bytes above which a batch takes no further event, whatever the flags say: what a receiver of the reference expects.
const BATCH_BYTES_MAX: usize = 10 << 20;

/// The settings of a webhook.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebhookOptions {
    /// The settings that every sink has.
    pub sink: SinkOptions,
    /// Pause before the second attempt.
    pub initial_backoff: Duration,
}

/// Starts the thread that posts batches to `url` through `egress`, whose tasks run on `runtime`. When the node stops, each
/// batch that is left is posted once.
///
/// # Errors
/// The system starts no thread.
pub fn start_webhook(
    options: WebhookOptions,
    egress: Arc<dyn Egress>,
    url: Url,
    runtime: Handle,
) -> io::Result<Worker> {
    let batch_bytes_max = options.sink.batch_bytes_max.min(BATCH_BYTES_MAX);
    let sink = SinkOptions { batch_bytes_max, ..options.sink };
    let pause = options.initial_backoff;
    Worker::start("webhook", sink, STORING_MAX, |stopping| Poster { egress, url, runtime, stopping, pause })
}

struct Poster {
    egress: Arc<dyn Egress>,
    url: Url,
    runtime: Handle,
    stopping: CancellationToken,
    /// Pause before the second attempt.
    pause: Duration,
}

impl Poster {
    async fn post(&self, document: Bytes) -> Result<(), NotStored> {
        let request =
            Outgoing { url: self.url.clone(), document: Some(document), timeout: TIMEOUT_MAX, trace: None };
        match self.egress.send(request).await {
            Ok(reply) if (200..300).contains(&reply.status) => Ok(()),
            Ok(reply) => Err(NotStored(format!("the webhook answered {}", reply.status))),
            Err(error) => Err(NotStored(error.to_string())),
        }
    }

    async fn post_until_taken(&self, document: Bytes) -> Result<(), NotStored> {
        let mut pause = self.pause;
        for _ in 1..ATTEMPTS_MAX {
            match self.post(document.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if self.stopping.is_cancelled() => return Err(error),
                Err(error) => tracing::debug!(%error, "audit events are posted again"),
            }
            let stopping = std::pin::pin!(self.stopping.cancelled());
            match select(self.egress.pause(pause), stopping).await {
                Either::Left(_) => pause = pause.mul_f64(PAUSE_GROWTH),
                Either::Right(_) => break,
            }
        }
        self.post(document).await
    }
}

impl Deliver for Poster {
    fn deliver(&mut self, events: &[Bytes]) -> Result<(), NotStored> {
        let document = Bytes::from(event_list(events));
        self.runtime.block_on(self.post_until_taken(document))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use orch_api::audit::Sink;
    use orch_api::egress::{EgressError, Reply};
    use parking_lot::Mutex;

    use super::*;
    use crate::audit::Mode;

    /// A receiver that answers with these codes, the last one for ever.
    #[derive(Default)]
    struct Receiver {
        codes: Mutex<Vec<u16>>,
        documents: Mutex<Vec<Bytes>>,
        pauses: Mutex<Vec<Duration>>,
    }

    impl fmt::Debug for Receiver {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Receiver")
        }
    }

    impl Egress for Receiver {
        fn send(&self, request: Outgoing) -> BoxFuture<'_, Result<Reply, EgressError>> {
            async move {
                self.documents.lock().extend(request.document);
                let mut codes = self.codes.lock();
                let status = if codes.len() > 1 { codes.remove(0) } else { codes[0] };
                Ok(Reply { status, retry_after: None, body: Bytes::new() })
            }
            .boxed()
        }

        fn pause(&self, span: Duration) -> BoxFuture<'_, ()> {
            self.pauses.lock().push(span);
            async {}.boxed()
        }
    }

    async fn posted(codes: &[u16]) -> (Result<(), NotStored>, Arc<Receiver>) {
        let receiver = Arc::new(Receiver { codes: Mutex::new(codes.to_vec()), ..Receiver::default() });
        let sink =
            SinkOptions { mode: Mode::Blocking, event_bytes_max: usize::MAX, batch_bytes_max: usize::MAX };
        let options = WebhookOptions { sink, initial_backoff: Duration::from_secs(10) };
        let url = Url::parse("https://audit.example/events").unwrap();
        let sink = start_webhook(options, receiver.clone(), url, Handle::current()).unwrap();
        let event = br#"{"kind":"Event","apiVersion":"audit.orch.io/v1","level":"Metadata","verb":"get"}"#;
        let outcome = sink.store(Bytes::from_static(event)).await;
        (outcome, receiver)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_batch_is_posted_until_it_is_taken_and_given_up_in_the_end() {
        let (outcome, receiver) = posted(&[200]).await;
        assert_eq!(outcome, Ok(()));
        let list = r#"{"kind":"EventList","apiVersion":"audit.orch.io/v1","metadata":{},"items":[{"level":"Metadata","verb":"get"}]}"#;
        assert_eq!(*receiver.documents.lock(), [list]);
        let (outcome, receiver) = posted(&[500, 404, 201]).await;
        assert_eq!((outcome, receiver.documents.lock().len()), (Ok(()), 3));
        assert_eq!(*receiver.pauses.lock(), [10, 15].map(Duration::from_secs));
        let (outcome, receiver) = posted(&[302]).await;
        assert_eq!(outcome, Err(NotStored("the webhook answered 302".to_owned())));
        assert_eq!(receiver.documents.lock().len(), 5, "a redirect is not followed, and not the last word");
    }
}
