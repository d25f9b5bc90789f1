//! An open watch: events in the order the server sent them, one JSON document a line.

use std::time::Duration;

use anyhow::{Result, bail};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use serde_json::Value;

/// The longest accepted line. The reference's objects end at 1.5 MiB, twice that in JSON escapes.
const LINE_BYTES_MAX: usize = 8 << 20;

/// A watch that was answered with 200. Dropping it closes the connection.
pub struct Watch {
    body: Incoming,
    rest: BytesMut,
    // The connection ends when its sender is dropped.
    _connection: SendRequest<Full<Bytes>>,
}

impl Watch {
    pub(super) fn new(connection: SendRequest<Full<Bytes>>, body: Incoming) -> Self {
        Self { body, rest: BytesMut::new(), _connection: connection }
    }

    /// The next event; `None` if the server ended the stream. An error if it broke, or if no event came within
    /// `patience`.
    pub async fn next(&mut self, patience: Duration) -> Result<Option<Value>> {
        match tokio::time::timeout(patience, self.line()).await {
            Ok(line) => Ok(line?),
            Err(_) => bail!("no event within {patience:?}"),
        }
    }

    /// The next event, without a timeout; `None` if the server ended the stream.
    pub async fn line(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.rest.len() > LINE_BYTES_MAX {
                bail!("a watch line is over {LINE_BYTES_MAX} bytes");
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}
