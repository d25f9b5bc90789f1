//! Rewrites `Location` headers of proxied answers.
//!
//! A backend knows nothing of the path under which a proxy serves it. Redirects to paths of its own are rewritten so that they
//! lead through the proxy again; redirects to other hosts are left to the client, which has no business with this server there.
//! Documents are passed on as they are: links in HTML are not rewritten.

use super::path::{cleaned, encoded};

/// The place of a backend below a path of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The path up to the backend, decoded: `/api/v1/namespaces/n/pods/p/proxy`.
    pub(crate) prefix: String,
    /// `HOST:PORT` of the backend.
    pub(crate) backend: String,
    /// The host by which the client called this server; empty where it named none.
    pub(crate) host: String,
}

impl Mount {
    /// The path of a request for `path` in the backend as clients of this server know it.
    pub(crate) fn forwarded_uri(&self, path: &str) -> String {
        encoded(&format!("{}{}", self.prefix, cleaned(path)))
    }

    /// The header `Location` of an answer, as the client gets it.
    pub(crate) fn location(&self, location: &str) -> String {
        let (authority, rest) = split_authority(location);
        let is_other = !authority.is_empty() && authority != self.backend && authority != self.host;
        if is_other || !rest.starts_with('/') {
            return location.to_owned();
        }
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, behind) = rest.split_at(end);
        let prefix = encoded(&self.prefix);
        if path.starts_with(&prefix) {
            return rest.to_owned();
        }
        format!("{prefix}{}{behind}", cleaned(path))
    }
}

/// The authority of a reference, empty where it has none, and what is behind it.
fn split_authority(reference: &str) -> (&str, &str) {
    let behind_scheme = match reference.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Some(rest),
        _ => reference.strip_prefix("//"),
    };
    let Some(rest) = behind_scheme else { return ("", reference) };
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}
