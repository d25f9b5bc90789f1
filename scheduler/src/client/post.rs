//! JSON to and from servers by path: extenders, and servers that review.
//!
//! Owns the bound of an answer, which grows with the request. Addresses, TLS, credentials and retries of requests without effect are the transport's.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};

use super::config::{Config, ConfigError};
use super::error::Error;
use super::transport::{Call, Transport};

/// Most bytes of an answer to a question without a body: a config map has one mebibyte at most.
const ANSWER_BYTES_BASE: usize = 4 << 20;

/// Bytes of an answer for each byte of the question: an extender returns the nodes that it was sent, with a reason for
/// each that it refuses.
const ANSWER_BYTES_PER_BYTE: usize = 4;

/// A server that speaks JSON. Cheap to clone.
#[derive(Clone)]
pub(crate) struct JsonServer {
    transport: Arc<Transport>,
}

impl JsonServer {
    /// The server that `config` leads to. Its limits of requests a second hold.
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        Ok(Self { transport: Arc::new(Transport::new(config)?) })
    }

    /// Whether a simulation carries the requests.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn is_simulated(&self) -> bool {
        self.transport.is_simulated()
    }

    /// Posts `body` to `path` below the server's prefix. Returns the status code and the body of the answer.
    pub(crate) async fn post(&self, path: &str, body: Bytes) -> Result<(u16, Bytes), Error> {
        self.send(Method::POST, path, body).await
    }

    /// Gets `path` below the server's prefix. Returns the status code and the body of the answer.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, Bytes), Error> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<(u16, Bytes), Error> {
        let json = HeaderValue::from_static("application/json");
        let call = Call {
            content_type: (method != Method::GET).then(|| json.clone()),
            method,
            path: format!("/{path}"),
            answer_bytes_max: ANSWER_BYTES_BASE
                .saturating_add(body.len().saturating_mul(ANSWER_BYTES_PER_BYTE)),
            body,
            accept: json,
        };
        let answer = self.transport.send(&call).await?;
        Ok((answer.code, answer.body))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::Endpoint;

    /// Asks a server that answers with `len` bytes, in a question of `question` bytes.
    async fn answered(len: usize, question: usize) -> Result<usize, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = 0;
            let mut head = vec![0; 64 << 10];
            while read < question {
                read += stream.read(&mut head).await.unwrap();
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            // The client closes the connection where it reads no more.
            drop(stream.write_all(&vec![b' '; len]).await);
        });
        let server = JsonServer::new(&Config::new(vec![address.parse::<Endpoint>().unwrap()])).unwrap();
        let answer = server.post("x", vec![b' '; question].into()).await;
        serving.abort();
        answer.map(|(_, body)| body.len())
    }

    #[tokio::test]
    async fn an_answer_is_no_larger_than_the_question_explains() {
        assert_eq!(answered(ANSWER_BYTES_BASE, 1).await.unwrap(), ANSWER_BYTES_BASE);
        assert!(answered(ANSWER_BYTES_BASE + 1024, 1).await.is_err());
        assert!(answered(ANSWER_BYTES_BASE + 1024, 1024).await.is_ok());
    }
}
