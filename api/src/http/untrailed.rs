//! A body without trailers.
//!
//! Owns one rule: fields behind the data of a client's request go no further. Names of identity among them would pass the gate, which
//! sees the head alone, and a back end that reads trailers as headers would believe them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// The data of a body.
pub(super) struct Untrailed(pub(super) Body);

impl http_body::Body for Untrailed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.0).poll_frame(context));
        // Nothing comes behind trailers.
        Poll::Ready(frame.filter(|frame| !frame.as_ref().is_ok_and(Frame::is_trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;
    use http::HeaderMap;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    #[test]
    fn data_pass_and_trailers_do_not() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-remote-user", "root".parse().unwrap());
        let frames = [Frame::data(Bytes::from_static(b"data")), Frame::trailers(trailers)];
        let body = StreamBody::new(stream::iter(frames.map(Ok::<_, axum::Error>)));
        let collected = block_on(Untrailed(Body::new(body)).collect()).unwrap();
        assert!(collected.trailers().is_none());
        assert_eq!(collected.to_bytes(), "data");
        assert!(http_body::Body::is_end_stream(&Untrailed(Body::empty())), "an empty body stays one");
    }
}
