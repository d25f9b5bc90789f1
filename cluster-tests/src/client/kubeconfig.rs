//! Reads the client configuration file that a server writes (`admin.conf`, kubeconfig format): the current context's
//! server, authority and credentials, embedded or as files beside it.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Identity, Trust};

/// Server and credentials of the current context.
pub(super) struct Entry {
    pub(super) server: String,
    pub(super) trust: Trust,
    pub(super) identity: Identity,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "current-context", default)]
    current_context: String,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: ClusterEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterEntry {
    server: String,
    certificate_authority_data: Option<String>,
    certificate_authority: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: UserEntry,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct UserEntry {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_certificate: Option<String>,
    client_key_data: Option<String>,
    client_key: Option<String>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: ContextEntry,
}

#[derive(Deserialize)]
struct ContextEntry {
    cluster: String,
    user: String,
}

/// Reads the file at `path`.
pub(super) fn read(path: &Path) -> Result<Entry> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    entry(&text, folder).with_context(|| format!("{} is not a usable client configuration", path.display()))
}

fn entry(text: &str, folder: &Path) -> Result<Entry> {
    let file: File = serde_norway::from_str(text)?;
    let context = file.contexts.into_iter().find(|context| context.name == file.current_context);
    let context = context.context("the current context is not in the file")?.context;
    let cluster = file.clusters.into_iter().find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.context("the context's cluster is not in the file")?.cluster;
    let user = file.users.into_iter().find(|user| user.name == context.user);
    let user = user.map(|user| user.user).unwrap_or_default();
    let authority = content(cluster.certificate_authority_data, cluster.certificate_authority, folder)?;
    let chain = content(user.client_certificate_data, user.client_certificate, folder)?;
    let key = content(user.client_key_data, user.client_key, folder)?;
    let identity = match (user.token, chain, key) {
        (Some(token), _, _) => Identity::Token(token),
        (None, Some(chain), Some(key)) => Identity::Certificate { chain, key },
        (None, _, _) => Identity::Anonymous,
    };
    let trust = authority.map_or(Trust::Anyone, Trust::Authority);
    Ok(Entry { server: cluster.server, trust, identity })
}

/// The embedded data, or else the content of the named file.
fn content(data: Option<String>, file: Option<String>, folder: &Path) -> Result<Option<Vec<u8>>> {
    if let Some(data) = data {
        return Ok(Some(STANDARD.decode(data)?));
    }
    let Some(file) = file else { return Ok(None) };
    let path = folder.join(file);
    Ok(Some(std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_context_decides() {
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: b\n\
            clusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:7\n    certificate-authority-data: QUJD\n\
            contexts:\n- name: a\n  context: {cluster: x, user: y}\n- name: b\n  context: {cluster: c, user: u}\n\
            users:\n- name: u\n  user: {token: secret}\n";
        let entry = entry(text, Path::new("/")).unwrap();
        assert_eq!(entry.server, "https://127.0.0.1:7");
        assert!(matches!(entry.trust, Trust::Authority(pem) if pem == b"ABC"));
        assert!(matches!(entry.identity, Identity::Token(token) if token == "secret"));
    }

    #[test]
    fn a_context_that_is_not_there_is_an_error() {
        assert!(entry("current-context: b\n", Path::new("/")).is_err());
    }
}
