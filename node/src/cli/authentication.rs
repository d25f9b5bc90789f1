//! The flags of authentication by other servers and by configured issuers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;
use super::oidc::OidcArgs;

const AUTHENTICATION: &str = "Authentication by other servers";

/// The flags of authentication by other servers and by configured issuers.
#[derive(Clone, Debug, Default, Args)]
pub struct AuthenticationArgs {
    /// Issuers of tokens and their rules, and where anonymous requests are served: an AuthenticationConfiguration as of the
    /// reference. Its issuers are read again when it changes
    #[arg(long, value_name = "FILE", help_heading = AUTHENTICATION)]
    pub authentication_config: Option<PathBuf>,
    /// Client configuration of a token webhook: the server that is asked whose a bearer token is
    #[arg(long, value_name = "FILE", help_heading = AUTHENTICATION)]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// How long the token webhook's answers are remembered [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "authentication_token_webhook_config_file",
        help_heading = AUTHENTICATION)]
    pub authentication_token_webhook_cache_ttl: Option<Duration>,
    /// Version of the documents that the token webhook gets: v1 or v1beta1 [default: v1beta1]
    #[arg(long, value_name = "VERSION", value_parser = ["v1", "v1beta1"],
        requires = "authentication_token_webhook_config_file", help_heading = AUTHENTICATION)]
    pub authentication_token_webhook_version: Option<String>,
    /// A single issuer.
    #[command(flatten)]
    pub oidc: OidcArgs,
}
