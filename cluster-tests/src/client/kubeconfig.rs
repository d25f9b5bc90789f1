//! Reads the client configuration file that a server writes (`admin.conf`, kubeconfig format): the current context's
//! server, authority and credentials, embedded or as files beside it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use orch_serving::Secret;
use orch_serving::kubeconfig::{self, File, Material, find, material};

use super::{Identity, Trust};

/// Server and credentials of the current context.
pub(super) struct Entry {
    pub(super) server: String,
    pub(super) trust: Trust,
    pub(super) identity: Identity,
}

/// Reads the file at `path`.
pub(super) fn read(path: &Path) -> Result<Entry> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    entry(&text, folder).with_context(|| format!("{} is not a usable client configuration", path.display()))
}

fn entry(text: &str, folder: &Path) -> Result<Entry> {
    let file: File = kubeconfig::parse(text)?;
    let context = find(&file.current_context, &file.contexts);
    let context = context.context("the current context is not in the file")?;
    let cluster = find(&context.cluster, &file.clusters);
    let cluster = cluster.context("the context's cluster is not in the file")?;
    let user = find(&context.user, &file.users).cloned().unwrap_or_default();
    let content = |data: &Option<Secret>, file: &Option<PathBuf>| content(data, file, folder);
    let authority = content(&cluster.certificate_authority_data, &cluster.certificate_authority)?;
    let chain = content(&user.client_certificate_data, &user.client_certificate)?;
    let key = content(&user.client_key_data, &user.client_key)?;
    let identity = match (user.token, chain, key) {
        (Some(token), _, _) => Identity::Token(token.expose().to_owned()),
        (None, Some(chain), Some(key)) => Identity::Certificate { chain, key },
        (None, _, _) => Identity::Anonymous,
    };
    let trust = authority.map_or(Trust::Anyone, Trust::Authority);
    Ok(Entry { server: cluster.server.clone(), trust, identity })
}

/// The embedded data, or else the content of the named file.
fn content(data: &Option<Secret>, file: &Option<PathBuf>, folder: &Path) -> Result<Option<Vec<u8>>> {
    match material(data.as_ref(), file.as_ref())? {
        Some(Material::Embedded(content)) => Ok(Some(content)),
        Some(Material::File(file)) => {
            let path = folder.join(file);
            Ok(Some(std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
        }
        None => Ok(None),
    }
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
