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

/// Renews the pairs of the members that `arguments` name, or of all members and the administrator, and returns the
/// files written. A certificate keeps its names; its key is replaced, and the key is written before the certificate.
pub fn renew(arguments: &RenewArgs, now: OffsetDateTime) -> Result<Vec<PathBuf>, CertsError> {
    let layout = Layout::new(&arguments.dir);
    let authority = Authority::load(&layout.authority_certificate(), &layout.authority_key())?;
    let peer_authority = Authority::load(&layout.peer_authority_certificate(), &layout.peer_authority_key())?;
    let members = if arguments.members.is_empty() {
        member_names(&layout.members())?
    } else {
        arguments.members.clone()
    };
    let mut written = Vec::new();
    for name in members {
        let files = layout.member(&name);
        if !files.server_certificate.exists() {
            return Err(CertsError::NoSuchMember { path: layout.members(), name });
        }
        let leaf = same_names(&files.server_certificate, &name, Purpose::Server)?;
        written.extend(write(&files.server_certificate, &files.server_key, &authority.issue(&leaf, now)?)?);
        let leaf = same_names(&files.peer_certificate, &name, Purpose::Peer)?;
        written.extend(write(&files.peer_certificate, &files.peer_key, &peer_authority.issue(&leaf, now)?)?);
    }
    if arguments.members.is_empty() {
        let pair = authority.issue(&admin_leaf(), now)?;
        written.extend(write(&layout.admin_certificate(), &layout.admin_key(), &pair)?);
        let config = read(&layout.admin_config())?;
        let config = reissued(&config, &pair).map_err(|reason| CertsError::Content {
            path: layout.admin_config(),
            expected: "a client configuration",
            reason,
        })?;
        replace_file(&layout.admin_config(), &config)?;
        written.push(layout.admin_config());
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

fn member_names(directory: &Path) -> Result<Vec<String>, CertsError> {
    let failed = |source| CertsError::File { action: "read", path: directory.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
