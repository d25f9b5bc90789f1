//! The single issuer that flags describe: an entry of the file, with the reference's defaults.

use super::form::{File, FileClaimRule, FileIssuer, FileJwt, FileMapping, FileMappings};
use super::{Configuration, check};
use crate::access::faults::Faults;
use crate::cli::OidcArgs;

/// The issuer that `flags` describe; `None` without any. `authority`: the content of its file of authorities.
///
/// # Errors
/// Its URL, authorities or claims are wrong.
pub fn of_flags(
    flags: &OidcArgs,
    authority: Option<String>,
    own_issuers: &[String],
) -> Result<Option<Configuration>, Faults> {
    let Some(url) = flags.oidc_issuer_url.clone() else { return Ok(None) };
    let prefix = username_prefix(flags);
    let claim = flags.oidc_username_claim.clone().unwrap_or_else(|| "sub".to_owned());
    let groups = FileMapping {
        claim: flags.oidc_groups_claim.clone().unwrap_or_default(),
        prefix: Some(flags.oidc_groups_prefix.clone().unwrap_or_default()),
        expression: String::new(),
    };
    let required = flags.oidc_required_claim.clone().unwrap_or_default().0;
    let rule = |(claim, required_value)| FileClaimRule {
        claim,
        required_value,
        expression: String::new(),
        message: String::new(),
    };
    let issuer = FileIssuer {
        url,
        certificate_authority: authority.unwrap_or_default(),
        audiences: flags.oidc_client_id.iter().cloned().collect(),
        ..FileIssuer::default()
    };
    let username = FileMapping { claim, prefix: Some(prefix), expression: String::new() };
    let entry = FileJwt {
        issuer,
        claim_validation_rules: required.into_iter().map(rule).collect(),
        claim_mappings: FileMappings { username, groups, ..FileMappings::default() },
        user_validation_rules: Vec::new(),
    };
    check(File { jwt: vec![entry], ..File::default() }, own_issuers).map(Some)
}

/// The prefix of names: an address is unique by itself, other names are so at their issuer.
pub(super) fn username_prefix(flags: &OidcArgs) -> String {
    let is_address = flags.oidc_username_claim.as_deref() == Some("email");
    match flags.oidc_username_prefix.as_deref() {
        Some("-") => String::new(),
        Some(prefix) if !prefix.is_empty() => prefix.to_owned(),
        _ if is_address => String::new(),
        _ => format!("{}#", flags.oidc_issuer_url.as_deref().unwrap_or_default()),
    }
}
