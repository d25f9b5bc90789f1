//! `orch certs renew`: new pairs under the same authorities.

use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::authority::{Authority, CertsError, Leaf, Pair, Purpose, read};
use super::file::replace_file;
use super::init::admin_leaf;
use super::inspect::inspect;
use super::layout::Layout;
use crate::cli::RenewArgs;
use crate::kubeconfig::reissued;

/// The authorities under which certificates are renewed; what an absent one signs stays.
pub(super) struct Renewal<'a> {
    /// Signs servers and the administrator.
    pub(super) cluster: Option<&'a Authority>,
    /// Signs members.
    pub(super) peer: Option<&'a Authority>,
}

/// Renews the pairs of the members that `arguments` name, or of all members and the administrator, and returns the
/// files written. A certificate keeps its names; its key is replaced, and the key is written before the certificate.
pub fn renew(arguments: &RenewArgs, now: OffsetDateTime) -> Result<Vec<PathBuf>, CertsError> {
    let layout = Layout::new(&arguments.dir);
    let cluster = Authority::load(&layout.authority_certificate(), &layout.authority_key())?;
    let peer = Authority::load(&layout.peer_authority_certificate(), &layout.peer_authority_key())?;
    let renewal = Renewal { cluster: Some(&cluster), peer: Some(&peer) };
    if arguments.members.is_empty() {
        return renew_under(&layout, &renewal, now);
    }
    let mut written = Vec::new();
    for name in &arguments.members {
        written.extend(renew_member(&layout, &renewal, name, now)?);
    }
    Ok(written)
}

/// Renews the pairs of all members and of the administrator, and returns the files written.
pub(super) fn renew_under(
    layout: &Layout,
    renewal: &Renewal<'_>,
    now: OffsetDateTime,
) -> Result<Vec<PathBuf>, CertsError> {
    let mut written = Vec::new();
    for name in member_names(&layout.members())? {
        written.extend(renew_member(layout, renewal, &name, now)?);
    }
    if let Some(authority) = renewal.cluster {
        let pair = authority.issue(&admin_leaf(), now)?;
        written.extend(write(&layout.admin_certificate(), &layout.admin_key(), &pair)?);
        // `orch dev` keeps its configuration elsewhere, and writes it at each start.
        let path = layout.admin_config();
        if path.exists() {
            let config = reissued(&read(&path)?, &pair).map_err(|reason| CertsError::Content {
                path: path.clone(),
                expected: "a client configuration",
                reason,
            })?;
            replace_file(&path, &config)?;
            written.push(path);
        }
    }
    Ok(written)
}

fn renew_member(
    layout: &Layout,
    renewal: &Renewal<'_>,
    name: &str,
    now: OffsetDateTime,
) -> Result<Vec<PathBuf>, CertsError> {
    let files = layout.member(name);
    if !files.server_certificate.exists() {
        return Err(CertsError::NoSuchMember { path: layout.members(), name: name.to_owned() });
    }
    let mut written = Vec::new();
    if let Some(authority) = renewal.cluster {
        let leaf = same_names(&files.server_certificate, name, Purpose::Server)?;
        written.extend(write(&files.server_certificate, &files.server_key, &authority.issue(&leaf, now)?)?);
    }
    if let Some(authority) = renewal.peer {
        let leaf = same_names(&files.peer_certificate, name, Purpose::Peer)?;
        written.extend(write(&files.peer_certificate, &files.peer_key, &authority.issue(&leaf, now)?)?);
    }
    Ok(written)
}

fn same_names(certificate: &Path, name: &str, purpose: Purpose) -> Result<Leaf, CertsError> {
    let hosts = inspect(certificate)?.into_iter().next().map(|facts| facts.hosts).unwrap_or_default();
    Ok(Leaf { common_name: name.to_owned(), organization: None, hosts, purpose })
}

fn write(certificate: &Path, key: &Path, pair: &Pair) -> Result<[PathBuf; 2], CertsError> {
    replace_file(key, &pair.key)?;
    replace_file(certificate, &pair.certificate)?;
    Ok([certificate.to_owned(), key.to_owned()])
}

pub(super) fn member_names(directory: &Path) -> Result<Vec<String>, CertsError> {
    let failed = |source| CertsError::File { action: "read", path: directory.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
