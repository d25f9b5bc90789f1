//! The methods of authentication that ask other servers, from the flags of a node.

use std::path::PathBuf;
use std::sync::Arc;

use orch_api::ambient::SystemAmbient;
use orch_api::authn::Authenticator;
use orch_api::authn::jwt::Issuers;
use orch_api::authn::service_account::Settings;
use orch_proto::Brand;
use orch_proto::brand::API_AUDIENCE;
use orch_serving::Causes;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use crate::access::authentication::{TOKEN_SPAN, TokenWebhookPlan};
use crate::access::issuers::{Anonymous, of_flags, read};
use crate::access::{ConfigFileError, Faults, follow};
use crate::cli::{OidcArgs, SharedArgs};

const CONFIG: &str = "authentication-config";
const WEBHOOK: &str = "authentication-token-webhook-config-file";

/// The methods of authentication that ask other servers.
#[derive(Clone, Debug, Default)]
pub struct AuthenticationPlan {
    webhook: Option<TokenWebhookPlan>,
    /// The file of `--authentication-config`.
    config: Option<PathBuf>,
    /// The single issuer of flags, with the authorities of its file.
    oidc: Option<(OidcArgs, Option<String>)>,
    anonymous: Anonymous,
}

/// Resolves the flags. Files are read once, so that a fault is told before a port is opened.
pub(super) fn plan(shared: &SharedArgs, brand: &Brand) -> Result<AuthenticationPlan, RunError> {
    let arguments = &shared.authentication;
    let webhook = arguments.authentication_token_webhook_config_file.clone().map(|config| TokenWebhookPlan {
        config,
        span: arguments.authentication_token_webhook_cache_ttl.unwrap_or(TOKEN_SPAN),
        version: arguments
            .authentication_token_webhook_version
            .clone()
            .unwrap_or_else(|| "v1beta1".to_owned()),
    });
    if let Some(webhook) = &webhook {
        let made = webhook.webhook(brand, vec![API_AUDIENCE.to_owned()], Arc::new(SystemAmbient));
        made.map_err(|source| RunError::Access { flag: WEBHOOK, source })?;
    }
    let config = arguments.authentication_config.clone();
    let anonymous = match &config {
        None => Anonymous::Unsaid,
        // The issuers of this server's own tokens are known when it starts, and held against the file then.
        Some(path) => read(path, &[]).map_err(|source| RunError::Access { flag: CONFIG, source })?.anonymous,
    };
    if anonymous != Anonymous::Unsaid && shared.anonymous_auth.is_some() {
        let reason = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication \
                      configuration file";
        return Err(RunError::Flags(reason.to_owned()));
    }
    let oidc = oidc(&arguments.oidc)?;
    Ok(AuthenticationPlan { webhook, config, oidc, anonymous })
}

/// The issuer that flags describe, checked.
fn oidc(flags: &OidcArgs) -> Result<Option<(OidcArgs, Option<String>)>, RunError> {
    let authority = match &flags.oidc_ca_file {
        None => None,
        Some(path) => Some(std::fs::read_to_string(path).map_err(|source| {
            let (flag, path) = ("oidc-ca-file", path.clone());
            RunError::File { flag, path, source }
        })?),
    };
    let made = of_flags(flags, authority.clone(), &[]).map_err(faulty)?;
    Ok(made.map(|_| (flags.clone(), authority)))
}

fn faulty(faults: Faults) -> RunError {
    let text = faults.to_string();
    // The flags become members of a configuration, whose faults are told by their paths.
    let members = [
        ("certificateAuthority", "oidc-ca-file"),
        ("audiences", "oidc-client-id"),
        ("claimMappings.username", "oidc-username-claim"),
        ("claimMappings.groups", "oidc-groups-claim"),
        ("claimValidationRules", "oidc-required-claim"),
    ];
    let flag = members.into_iter().find(|(member, _)| text.contains(member));
    let flag = flag.map_or("oidc-issuer-url", |(_, flag)| flag);
    RunError::Flags(format!("--{flag}: {text}"))
}

/// `authenticator` with the methods of `plan` behind its own. `own`: the settings of this server's own tokens. Files are read
/// again when they change, and keys of issuers when they are old, until `stopped`.
pub(super) fn extend(
    authenticator: Authenticator,
    plan: &AuthenticationPlan,
    brand: &Brand,
    own: &Settings,
    stopped: &CancellationToken,
) -> Result<Authenticator, RunError> {
    let mut authenticator = match &plan.anonymous {
        Anonymous::Unsaid | Anonymous::Refused => authenticator,
        Anonymous::Everywhere => authenticator.with_anonymous(None),
        Anonymous::At(paths) => authenticator.with_anonymous(Some(paths)),
    };
    if let Some(path) = &plan.config {
        let own_issuers = own.issuers.clone();
        let read = read(path, &own_issuers).map_err(|source| RunError::Access { flag: CONFIG, source })?;
        let issuers = Arc::new(Issuers::new(read.issuers, Arc::new(SystemAmbient)));
        follow_file(&issuers, path.clone(), plan.anonymous.clone(), own_issuers, stopped);
        authenticator = authenticator.with_remote(Box::new(issuers));
    }
    if let Some((flags, authority)) = &plan.oidc
        && let Some(made) = of_flags(flags, authority.clone(), &own.issuers).map_err(faulty)?
    {
        let issuers = Arc::new(Issuers::new(made.issuers, Arc::new(SystemAmbient)));
        keep_keys(&issuers, stopped);
        authenticator = authenticator.with_remote(Box::new(issuers));
    }
    if let Some(webhook) = &plan.webhook {
        let webhook = webhook.webhook(brand, own.audiences.clone(), Arc::new(SystemAmbient));
        let webhook = webhook.map_err(|source| RunError::Access { flag: WEBHOOK, source })?;
        authenticator = authenticator.with_remote(Box::new(webhook));
    }
    Ok(authenticator)
}

/// Starts the task that fetches the keys of `issuers`, and again when they are old, until `stopped`.
fn keep_keys(issuers: &Arc<Issuers>, stopped: &CancellationToken) {
    let (kept, until) = (issuers.clone(), stopped.clone());
    tokio::spawn(async move { until.run_until_cancelled(kept.keep_keys()).await });
}

/// [`keep_keys`], with the issuers replaced when the file at `path` changes.
fn follow_file(
    issuers: &Arc<Issuers>,
    path: PathBuf,
    anonymous: Anonymous,
    own: Vec<String>,
    stopped: &CancellationToken,
) {
    keep_keys(issuers, stopped);
    let (replaced, until) = (issuers.clone(), stopped.clone());
    let files = vec![path.clone()];
    let reload = move || {
        let read = read(&path, &own)?;
        if read.anonymous != anonymous {
            tracing::warn!("a change of `anonymous` in the authentication configuration needs a restart");
        }
        replaced.replace(read.issuers);
        Ok::<_, ConfigFileError>(vec![path.clone()])
    };
    tokio::spawn(async move {
        if let Err(error) = follow("authentication", files, reload, until).await {
            tracing::error!(error = %Causes(&error), "the authentication configuration is not followed");
        }
    });
}
