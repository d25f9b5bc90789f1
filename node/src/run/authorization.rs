//! The authorizers of a node, from its flags or its file, and their reload.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orch_api::ambient::{Ambient, SystemAmbient};
use orch_api::authz::modes::{Mode, default_modes};
use orch_api::authz::webhook::{ReviewVersion, Settings};
use orch_api::authz::{Conditions, OnFailure};
use orch_api::gate::Gate;
use orch_proto::Brand;
use orch_serving::Causes;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use crate::access::authorization::{
    ALWAYS_ALLOW, AUTHORIZED_SPAN, Authorizer, Strictness, TIMEOUT, UNAUTHORIZED_SPAN, files, modes, read,
};
use crate::access::{ConfigFileError, follow};
use crate::cli::{AuthorizationArgs, AuthorizationMode};

/// The authorizers of a node.
#[derive(Clone, Debug)]
pub struct AuthorizationPlan {
    source: Source,
    strictness: Strictness,
}

#[derive(Clone, Debug)]
enum Source {
    /// Node and RBAC.
    Default,
    /// `--authorization-mode` and the flags of its webhook.
    Flags(Vec<AuthorizationMode>, Option<WebhookFlags>),
    /// `--authorization-config`.
    File(PathBuf),
}

/// The flags of the mode Webhook, with their defaults.
#[derive(Clone, Debug)]
struct WebhookFlags {
    config: PathBuf,
    authorized_span: Duration,
    unauthorized_span: Duration,
    version: ReviewVersion,
}

/// Resolves the flags. Files are read once, so that a fault is told before a port is opened.
pub(super) fn plan(
    arguments: &AuthorizationArgs,
    strictness: Strictness,
    brand: &Brand,
) -> Result<AuthorizationPlan, RunError> {
    let source = source(arguments, strictness).map_err(RunError::Flags)?;
    let plan = AuthorizationPlan { source, strictness };
    plan.modes(brand).map_err(|source| RunError::Access { flag: plan.flag(), source })?;
    Ok(plan)
}

fn source(arguments: &AuthorizationArgs, strictness: Strictness) -> Result<Source, String> {
    if let Some(path) = &arguments.authorization_config {
        if arguments.authorization_mode.is_some() || arguments.has_webhook() {
            let reason = "--authorization-config can not be specified when --authorization-mode or \
                          --authorization-webhook-* flags are defined";
            return Err(reason.to_owned());
        }
        return Ok(Source::File(path.clone()));
    }
    let given = arguments.authorization_mode.as_ref().map(|modes| modes.0.clone());
    let has = |mode| given.as_ref().is_some_and(|modes| modes.contains(&mode));
    if has(AuthorizationMode::AlwaysAllow) && strictness == Strictness::Serve {
        return Err(format!("--authorization-mode AlwaysAllow: {ALWAYS_ALLOW}"));
    }
    match (has(AuthorizationMode::Webhook), &arguments.authorization_webhook_config_file) {
        (true, None) => Err("authorization-mode Webhook's authorization config file not passed".to_owned()),
        (false, Some(_)) => {
            Err("cannot specify --authorization-webhook-config-file without mode Webhook".to_owned())
        }
        (false, None) if arguments.has_webhook() => {
            Err("cannot specify --authorization-webhook-* flags without mode Webhook".to_owned())
        }
        (_, config) => Ok(match given {
            None => Source::Default,
            Some(modes) => {
                Source::Flags(modes, config.clone().map(|config| webhook_flags(arguments, config)))
            }
        }),
    }
}

fn webhook_flags(arguments: &AuthorizationArgs, config: PathBuf) -> WebhookFlags {
    let version = arguments.authorization_webhook_version.as_deref().and_then(ReviewVersion::named);
    WebhookFlags {
        config,
        authorized_span: arguments.authorization_webhook_cache_authorized_ttl.unwrap_or(AUTHORIZED_SPAN),
        unauthorized_span: arguments
            .authorization_webhook_cache_unauthorized_ttl
            .unwrap_or(UNAUTHORIZED_SPAN),
        version: version.unwrap_or(ReviewVersion::V1Beta1),
    }
}

impl AuthorizationPlan {
    /// The client configurations of its webhooks, as its file has them now.
    pub(super) fn webhooks(&self) -> Result<Vec<PathBuf>, ConfigFileError> {
        Ok(match &self.source {
            Source::Default => Vec::new(),
            Source::Flags(_, webhook) => webhook.iter().map(|flags| flags.config.clone()).collect(),
            Source::File(path) => files(&read(path, self.strictness)?),
        })
    }

