//! JSON to and from servers by path: extenders, and servers that review.
//!
//! Owns nothing but the door: addresses, TLS, credentials, and retries of what had no effect are the transport's.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};

use super::config::{Config, ConfigError};
use super::error::Error;
use super::transport::{Call, Transport};

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
            body,
            accept: json,
        };
        let answer = self.transport.send(&call).await?;
        Ok((answer.code, answer.body))
    }
}
