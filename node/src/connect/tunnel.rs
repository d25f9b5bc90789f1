//! Carries bytes between a client and a backend that have both left HTTP.

use std::time::Duration;

use futures::future::{Either, select, try_join};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use orch_api::http::Lasting;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

/// Time for the rest of the other direction once one has ended: the last output of a command whose input is closed. Without
/// an end a peer that never closes would hold the connection.
const LINGER_MAX: Duration = Duration::from_secs(10);

/// Carries bytes in both directions until both sides have closed, or one has and the other has nothing more to say. Drops
/// `held` then.
pub(super) async fn carry(client: OnUpgrade, backend: OnUpgrade, held: Option<Lasting>) {
    let (client, backend) = match try_join(client, backend).await {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "an upgrade was granted and not carried out");
            return;
        }
    };
    let (from_client, to_client) = split(TokioIo::new(client));
    let (from_backend, to_backend) = split(TokioIo::new(backend));
    let (up, down) = (Box::pin(pump(from_client, to_backend)), Box::pin(pump(from_backend, to_client)));
    let rest = match select(up, down).await {
        Either::Left(((), rest)) => Either::Left(rest),
        Either::Right(((), rest)) => Either::Right(rest),
    };
    // What is cut off here had its time.
    let _ = tokio::time::timeout(LINGER_MAX, rest).await;
    drop(held);
}

/// Carries bytes in one direction until its end, and passes the end on.
async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    if let Err(error) = copy(&mut from, &mut to).await {
        tracing::debug!(%error, "a stream was cut off");
    }
    // The other side may be gone already.
    let _ = to.shutdown().await;
}
