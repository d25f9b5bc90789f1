//! Posts of JSON to servers that are not the API: extenders.
//!
//! Owns nothing but the door: addresses, TLS, and retries of what had no effect are the transport's.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};

use super::config::{Config, ConfigError};
use super::error::Error;
use super::transport::{Call, Transport};

/// A server that takes JSON by POST. Cheap to clone.
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
        let json = HeaderValue::from_static("application/json");
        let call = Call {
            method: Method::POST,
            path: format!("/{path}"),
            body,
            content_type: Some(json.clone()),
            accept: json,
        };
        let answer = self.transport.send(&call).await?;
        Ok((answer.code, answer.body))
    }
}
