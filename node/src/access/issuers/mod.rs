//! The authentication configuration: issuers of tokens with their rules, and where anonymous requests are served.
//!
//! Owns the file's form (`AuthenticationConfiguration`), its checks in the reference's words, and the objects of
//! `orch_api` that are made of it.

mod flags;
mod form;
mod mappings;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use orch_api::authn::jwt::{Issuer, IssuerSettings, KeySource, KeySourceSettings, Rules};
use orch_api::egress::{Reach, Scheme, Url};

pub use self::flags::of_flags;
use self::form::{File, FileAnonymous, FileIssuer};
use self::mappings::{claim_rules, mappings, user_rules};
use super::faults::{self, ConfigFileError, Faults};
use crate::egress::{Credentials, Target, Trust};

/// Issuers of one file, as in the reference.
const ISSUERS_MAX: usize = 64;
/// Versions of the file.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Where requests without credentials are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// The file says nothing: the flag decides.
    #[default]
    Unsaid,
    /// Nowhere.
    Refused,
    /// Everywhere.
    Everywhere,
    /// On these paths.
    At(Vec<String>),
}

/// A valid configuration.
#[derive(Debug)]
pub struct Configuration {
    /// The issuers.
    pub issuers: Vec<Issuer>,
    /// Where requests without credentials are served.
    pub anonymous: Anonymous,
}

/// Reads the file of `--authentication-config`. `own_issuers`: the issuers of this server's own tokens.
///
/// # Errors
/// It cannot be read, or fields are wrong.
pub fn read(path: &Path, own_issuers: &[String]) -> Result<Configuration, ConfigFileError> {
    let file = faults::read(path, "AuthenticationConfiguration", &VERSIONS)?;
    check(file, own_issuers).map_err(|faults| ConfigFileError::Fields { path: path.to_owned(), faults })
}

/// The authorities of issuers that the file of `--authentication-config` has, in PEM.
///
/// # Errors
/// It cannot be read.
pub fn authorities(path: &Path) -> Result<Vec<String>, ConfigFileError> {
    let file: File = faults::read(path, "AuthenticationConfiguration", &VERSIONS)?;
    let all = file.jwt.into_iter().map(|entry| entry.issuer.certificate_authority);
    Ok(all.filter(|pem| !pem.is_empty()).collect())
}

fn check(file: File, own_issuers: &[String]) -> Result<Configuration, Faults> {
    let mut faults = Faults::default();
    let anonymous = check_anonymous(file.anonymous, &mut faults);
    if file.jwt.len() > ISSUERS_MAX {
        faults.too_many("jwt", file.jwt.len(), ISSUERS_MAX);
        return faults.or(Configuration { issuers: Vec::new(), anonymous });
    }
    let (mut urls, mut discovery_urls) = (HashSet::new(), HashSet::new());
    let mut issuers = Vec::new();
    for (at, entry) in file.jwt.into_iter().enumerate() {
        let field = format!("jwt[{at}]");
        let url = entry.issuer.url.clone();
        let discovery = entry.issuer.discovery_url.clone();
        let audiences = entry.issuer.audiences.clone();
        let source = check_issuer(entry.issuer, own_issuers, &format!("{field}.issuer"), &mut faults);
        let claims =
            claim_rules(entry.claim_validation_rules, &format!("{field}.claimValidationRules"), &mut faults);
        let rules = mappings(entry.claim_mappings, claims, &format!("{field}.claimMappings"), &mut faults);
        let users =
            user_rules(entry.user_validation_rules, &format!("{field}.userValidationRules"), &mut faults);
        if !urls.insert(url.clone()) {
            faults.duplicate(&format!("{field}.issuer.url"), &url);
        }
        if !discovery.is_empty() && !discovery_urls.insert(discovery.clone()) {
            faults.duplicate(&format!("{field}.issuer.discoveryURL"), &discovery);
        }
        if let (Some(source), Some(rules)) = (source, rules) {
            issuers.push(Issuer::new(IssuerSettings { audiences, rules: Rules { users, ..rules } }, source));
        }
    }
    faults.or(Configuration { issuers, anonymous })
}

