//! Flags of service account tokens and bootstrap tokens.
//!
//! Owns their names and defaults, which are the reference's.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::duration::parse_duration;

const SERVICE_ACCOUNTS: &str = "Tokens";

/// Flags of service account tokens and bootstrap tokens.
#[derive(Clone, Debug, Args)]
pub struct ServiceAccountArgs {
    /// Issuer of service account tokens, an https URL; repeat to accept tokens of further ones, the first makes them
    #[arg(long, value_name = "URL", value_delimiter = ',', default_value = orch_proto::brand::API_AUDIENCE,
        help_heading = SERVICE_ACCOUNTS)]
    pub service_account_issuer: Vec<String>,
    /// Private key that signs service account tokens, PEM: RSA, P-256 or P-384. The same on every member [default: the one
    /// of the data or certificate directory, service-account.key]
    #[arg(long, value_name = "FILE", help_heading = SERVICE_ACCOUNTS)]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Public or private keys, or certificates, that verify service account tokens besides the signing key; repeat for
    /// several
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = SERVICE_ACCOUNTS)]
    pub service_account_key_file: Vec<PathBuf>,
    /// Audiences of this server; repeat for several [default: the issuer]
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',', help_heading = SERVICE_ACCOUNTS)]
    pub api_audiences: Vec<String>,
    /// Longest life of a requested token, one hour at least; 0 sets no limit
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration, help_heading = SERVICE_ACCOUNTS)]
    pub service_account_max_token_expiration: Duration,
    /// URL of the key set in the discovery document, where verifiers reach another address than this node's
    #[arg(long, value_name = "URL", help_heading = SERVICE_ACCOUNTS)]
    pub service_account_jwks_uri: Option<String>,
    /// Let the tokens that pods mount stay valid for a year, for programs that read theirs once
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = ArgAction::Set, help_heading = SERVICE_ACCOUNTS)]
    pub service_account_extend_token_expiration: bool,
    /// Authority that pods get to verify this server with, in a config map of each namespace [default: the cluster's own]
    #[arg(long, value_name = "FILE", help_heading = SERVICE_ACCOUNTS)]
    pub root_ca_file: Option<PathBuf>,
    /// Accept the tokens in secrets of the type bootstrap token, with which nodes join
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", action = ArgAction::Set, help_heading = SERVICE_ACCOUNTS)]
    pub enable_bootstrap_token_auth: bool,
}
