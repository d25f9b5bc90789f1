//! Encryption at rest of a node: its keys, their reload, and the rewrite of records while it runs.
//!
//!     GET    /orch/v1/cluster/encryption/rewrite    the last rewrite of this member
//!     POST   /orch/v1/cluster/encryption/rewrite    starts one, unless one runs; answers as GET
//!
//! Both are about the member that is asked: each has a disk and keys of its own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use orch_api::http::{Api as ResourceApi, Scope};
use orch_raft::Store;
use orch_raft::disk::rocks::RocksDisk;
use orch_serving::Causes;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::cluster::json;
use super::error::RunError;
use crate::cli::EncryptionArgs;
use crate::encryption::{Keyring, Reload, Rewriter, View};

/// Name of the health check of KMS plugins: the reference's.
const KMS_CHECK: &str = "kms-providers";

/// Interval of looks at the file. The reference looks every minute; SIGHUP looks at once.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Path of the rewrite.
pub(super) const REWRITE_PATH: &str = "/orch/v1/cluster/encryption/rewrite";

/// Loads the keys of `--encryption-provider-config`.
pub(super) fn keys(arguments: &EncryptionArgs) -> Result<Option<Arc<Keyring>>, RunError> {
    let Some(path) = &arguments.encryption_provider_config else {
        if arguments.encryption_provider_config_automatic_reload {
            let reason =
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config";
            return Err(RunError::Flags(reason.to_owned()));
        }
        return Ok(None);
    };
    let loaded = Keyring::load(path);
    let loaded = loaded.map_err(|source| RunError::Encryption { path: path.clone(), source })?;
    Ok(Some(Arc::new(loaded)))
}

/// `api` with the health check of KMS plugins where `keys` have some or, as in the reference, may get some by a reload.
pub(crate) fn with_kms_check<S: Store>(
    api: ResourceApi<S>,
    keys: Option<&Arc<Keyring>>,
    reloads_keys: bool,
) -> ResourceApi<S> {
    match keys.filter(|keys| keys.has_plugins() || reloads_keys) {
        Some(keys) => {
            let keys = Arc::clone(keys);
            api.with_check(KMS_CHECK, Scope::Readiness, move || keys.plugins_are_healthy())
        }
        None => api,
    }
}

/// Starts the task that takes up a changed configuration, until `stop`.
pub(super) fn follow_keys(keys: Arc<Keyring>, disk: Weak<RocksDisk>, stop: CancellationToken) {
    tokio::spawn(async move {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                tracing::warn!(%error, "a changed encryption configuration is not taken up by itself");
                return;
            }
        };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = hangup.recv() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let (keys, disk) = (Arc::clone(&keys), disk.clone());
            // It reads a file and waits for plugins.
            let reloaded = spawn_blocking(move || {
                keys.reload(|| disk.upgrade().map(|disk| disk.needed_keys()).unwrap_or_default())
            });
            match reloaded.await {
                Ok(Ok(Reload::Unchanged)) => {}
                Ok(Ok(Reload::Taken)) => tracing::info!("encryption configuration reloaded"),
                Ok(Err(error)) => {
                    let error = Causes(&error);
                    tracing::warn!(%error, "encryption configuration not reloaded, the old keys stay in use");
                }
                Err(error) => {
                    tracing::error!(%error, "the reload of the encryption configuration ended badly")
                }
            }
        }
    });
}

/// The rewrite of this member's records.
#[derive(Serialize)]
struct RewriteView {
    /// This member.
    member: String,
    #[serde(flatten)]
    rewrite: View,
}

/// Arguments of the handlers.
#[derive(Clone)]
struct Rewrites {
    member: String,
    rewriter: Arc<Rewriter>,
}

/// The paths of the rewrite, to be put behind the gate.
pub(super) fn router(member: &str, rewriter: Arc<Rewriter>) -> Router {
    let state = Rewrites { member: member.to_owned(), rewriter };
    Router::new().route(REWRITE_PATH, get(show).post(start)).with_state(state)
}

async fn show(State(rewrites): State<Rewrites>) -> Response {
    let view = RewriteView { member: rewrites.member, rewrite: rewrites.rewriter.view() };
    json(StatusCode::OK, &view)
}

async fn start(State(rewrites): State<Rewrites>) -> Response {
    rewrites.rewriter.start();
    show(State(rewrites)).await
}
