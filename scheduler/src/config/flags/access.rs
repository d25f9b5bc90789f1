//! Flags of authentication and authorization of the HTTPS port.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use orch_schema::SignedDuration;

use super::value::{List, boolean, list, path, span};

const AUTHENTICATION: &str = "Authentication: who asks";
const AUTHORIZATION: &str = "Authorization: who may ask for what";

/// Flags of authentication.
#[derive(Clone, Debug, Args)]
pub struct AuthenticationFlags {
    /// Client configuration file of a server that reviews bearer tokens; its user may create
    /// tokenreviews.authentication.{domain}. Without it tokens identify nobody, and no client CA is looked up
    #[arg(long = "authentication-{brand}config", value_name = "FILE", value_parser = path, allow_hyphen_values = true,
        help_heading = AUTHENTICATION)]
    pub authentication_client_config: Option<PathBuf>,
    /// Do not look up missing client CAs in the cluster
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", value_parser = boolean, action = ArgAction::Set, help_heading = AUTHENTICATION)]
    pub authentication_skip_lookup: bool,
    /// How long an answer about a token is kept
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span, allow_hyphen_values = true,
        help_heading = AUTHENTICATION)]
    pub authentication_token_webhook_cache_ttl: SignedDuration,
    /// Start although client CAs cannot be looked up in the cluster. Requests may then all count as anonymous
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", value_parser = boolean, action = ArgAction::Set, help_heading = AUTHENTICATION)]
    pub authentication_tolerate_lookup_failure: bool,
    /// Authorities whose client certificates identify users: common name = user, organizations = groups
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = AUTHENTICATION)]
    pub client_ca_file: Option<PathBuf>,
    /// Authorities of front proxies, whose requests name their user in headers
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = AUTHENTICATION)]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of front proxies [default: any that --requestheader-client-ca-file vouches for]
    #[arg(long, value_name = "NAMES", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        help_heading = AUTHENTICATION)]
    pub requestheader_allowed_names: Vec<List>,
    /// Headers of the user's name
    #[arg(long, value_name = "HEADERS", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        default_value = "x-remote-user", help_heading = AUTHENTICATION)]
    pub requestheader_username_headers: Vec<List>,
    /// Headers of the user's groups
    #[arg(long, value_name = "HEADERS", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        default_value = "x-remote-group", help_heading = AUTHENTICATION)]
    pub requestheader_group_headers: Vec<List>,
    /// Prefixes of headers with more about the user
    #[arg(long, value_name = "PREFIXES", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        default_value = "x-remote-extra-", help_heading = AUTHENTICATION)]
    pub requestheader_extra_headers_prefix: Vec<List>,
}

/// Flags of authorization.
#[derive(Clone, Debug, Args)]
pub struct AuthorizationFlags {
    /// Client configuration file of a server that decides; its user may create
    /// subjectaccessreviews.authorization.{domain}. Without it everything is forbidden but the paths below
    #[arg(long = "authorization-{brand}config", value_name = "FILE", value_parser = path, allow_hyphen_values = true,
        help_heading = AUTHORIZATION)]
    pub authorization_client_config: Option<PathBuf>,
    /// Paths that everybody may read; a * at the end stands for any rest
    #[arg(long, value_name = "PATHS", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        default_value = "/healthz,/readyz,/livez", help_heading = AUTHORIZATION)]
    pub authorization_always_allow_paths: Vec<List>,
    /// How long a permission is kept
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span, allow_hyphen_values = true,
        help_heading = AUTHORIZATION)]
    pub authorization_webhook_cache_authorized_ttl: SignedDuration,
    /// How long a refusal is kept
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span, allow_hyphen_values = true,
        help_heading = AUTHORIZATION)]
    pub authorization_webhook_cache_unauthorized_ttl: SignedDuration,
}
