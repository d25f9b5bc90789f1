//! The credentials that a target is shown besides a client certificate.
//!
//! Owns the `Authorization` header. A token's file is read for each request, since such files are rewritten while the
//! token in them still is valid. Nothing here shows a token.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use orch_api::egress::EgressError;
use orch_serving::files::{TOKEN_BYTES_MAX, read_secret};

/// The `Authorization` header of a target's requests.
#[derive(Clone, Default)]
pub enum Credentials {
    /// None is sent.
    #[default]
    None,
    /// The same for every request.
    Fixed(HeaderValue),
    /// A bearer token in a file.
    TokenFile(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Fixed(_) => "Fixed",
            Credentials::TokenFile(_) => "TokenFile",
        })
    }
}

impl Credentials {
    /// A bearer token; `None` if it cannot be sent.
    pub(super) fn bearer(token: &str) -> Option<Credentials> {
        secret(format!("Bearer {}", token.trim())).map(Credentials::Fixed)
    }

    /// A name and a password; `None` if they cannot be sent.
    pub(super) fn basic(name: &str, password: &str) -> Option<Credentials> {
        let encoded = STANDARD.encode(format!("{name}:{password}"));
        secret(format!("Basic {encoded}")).map(Credentials::Fixed)
    }

    /// The header for a request to `host`.
    pub(super) async fn header(&self, host: &str) -> Result<Option<HeaderValue>, EgressError> {
        match self {
            Credentials::None => Ok(None),
            Credentials::Fixed(value) => Ok(Some(value.clone())),
            Credentials::TokenFile(path) => {
                let unusable = |reason: String| EgressError::Unreachable { host: host.to_owned(), reason };
                let token = read_secret(path, TOKEN_BYTES_MAX).await;
                let token =
                    token.map_err(|error| unusable(format!("cannot read {}: {error}", path.display())))?;
                let value = secret(format!("Bearer {}", token.expose().trim()));
                value.map(Some).ok_or_else(|| unusable(format!("{} holds no token", path.display())))
            }
        }
    }
}

fn secret(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
