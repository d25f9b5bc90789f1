//! The paths of a node beside those of its APIs.
//!
//! Owns their list. A page is served only at or below one of them, and each has its right in the table of routes.

use crate::authn::service_account::{DISCOVERY_PATH, KEYS_PATH};

/// Each serves a page, or pages below it.
pub(super) const OWN_PATHS: [&str; 10] = [
    DISCOVERY_PATH,
    "/debug/api_priority_and_fairness",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    KEYS_PATH,
    "/readyz",
    "/version",
];

/// Whether `path`, which has no slash at its end, is one of them or below.
pub(super) fn is_own(path: &str) -> bool {
    let is_of =
        |own: &&str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // few: ten paths.
    OWN_PATHS.iter().any(is_of)
}