    /// The file that names its webhooks; `None` where flags do.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Default | Source::Flags(..) => None,
        }
    }

    fn flag(&self) -> &'static str {
        match self.source {
            Source::File(_) => "authorization-config",
            Source::Default | Source::Flags(..) => "authorization-webhook-config-file",
        }
    }

    /// The authorizers in their order, with the files that they were read from.
    fn modes(&self, brand: &Brand) -> Result<(Vec<Mode>, Vec<PathBuf>), ConfigFileError> {
        let (authorizers, file) = match &self.source {
            Source::Default => return Ok((default_modes(), Vec::new())),
            Source::Flags(modes, webhook) => (of_flags(modes, webhook.as_ref()), None),
            Source::File(path) => (read(path, self.strictness)?, Some(path.clone())),
        };
        let named = file.into_iter().chain(files(&authorizers)).collect();
        let ambient: Arc<dyn Ambient> = Arc::new(SystemAmbient);
        Ok((modes(authorizers, brand, &ambient)?, named))
    }
}

fn of_flags(modes: &[AuthorizationMode], webhook: Option<&WebhookFlags>) -> Vec<Authorizer> {
    let authorizer = |mode: &AuthorizationMode| match (mode, webhook) {
        (AuthorizationMode::Webhook, Some(flags)) => Authorizer::Webhook {
            settings: Settings {
                name: "webhook".to_owned(),
                authorized_span: flags.authorized_span,
                unauthorized_span: flags.unauthorized_span,
                version: flags.version,
                on_failure: OnFailure::NoOpinion,
                conditions: Conditions::default(),
            },
            config: flags.config.clone(),
            timeout: TIMEOUT,
        },
        (mode, _) => Authorizer::Plain(*mode),
    };
    modes.iter().map(authorizer).collect()
}

/// Lets the authorizers of `plan` rule at `gate`, and follows their files until `stopped`.
pub(super) fn start(
    plan: &AuthorizationPlan,
    brand: &'static Brand,
    gate: &Arc<Gate>,
    stopped: CancellationToken,
) -> Result<(), RunError> {
    let flag = plan.flag();
    let (modes, named) = plan.modes(brand).map_err(|source| RunError::Access { flag, source })?;
    gate.authorizers().replace(modes);
    if named.is_empty() {
        return Ok(());
    }
    let (plan, gate) = (plan.clone(), gate.clone());
    let reload = move || {
        let (modes, named) = plan.modes(brand)?;
        gate.authorizers().replace(modes);
        Ok::<_, ConfigFileError>(named)
    };
    tokio::spawn(async move {
        if let Err(error) = follow("authorization", named, reload, stopped).await {
            tracing::error!(error = %Causes(&error), "the authorization configuration is not followed");
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::AuthorizationModes;

    fn source_of(
        mode: Option<&str>,
        config: Option<&str>,
        webhook: Option<&str>,
        serve: Strictness,
    ) -> String {
        let arguments = AuthorizationArgs {
            authorization_mode: mode.map(|mode| mode.parse::<AuthorizationModes>().unwrap()),
            authorization_config: config.map(PathBuf::from),
            authorization_webhook_config_file: webhook.map(PathBuf::from),
            ..AuthorizationArgs::default()
        };
        match source(&arguments, serve) {
            Ok(Source::Default) => "default".to_owned(),
            Ok(Source::Flags(modes, _)) => modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(","),
            Ok(Source::File(_)) => "file".to_owned(),
            Err(error) => error,
        }
    }

    #[test]
    fn flags_that_go_together_are_taken_and_others_refused() {
        use Strictness::{Dev, Serve};
        for (mode, config, webhook, strictness, expected) in [
            (None, None, None, Serve, "default"),
            (Some("RBAC,Node"), None, None, Serve, "RBAC,Node"),
            (Some("AlwaysAllow"), None, None, Dev, "AlwaysAllow"),
            (
                Some("AlwaysAllow"),
                None,
                None,
                Serve,
                "--authorization-mode AlwaysAllow: a member of a cluster",
            ),
            (Some("Webhook,RBAC"), None, Some("/c"), Serve, "Webhook,RBAC"),
            (
                Some("Webhook"),
                None,
                None,
                Serve,
                "authorization-mode Webhook's authorization config file not passed",
            ),
            (
                Some("RBAC"),
                None,
                Some("/c"),
                Serve,
                "cannot specify --authorization-webhook-config-file without",
            ),
            (None, None, Some("/c"), Serve, "cannot specify --authorization-webhook-config-file without"),
            (None, Some("/f"), None, Serve, "file"),
            (Some("RBAC"), Some("/f"), None, Serve, "--authorization-config can not be specified when"),
            (None, Some("/f"), Some("/c"), Serve, "--authorization-config can not be specified when"),
        ] {
            let found = source_of(mode, config, webhook, strictness);
            assert!(found.starts_with(expected), "{mode:?} {config:?} {webhook:?}: {found}");
        }
    }

    #[test]
    fn modes_are_known_names_each_once() {
        for (text, told) in [
            ("", "at least one authorization-mode must be passed"),
            (
                "ABAC",
                "authorization-mode \"ABAC\" is not a valid mode; the modes are AlwaysAllow, AlwaysDeny, Node, RBAC, \
                 Webhook",
            ),
            ("RBAC,RBAC", "authorization-mode \"RBAC\" has mode specified more than once"),
        ] {
            assert_eq!(text.parse::<AuthorizationModes>().unwrap_err(), told);
        }
    }
}
