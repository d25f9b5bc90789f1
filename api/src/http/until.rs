//! A body that ends before its time.
//!
//! Owns passing frames on until a signal, and how a body ends then. It knows no reason for the signal. One whose client reads nothing
//! ends with the next frame that the client takes.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};

/// The end of a body that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// That of a whole body: a watch has no last event.
    Clean,
    /// An error, so that no client takes the part for the whole.
    Broken,
}

/// A body and the signal that cuts it off.
pub(super) struct Until {
    body: Body,
    /// `None` once it was given.
    end: Option<BoxFuture<'static, ()>>,
    cut: Cut,
}

impl Until {
    /// `body`, until `end`.
    pub(super) fn new(body: Body, end: BoxFuture<'static, ()>, cut: Cut) -> Until {
        Until { body, end: Some(end), cut }
    }
}

impl http_body::Body for Until {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(end) = &mut self.end else { return Poll::Ready(None) };
        if end.poll_unpin(context).is_ready() {
            self.end = None;
            // The rest of the other server's answer is not waited for.
            self.body = Body::empty();
            return Poll::Ready(match self.cut {
                Cut::Clean => None,
                Cut::Broken => Some(Err(axum::Error::new("the right to the answer is lost"))),
            });
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.end.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::oneshot;
    use futures::executor::block_on;
    use futures::{StreamExt, stream};
    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;

    /// A body of one piece and no end, and its signal.
    fn endless(cut: Cut) -> (Until, oneshot::Sender<()>) {
        let first = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"text")) });
        let (give, given) = oneshot::channel();
        let body = Body::from_stream(first.chain(stream::pending()));
        (Until::new(body, given.map(drop).boxed(), cut), give)
    }

    #[test]
    fn a_body_that_is_cut_off_looks_whole_or_broken() {
        for cut in [Cut::Clean, Cut::Broken] {
            let (mut body, give) = endless(cut);
            let first = block_on(body.frame()).unwrap().unwrap();
            assert_eq!(first.into_data().unwrap(), "text");
            assert!(body.frame().now_or_never().is_none(), "it goes on");
            give.send(()).unwrap();
            let last = block_on(body.frame());
            assert_eq!(
                (last.is_none(), last.is_some_and(|last| last.is_err())),
                (cut == Cut::Clean, cut == Cut::Broken)
            );
            assert!(block_on(body.frame()).is_none() && body.is_end_stream());
        }
    }

    #[test]
    fn a_body_that_ends_by_itself_is_whole() {
        let body = Until::new(Body::from("text"), futures::future::pending().boxed(), Cut::Broken);
        assert_eq!(body.size_hint().exact(), Some(4));
        assert_eq!(block_on(body.collect()).unwrap().to_bytes(), "text");
    }
}
