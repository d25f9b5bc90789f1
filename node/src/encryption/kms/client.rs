//! Calls of a KMS plugin over its Unix socket.
//!
//! Owns the connection, which is made when a call needs it, and the bounds of time and size of each call. What a plugin
//! answers is checked here, so that code behind it sees well-formed answers only; what it means is decided elsewhere.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use orch_proto::kms::v2::key_management_service_client::KeyManagementServiceClient;
use orch_proto::kms::v2::{DecryptRequest, EncryptRequest, EncryptResponse, StatusRequest};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use tower::Service;
use uuid::Uuid;

use super::config::PluginConfig;

/// Origin of every request. It is not resolved: the connector has the socket.
const ORIGIN: &str = "http://localhost";
/// Bytes of the largest answer: annotations of 32 KiB, a sealed key and a key id of 1 KiB each, and their framing.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of the largest headers of an answer.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Bytes of the longest key id: the reference's bound.
const KEY_ID_BYTES_MAX: usize = 1 << 10;
/// Bytes of the largest sealed data key: the reference's bound.
const SEALED_BYTES_MAX: usize = 1 << 10;
/// Bytes of the largest annotations, keys and values: the reference's bound.
const ANNOTATION_BYTES_MAX: usize = 32 << 10;
/// Characters of a plugin's text that messages repeat.
const SHOWN_MAX: usize = 200;

/// Why a plugin could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KMS plugin {plugin} ({endpoint}): {reason}")]
pub(in crate::encryption) struct Failure {
    plugin: String,
    endpoint: String,
    reason: String,
    /// The plugin did not answer: it may be starting.
    pub(super) is_absence: bool,
}

/// A connection to a plugin.
pub(super) struct Client {
    config: PluginConfig,
    grpc: KeyManagementServiceClient<Channel>,
}

impl Client {
    /// Needs a runtime. Connects with the first call.
    pub(super) fn new(config: PluginConfig) -> Client {
        let endpoint = Endpoint::from_static(ORIGIN).http2_max_header_list_size(HEADER_BYTES_MAX);
        let channel = endpoint.connect_with_connector_lazy(Socket(config.socket.clone()));
        let grpc = KeyManagementServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        Client { config, grpc }
    }

    /// A failure of this plugin.
    pub(super) fn failure(&self, reason: String) -> Failure {
        failure(&self.config, reason, false)
    }

    /// The id of the key with which the healthy plugin seals.
    pub(super) async fn status(&mut self) -> Result<String, Failure> {
        let answer = match self.ask_status().await {
            // The connection of a plugin that was restarted: the next call makes a new one.
            Err(failure) if failure.is_absence => self.ask_status().await?,
            answer => answer?,
        };
        if answer.version != "v2" {
            return Err(self.failure(format!("expected KMS API version v2, got {}", shown(&answer.version))));
        }
        if answer.healthz != "ok" {
            return Err(self.failure(format!("got unexpected healthz status: {}", shown(&answer.healthz))));
        }
        check_key_id(&answer.key_id).map_err(|reason| self.failure(reason))?;
        Ok(answer.key_id)
    }

    async fn ask_status(&mut self) -> Result<orch_proto::kms::v2::StatusResponse, Failure> {
        let call = self.grpc.status(StatusRequest {});
        within(&self.config, "Status", call).await
    }

    /// Lets the plugin seal a data key.
    pub(super) async fn seal(&mut self, secret: &[u8]) -> Result<EncryptResponse, Failure> {
        let call = self.grpc.encrypt(EncryptRequest { plaintext: secret.to_vec(), uid: call_id() });
        let answer = within(&self.config, "Encrypt", call).await?;
        check_key_id(&answer.key_id).map_err(|reason| self.failure(reason))?;
        if answer.ciphertext.is_empty() || answer.ciphertext.len() > SEALED_BYTES_MAX {
            let reason =
                format!("a sealed key of {} bytes, not 1 to {SEALED_BYTES_MAX}", answer.ciphertext.len());
            return Err(self.failure(reason));
        }
        if answer.ciphertext == secret {
            return Err(self.failure("it gives the data key back unsealed".to_owned()));
        }
        check_annotations(&answer.annotations).map_err(|reason| self.failure(reason))?;
        Ok(answer)
    }

    /// Lets the plugin open a data key.
    pub(super) async fn open(&mut self, request: DecryptRequest) -> Result<Vec<u8>, Failure> {
        let request = DecryptRequest { uid: call_id(), ..request };
        let call = self.grpc.decrypt(request);
        Ok(within(&self.config, "Decrypt", call).await?.plaintext)
    }
}

pub(super) fn failure(config: &PluginConfig, reason: String, is_absence: bool) -> Failure {
    let (plugin, endpoint) = (config.name.clone(), config.endpoint.clone());
    Failure { plugin, endpoint, reason, is_absence }
}

/// Awaits a call for as long as the configuration allows.
async fn within<T>(
    config: &PluginConfig,
    method: &str,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(config.timeout, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            let is_absence = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
            let cause = std::error::Error::source(&status).map(innermost);
            let text = cause.unwrap_or_else(|| status.message().to_owned());
            let reason = format!("{method} failed: {}: {}", status.code(), shown(&text));
            Err(failure(config, reason, is_absence))
        }
        Err(_) => {
            let reason = format!("{method} had no answer within {:?}", config.timeout);
            Err(failure(config, reason, true))
        }
    }
}

fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A plugin's text as a message may hold it.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_MAX).collect();
    format!("{start:?}")
}

/// Names a call in the plugin's log.
fn call_id() -> String {
    Uuid::new_v4().to_string()
}

fn check_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("the key id is empty".to_owned()),
        bytes if bytes > KEY_ID_BYTES_MAX => {
            Err(format!("the key id has {bytes} bytes, more than {KEY_ID_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}

fn check_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let bytes: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ANNOTATION_BYTES_MAX {
        return Err(format!("annotations have {bytes} bytes, more than {ANNOTATION_BYTES_MAX}"));
    }
    match annotations.keys().find(|name| !is_qualified_domain(name)) {
        Some(name) => Err(format!("the annotation {} is no fully qualified domain name", shown(name))),
        None => Ok(()),
    }
}

/// Whether `name` is a DNS name of two labels at least (RFC 1123); it may end with a dot.
fn is_qualified_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
        bytes.len() <= 63 && bytes.iter().all(is_inner) && is_end(bytes.first()) && is_end(bytes.last())
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

/// Connects to the socket at a path.
#[derive(Clone)]
struct Socket(PathBuf);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<TokioIo<UnixStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { Ok(TokioIo::new(UnixStream::connect(path).await?)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_domain_names_and_bounded() {
        let of = |name: &str, bytes: usize| BTreeMap::from([(name.to_owned(), vec![0; bytes])]);
        for name in ["a.b", "kms.example.com", "a-1.b2", "a.b."] {
            assert!(check_annotations(&of(name, 10)).is_ok(), "{name}");
        }
        for name in
            ["", "a", ".", "a..b", "A.b", "-a.b", "a-.b", "a_.b", "a.b/c", &format!("{}.b", "a".repeat(64))]
        {
            assert!(check_annotations(&of(name, 10)).is_err(), "{name}");
        }
        assert!(check_annotations(&of("a.b", ANNOTATION_BYTES_MAX - 3)).is_ok());
        assert!(check_annotations(&of("a.b", ANNOTATION_BYTES_MAX - 2)).is_err());
    }
}
