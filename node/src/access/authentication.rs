//! The token webhook of the flags.
//!
//! Owns its settings, and the object of `orch_api` that is made of them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orch_api::ambient::Ambient;
use orch_api::authn::webhook::TokenWebhook;
use orch_api::egress::{ReviewHook, ReviewKind};
use orch_proto::Brand;

use super::ConfigFileError;
use crate::egress::{TargetFile, read_target};

/// Answers of the token webhook count this long by default, as in the reference.
pub const TOKEN_SPAN: Duration = Duration::from_secs(120);
/// Longest request to the token webhook, as in the reference.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The token webhook of the flags.
#[derive(Clone, Debug)]
pub struct TokenWebhookPlan {
    /// The client configuration that names its server.
    pub config: PathBuf,
    /// How long answers count.
    pub span: Duration,
    /// Version of the documents.
    pub version: String,
}

impl TokenWebhookPlan {
    /// The webhook for tokens that are meant for `audiences`.
    ///
    /// # Errors
    /// The client configuration cannot be used.
    pub fn webhook(
        &self,
        brand: &Brand,
        audiences: Vec<String>,
        ambient: Arc<dyn Ambient>,
    ) -> Result<TokenWebhook, ConfigFileError> {
        let TargetFile { target, url } = read_target(&self.config)
            .map_err(|source| ConfigFileError::Target { path: self.config.clone(), source })?;
        let api_version = format!("{}/{}", brand.group("authentication"), self.version);
        let kind = ReviewKind { kind: "TokenReview", api_version };
        let hook = ReviewHook::new(Arc::new(target), ambient, url, kind, TIMEOUT);
        Ok(TokenWebhook::new(hook, audiences, self.span))
    }
}