fn check_anonymous(anonymous: Option<FileAnonymous>, faults: &mut Faults) -> Anonymous {
    match anonymous {
        None => Anonymous::Unsaid,
        Some(FileAnonymous { enabled: false, conditions }) if !conditions.is_empty() => {
            let paths: Vec<String> = conditions.into_iter().map(|condition| condition.path).collect();
            let detail = "enabled should be set to true when conditions are defined";
            faults.invalid("anonymous.conditions", &paths.join(", "), detail);
            Anonymous::Refused
        }
        Some(FileAnonymous { enabled: false, .. }) => Anonymous::Refused,
        Some(FileAnonymous { conditions, .. }) if conditions.is_empty() => Anonymous::Everywhere,
        Some(FileAnonymous { conditions, .. }) => {
            Anonymous::At(conditions.into_iter().map(|condition| condition.path).collect())
        }
    }
}

fn check_issuer(issuer: FileIssuer, own: &[String], field: &str, faults: &mut Faults) -> Option<KeySource> {
    let url_field = format!("{field}.url");
    // few: the issuers of this server's own tokens.
    if own.contains(&issuer.url) {
        let detail = format!("URL must not overlap with disallowed issuers: [{}]", own.join(" "));
        faults.invalid(&url_field, &issuer.url, &detail);
    }
    let url = if issuer.url.is_empty() {
        faults.required(&url_field, "");
        None
    } else {
        check_url(&issuer.url, &url_field, faults)
    };
    let discovery_field = format!("{field}.discoveryURL");
    let discovery = match issuer.discovery_url.as_str() {
        "" => {
            Url::parse(&format!("{}/.well-known/openid-configuration", issuer.url.trim_end_matches('/'))).ok()
        }
        given => {
            if given.trim_end_matches('/') == issuer.url.trim_end_matches('/') {
                faults.invalid(&discovery_field, given, "discoveryURL must be different from URL");
            }
            check_url(given, &discovery_field, faults)
        }
    };
    check_audiences(&issuer, field, faults);
    if !issuer.egress_selector_type.is_empty() {
        let detail = "egress selector is not supported";
        faults.invalid(&format!("{field}.egressSelectorType"), &issuer.egress_selector_type, detail);
    }
    let authority = Some(issuer.certificate_authority).filter(|text| !text.is_empty());
    let trust = Trust::new(authority.as_deref().map(str::as_bytes), None);
    let trust = trust.map_err(|error| {
        faults.invalid(&format!("{field}.certificateAuthority"), "<omitted>", &error.to_string());
    });
    let (url, discovery, trust) = (url?, discovery?, trust.ok()?);
    let target = Target::new(Reach::of([&url, &discovery]), &trust, Credentials::None);
    let settings = KeySourceSettings { issuer: issuer.url, discovery, authority };
    Some(KeySource::new(settings, Arc::new(target)))
}

fn check_url(text: &str, field: &str, faults: &mut Faults) -> Option<Url> {
    let url = Url::parse(text).map_err(|fault| faults.invalid(field, text, &fault.to_string())).ok()?;
    if url.scheme != Scheme::Https {
        faults.invalid(field, text, "URL scheme must be https");
    }
    if url.target.contains('?') {
        faults.invalid(field, text, "URL must not contain a query");
    }
    Some(url)
}

fn check_audiences(issuer: &FileIssuer, field: &str, faults: &mut Faults) {
    let (list, policy_field) = (format!("{field}.audiences"), format!("{field}.audienceMatchPolicy"));
    if issuer.audiences.is_empty() {
        faults.required(&list, &format!("at least one {list} is required"));
        return;
    }
    let mut seen = HashSet::new();
    for (at, audience) in issuer.audiences.iter().enumerate() {
        if audience.is_empty() {
            faults.required(&format!("{list}[{at}]"), "");
        }
        if !seen.insert(audience) {
            faults.duplicate(&format!("{list}[{at}]"), audience);
        }
    }
    let policy = issuer.audience_match_policy.as_str();
    match issuer.audiences.len() {
        1 if !matches!(policy, "" | "MatchAny") => {
            let detail = "audienceMatchPolicy must be empty or MatchAny for single audience";
            faults.invalid(&policy_field, policy, detail);
        }
        2.. if policy != "MatchAny" => {
            faults.invalid(
                &policy_field,
                policy,
                "audienceMatchPolicy must be MatchAny for multiple audiences",
            );
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
