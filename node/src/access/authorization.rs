//! The authorization configuration: which authorizers rule on a request, and in which order.
//!
//! Owns the file's form (`AuthorizationConfiguration`), its checks in the reference's words, and the webhooks that it
//! names. The same settings come from flags, which name one webhook at most.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orch_api::ambient::Ambient;
use orch_api::authz::modes::Mode;
use orch_api::authz::webhook::{ReviewVersion, Settings, Webhook};
use orch_api::authz::{Conditions, OnFailure};
use orch_api::egress::{ReviewHook, ReviewKind};
use orch_proto::Brand;
use serde::Deserialize;

use super::faults::{self, ConfigFileError, Faults};
use crate::cli::{AuthorizationMode, parse_duration};
use crate::egress::{TargetFile, read_target};

/// Webhook answers that allow count this long by default, as in the reference.
pub const AUTHORIZED_SPAN: Duration = Duration::from_secs(300);
/// Other answers count this long by default, as in the reference.
pub const UNAUTHORIZED_SPAN: Duration = Duration::from_secs(30);
/// Longest request to a webhook, and the default, as in the reference.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Conditions of one webhook, as in the reference.
const CONDITIONS_MAX: usize = 64;
/// Versions of the file.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    #[serde(default)]
    authorizers: Vec<FileAuthorizer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAuthorizer {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<FileWebhook>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileWebhook {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    #[serde(default = "yes")]
    cache_authorized_requests: bool,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    #[serde(default = "yes")]
    cache_unauthorized_requests: bool,
    timeout: Option<String>,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    connection_info: FileConnection,
    #[serde(default)]
    match_conditions: Vec<FileCondition>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConnection {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(rename = "kubeConfigFile")]
    config_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCondition {
    #[serde(default)]
    expression: String,
}

fn yes() -> bool {
    true
}

/// An authorizer of a valid configuration.
#[derive(Debug)]
pub enum Authorizer {
    /// One that needs no settings.
    Plain(AuthorizationMode),
    /// A webhook, with the client configuration that names its server.
    Webhook {
        /// When it is asked and what its answers count.
        settings: Settings,
        /// The client configuration.
        config: PathBuf,
        /// Longest request.
        timeout: Duration,
    },
}

/// Whether the node may allow every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// A node for development.
    Dev,
    /// A member of a cluster.
    Serve,
}

/// Reads the file of `--authorization-config`.
///
/// # Errors
/// It cannot be read, or fields are wrong.
pub fn read(path: &Path, strictness: Strictness) -> Result<Vec<Authorizer>, ConfigFileError> {
    let file = faults::read(path, "AuthorizationConfiguration", &VERSIONS)?;
    check(file, strictness).map_err(|faults| ConfigFileError::Fields { path: path.to_owned(), faults })
}

/// The authorizers for requests, with their servers.
///
/// # Errors
/// A client configuration cannot be used.
pub fn modes(
    authorizers: Vec<Authorizer>,
    brand: &Brand,
    ambient: &Arc<dyn Ambient>,
) -> Result<Vec<Mode>, ConfigFileError> {
    authorizers.into_iter().map(|authorizer| mode(authorizer, brand, ambient)).collect()
}

/// The files whose change means to read the configuration again.
pub fn files(authorizers: &[Authorizer]) -> Vec<PathBuf> {
    let of = |authorizer: &Authorizer| match authorizer {
        Authorizer::Plain(_) => None,
        Authorizer::Webhook { config, .. } => Some(config.clone()),
    };
    authorizers.iter().filter_map(of).collect()
}

fn mode(authorizer: Authorizer, brand: &Brand, ambient: &Arc<dyn Ambient>) -> Result<Mode, ConfigFileError> {
    Ok(match authorizer {
        Authorizer::Plain(AuthorizationMode::AlwaysAllow) => Mode::AlwaysAllow,
        Authorizer::Plain(AuthorizationMode::AlwaysDeny | AuthorizationMode::Webhook) => Mode::AlwaysDeny,
        Authorizer::Plain(AuthorizationMode::Node) => Mode::Node,
        Authorizer::Plain(AuthorizationMode::Rbac) => Mode::Rbac,
        Authorizer::Webhook { settings, config, timeout } => {
            let TargetFile { target, url } = read_target(&config)
                .map_err(|source| ConfigFileError::Target { path: config.clone(), source })?;
            let api_version = format!("{}/{}", brand.group("authorization"), settings.version.name());
            let kind = ReviewKind { kind: "SubjectAccessReview", api_version };
            let hook = ReviewHook::new(Arc::new(target), ambient.clone(), url, kind, timeout);
            Mode::Webhook(Box::new(Webhook::new(settings, hook, ambient.clone())))
        }
    })
}

fn check(file: File, strictness: Strictness) -> Result<Vec<Authorizer>, Faults> {
    let mut faults = Faults::default();
    if file.authorizers.is_empty() {
        faults.required("authorizers", "at least one authorization mode must be defined");
    }
    let mut authorizers = Vec::new();
    let (mut modes, mut names): (Vec<AuthorizationMode>, Vec<String>) = Default::default();
    for (at, entry) in file.authorizers.into_iter().enumerate() {
        let field = format!("authorizers[{at}]");
        let Some(mode) = mode_of(&entry.kind, &format!("{field}.type"), strictness, &mut faults) else {
            continue;
        };
        // few: there are five modes.
        if mode != AuthorizationMode::Webhook && modes.contains(&mode) {
            faults.duplicate(&format!("{field}.type"), &entry.kind);
            continue;
        }
        modes.push(mode);
        check_name(&entry.name, &names, &format!("{field}.name"), &mut faults);
        names.push(entry.name.clone());
        match (mode, entry.webhook) {
            (AuthorizationMode::Webhook, None) => {
                faults.required(&format!("{field}.webhook"), "required when type=Webhook");
            }
            (AuthorizationMode::Webhook, Some(webhook)) => {
                authorizers.extend(check_webhook(entry.name, webhook, &field, &mut faults));
            }
            (mode, None) => authorizers.push(Authorizer::Plain(mode)),
            (_, Some(_)) => {
                faults.invalid(
                    &format!("{field}.webhook"),
                    "non-null",
                    "may only be specified when type=Webhook",
                );
            }
        }
    }
    faults.or(authorizers)
}

fn mode_of(
    name: &str,
    field: &str,
    strictness: Strictness,
    faults: &mut Faults,
) -> Option<AuthorizationMode> {
    if name.is_empty() {
        faults.required(field, "");
        return None;
    }
    let mode = AuthorizationMode::named(name);
    match mode {
        None => faults.not_supported(field, name, &AuthorizationMode::ALL.map(AuthorizationMode::name)),
        Some(AuthorizationMode::AlwaysAllow) if strictness == Strictness::Serve => {
            faults.invalid(field, name, ALWAYS_ALLOW);
            return None;
        }
        Some(_) => {}
    }
    mode
}

/// Why a member of a cluster refuses the mode AlwaysAllow.
pub const ALWAYS_ALLOW: &str = "a member of a cluster never allows every request; the mode is for `orch dev`";

fn check_name(name: &str, seen: &[String], field: &str, faults: &mut Faults) {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.is_empty() {
        faults.required(field, "");
    // few: the authorizers of a file.
    } else if seen.iter().any(|seen| seen == name) {
        faults.duplicate(field, name);
    } else if name.len() > 253 || !name.split('.').all(is_label) {
        let detail = "authorizer name is invalid: a lowercase RFC 1123 subdomain must consist of lower case \
                      alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        faults.invalid(field, name, detail);
    }
}

fn check_webhook(name: String, webhook: FileWebhook, field: &str, faults: &mut Faults) -> Option<Authorizer> {
    let timeout = match &webhook.timeout {
        None => {
            faults.required(&format!("{field}.timeout"), "");
            TIMEOUT
        }
        Some(text) => span(text, &format!("{field}.timeout"), "must be > 0s and <= 30s", faults),
    };
    if timeout > TIMEOUT {
        let given = webhook.timeout.as_deref().unwrap_or_default();
        faults.invalid(&format!("{field}.timeout"), given, "must be > 0s and <= 30s");
    }
    let mut ttl = |text: &Option<String>, member: &str, default: Duration, is_used: bool| {
        let given = text.as_ref();
        let span = given.map(|text| span(text, &format!("{field}.{member}"), "must be > 0s", faults));
        if is_used { span.unwrap_or(default) } else { Duration::ZERO }
    };
    let authorized_span =
        ttl(&webhook.authorized_ttl, "authorizedTTL", AUTHORIZED_SPAN, webhook.cache_authorized_requests);
    let unauthorized_span = ttl(
        &webhook.unauthorized_ttl,
        "unauthorizedTTL",
        UNAUTHORIZED_SPAN,
        webhook.cache_unauthorized_requests,
    );
    let version = version(&webhook, field, faults);
    let on_failure = on_failure(&webhook.failure_policy, &format!("{field}.failurePolicy"), faults);
    let config = config(&webhook.connection_info, &format!("{field}.connectionInfo"), faults);
    let conditions = conditions(&webhook.match_conditions, &format!("{field}.matchConditions"), faults);
    let (version, on_failure, config) = (version?, on_failure?, config?);
    let settings = Settings { name, authorized_span, unauthorized_span, version, on_failure, conditions };
    Some(Authorizer::Webhook { settings, config, timeout })
}

/// A positive time; zero where the text is none, which is a fault.
fn span(text: &str, field: &str, rule: &str, faults: &mut Faults) -> Duration {
    match parse_duration(text) {
        Ok(span) if !span.is_zero() => return span,
        Ok(_) => faults.required(field, ""),
        Err(_) if text.starts_with('-') => faults.invalid(field, text, rule),
        Err(error) => faults.invalid(field, text, &error),
    }
    Duration::ZERO
}

fn version(webhook: &FileWebhook, field: &str, faults: &mut Faults) -> Option<ReviewVersion> {
    let of_conditions = &webhook.match_condition_subject_access_review_version;
    let member = format!("{field}.matchConditionSubjectAccessReviewVersion");
    match of_conditions.as_str() {
        "v1" => {}
        "" if webhook.match_conditions.is_empty() => {}
        "" => faults.required(&member, "required if match conditions are specified"),
        other => faults.not_supported(&member, other, &["v1"]),
    }
    let (name, member) =
        (&webhook.subject_access_review_version, format!("{field}.subjectAccessReviewVersion"));
    let version = ReviewVersion::named(name);
    match (name.as_str(), version) {
        ("", _) => faults.required(&member, ""),
        (other, None) => faults.not_supported(&member, other, &["v1", "v1beta1"]),
        (_, Some(_)) => {}
    }
    version
}

fn on_failure(name: &str, field: &str, faults: &mut Faults) -> Option<OnFailure> {
    match name {
        "NoOpinion" => return Some(OnFailure::NoOpinion),
        "Deny" => return Some(OnFailure::Deny),
        "" => faults.required(field, ""),
        other => faults.not_supported(field, other, &["NoOpinion", "Deny"]),
    }
    None
}

fn config(connection: &FileConnection, field: &str, faults: &mut Faults) -> Option<PathBuf> {
    let member = format!("{field}.kubeConfigFile");
    match (connection.kind.as_str(), &connection.config_file) {
        ("KubeConfigFile", Some(path)) if !path.as_os_str().is_empty() => {
            let shown = path.display().to_string();
            if !path.is_absolute() {
                faults.invalid(&member, &shown, "must be an absolute path");
                return None;
            }
            match std::fs::metadata(path) {
                Err(error) => faults.invalid(&member, &shown, &format!("error loading file: {error}")),
                Ok(facts) if !facts.is_file() => faults.invalid(&member, &shown, "must be a regular file"),
                Ok(_) => return Some(path.clone()),
            }
        }
        ("KubeConfigFile", _) => faults.required(&member, ""),
        ("InClusterConfig", _) => {
            faults.invalid(
                &format!("{field}.type"),
                "InClusterConfig",
                "this server does not run in a cluster",
            );
        }
        ("", _) => faults.required(&format!("{field}.type"), ""),
        (other, _) => faults.not_supported(&format!("{field}.type"), other, &["KubeConfigFile"]),
    }
    None
}

fn conditions(conditions: &[FileCondition], field: &str, faults: &mut Faults) -> Conditions {
    if conditions.len() > CONDITIONS_MAX {
        faults.too_many(field, conditions.len(), CONDITIONS_MAX);
        return Conditions::default();
    }
    let mut compiled: Vec<orch_api::expression::Expression> = Vec::new();
    for (at, FileCondition { expression }) in conditions.iter().enumerate() {
        let field = format!("{field}[{at}].expression");
        if expression.trim().is_empty() {
            faults.required(&field, "");
            continue;
        }
        // few: at most `CONDITIONS_MAX`.
        if compiled.iter().any(|seen| seen.source() == expression) {
            faults.duplicate(&field, expression);
            continue;
        }
        match Conditions::compile(expression) {
            Ok(condition) => compiled.push(condition),
            Err(error) => faults.invalid(&field, expression, &error.to_string()),
        }
    }
    Conditions::new(compiled)
}

#[cfg(test)]
mod tests;
