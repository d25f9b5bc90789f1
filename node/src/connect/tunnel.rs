//! Carries bytes between a client and a backend that have both left HTTP.

use std::time::Duration;

use futures::future::{BoxFuture, Either, select, try_join};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use orch_api::http::Lasting;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

/// Time for the rest of the other direction once one has ended: the last output of a command whose input is closed. Without
/// an end a peer that never closes would hold the connection.
const LINGER_MAX: Duration = Duration::from_secs(10);

/// Carries bytes in both directions until both sides have closed, or one has and the other has nothing more to say, or the end
/// that is named in `held`. Drops `held` then.
pub(super) async fn carry(client: OnUpgrade, backend: OnUpgrade, held: Option<Lasting>) {
    let (client, backend) = match try_join(client, backend).await {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "an upgrade was granted and not carried out");
            return;
        }
    };
    let end = held.as_ref().and_then(Lasting::take_end);
    carry_until(end, TokioIo::new(client), TokioIo::new(backend)).await;
    drop(held);
}

/// The same over two streams, and no longer than until `end`.
async fn carry_until<C, B>(end: Option<BoxFuture<'static, ()>>, client: C, backend: B)
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (from_client, to_client) = split(client);
    let (from_backend, to_backend) = split(backend);
    let carried = async {
        let (up, down) = (Box::pin(pump(from_client, to_backend)), Box::pin(pump(from_backend, to_client)));
        let rest = match select(up, down).await {
            Either::Left(((), rest)) => Either::Left(rest),
            Either::Right(((), rest)) => Either::Right(rest),
        };
        // Bytes that the peer has not read within the time are dropped with the connection.
        let _ = tokio::time::timeout(LINGER_MAX, rest).await;
    };
    match end {
        Some(end) => drop(select(Box::pin(carried), end).await),
        None => carried.await,
    }
}

/// Carries bytes in one direction until its end, and passes the end on.
async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    if let Err(error) = copy(&mut from, &mut to).await {
        tracing::debug!(%error, "a stream was cut off");
    }
    // The other side may be gone already.
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_left_http_ends_when_it_is_told_to() {
        let ((mut client, far_client), (mut backend, far_backend)) = (duplex(64), duplex(64));
        let (end, ended) = oneshot::channel::<()>();
        let carrying = tokio::spawn(carry_until(Some(ended.map(drop).boxed()), far_client, far_backend));
        client.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        backend.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        end.send(()).unwrap();
        carrying.await.unwrap();
        assert_eq!(client.read(&mut bytes).await.unwrap(), 0);
        assert!(backend.write_all(b"more").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_never_closes_has_a_while_once_the_other_has() {
        let ((client, far_client), (mut backend, far_backend)) = (duplex(64), duplex(64));
        let carrying = tokio::spawn(carry_until(None, far_client, far_backend));
        drop(client);
        let mut rest = Vec::new();
        backend.read_to_end(&mut rest).await.unwrap();
        let begun = tokio::time::Instant::now();
        carrying.await.unwrap();
        assert!(begun.elapsed() <= LINGER_MAX);
    }
}
