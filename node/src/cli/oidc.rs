//! The flags of a single issuer of tokens, for those who need no configuration file.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

const ISSUER: &str = "Authentication by an issuer";

/// The flags of a single issuer.
#[derive(Clone, Debug, Default, Args)]
pub struct OidcArgs {
    /// URL of an OpenID issuer whose tokens are accepted; more than one need --authentication-config
    #[arg(long, value_name = "URL", requires = "oidc_client_id", conflicts_with = "authentication_config",
        help_heading = ISSUER)]
    pub oidc_issuer_url: Option<String>,
    /// The audience that its tokens must be meant for
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url", help_heading = ISSUER)]
    pub oidc_client_id: Option<String>,
    /// Authorities of the issuer's certificate [default: those of this machine]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url", help_heading = ISSUER)]
    pub oidc_ca_file: Option<PathBuf>,
    /// The claim that is the user's name [default: sub]
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url", help_heading = ISSUER)]
    pub oidc_username_claim: Option<String>,
    /// Prefix of names; `-` for none [default: none for the claim email, else the issuer's URL and #]
    #[arg(long, value_name = "TEXT", requires = "oidc_issuer_url", allow_hyphen_values = true, help_heading = ISSUER)]
    pub oidc_username_prefix: Option<String>,
    /// The claim that holds the user's groups
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url", help_heading = ISSUER)]
    pub oidc_groups_claim: Option<String>,
    /// Prefix of groups
    #[arg(long, value_name = "TEXT", requires = "oidc_groups_claim", help_heading = ISSUER)]
    pub oidc_groups_prefix: Option<String>,
    /// Claims that must have these values
    #[arg(long, value_name = "CLAIM=VALUE,...", requires = "oidc_issuer_url", help_heading = ISSUER)]
    pub oidc_required_claim: Option<RequiredClaims>,
}

/// Claims with the values that they must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredClaims(pub Vec<(String, String)>);

impl FromStr for RequiredClaims {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let claim = |entry: &str| {
            let (name, value) =
                entry.split_once('=').ok_or_else(|| format!("{entry:?} is not CLAIM=VALUE"))?;
            Ok((name.trim().to_owned(), value.to_owned()))
        };
        entries.map(claim).collect::<Result<_, String>>().map(RequiredClaims)
    }
}
