//! Reads `--token-auth-file` again when it changes. A file that does not parse leaves the tokens as they were.

use std::path::PathBuf;

use orch_api::authn::LiveTokens;
use orch_serving::stamps;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::plan::read_tokens;

/// Starts the task that replaces `tokens` when `path` changes, until `stopped`.
pub(super) fn follow(path: Option<PathBuf>, tokens: LiveTokens, stopped: CancellationToken) {
    let Some(path) = path else { return };
    let files = vec![path.clone()];
    let reload = move || -> Result<(), RunError> {
        tokens.replace(read_tokens(&path)?);
        Ok(())
    };
    tokio::spawn(async move {
        if let Err(error) = stamps::follow("token file", files, reload, stopped).await {
            tracing::warn!(%error, "changes of the token file are not taken up by themselves");
        }
    });
}
