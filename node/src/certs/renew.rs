//! `orch certs renew`: new pairs under the same authorities.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use orch_proto::brand::{KUBERNETES, ORCH};
use time::OffsetDateTime;

use super::authority::{Authority, CertsError, Leaf, Pair, Purpose, read};
use super::clients::{Client, admin_leaf};
use super::file::replace_file;
use super::init::{forget_servers, known_servers, name_servers, no_config, secure_port, server_at};
use super::inspect::inspect;
use super::layout::{ClientFiles, Layout};
use crate::cli::RenewArgs;
use crate::kubeconfig::{self, Server, reissued};

/// The authorities under which certificates are renewed; what an absent one signs stays.
pub(super) struct Renewal<'a> {
    /// Signs servers and clients.
    pub(super) cluster: Option<&'a Authority>,
    /// Signs members.
    pub(super) peer: Option<&'a Authority>,
}

/// The work of a renewal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The files written.
    pub written: Vec<PathBuf>,
    /// Names of the members that were taken out of the client configurations: they have no directory any more.
    pub forgotten: Vec<String>,
}

/// Renews the pairs of the members that `arguments` name, or of all members and clients. With
/// the clients' pairs their configurations get the members that they lack, and lose those whose directory is gone. A certificate keeps its names; its key is replaced, and the key is written before the certificate.
pub fn renew(arguments: &RenewArgs, now: OffsetDateTime) -> Result<Renewed, CertsError> {
    let layout = Layout::new(&arguments.dir);
    let cluster = Authority::load(&layout.authority_certificate(), &layout.authority_key())?;
    let peer = Authority::load(&layout.peer_authority_certificate(), &layout.peer_authority_key())?;
    let renewal = Renewal { cluster: Some(&cluster), peer: Some(&peer) };
    if arguments.members.is_empty() {
        return renew_under(&layout, &renewal, now);
    }
    let mut renewed = Renewed::default();
    for name in &arguments.members {
        renewed.written.extend(renew_member(&layout, &renewal, name, now)?);
    }
    Ok(renewed)
}

/// Renews the pairs of all members and clients.
pub(super) fn renew_under(
    layout: &Layout,
    renewal: &Renewal<'_>,
    now: OffsetDateTime,
) -> Result<Renewed, CertsError> {
    let (mut written, mut forgotten) = (Vec::new(), Vec::new());
    for name in member_names(&layout.members())? {
        written.extend(renew_member(layout, renewal, &name, now)?);
    }
    if let Some(authority) = renewal.cluster {
        for client in Client::ALL {
            // Directories made by earlier versions lack some.
            if let Some(leaf) = client_leaf(client, &layout.client(client))? {
                written.extend(renew_client(layout, client, &leaf, authority, now)?);
            }
        }
        let (servers, gone) = (member_servers(layout)?, servers_without_member(layout)?);
        for client in Client::ALL {
            // It is among the files written already.
            forget_servers(layout, client, &gone)?;
            name_servers(layout, client, &servers)?;
        }
        forgotten.extend(gone.into_iter().map(|server| server.name));
    }
    Ok(Renewed { written, forgotten })
}

/// The servers of all members in the directory: as the administrator's configuration names them, or by the first host of
/// their certificate.
fn member_servers(layout: &Layout) -> Result<Vec<Server>, CertsError> {
    let (known, port) = (known_servers(layout, Client::Admin)?, secure_port(layout)?);
    let mut servers = Vec::new();
    for name in member_names(&layout.members())? {
        if let Some(server) = known.iter().find(|server| server.name == name) {
            servers.push(server.clone());
            continue;
        }
        let hosts = same_names(&layout.member(&name).server_certificate, &name, Purpose::Server)?.hosts;
        servers.extend(hosts.first().map(|host| server_at(&name, host, port)));
    }
    Ok(servers)
}

/// The servers in the administrator's configuration whose member has no directory any more: an operator deletes it with the
/// member. None where no member has one, because then all were taken elsewhere.
fn servers_without_member(layout: &Layout) -> Result<Vec<Server>, CertsError> {
    let members: BTreeSet<String> = member_names(&layout.members())?.into_iter().collect();
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let path = layout.client(Client::Admin).config;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let named = kubeconfig::member_servers(&read(&path)?);
    let named = named.map_err(|reason| no_config(path, reason))?;
    Ok(named.into_iter().filter(|server| !members.contains(&server.name)).collect())
}

/// The subject and purpose of a client's certificate; `None` where there is no certificate.
fn client_leaf(client: Client, files: &ClientFiles) -> Result<Option<Leaf>, CertsError> {
    if client == Client::Admin {
        return Ok(Some(admin_leaf()));
    }
    if !files.certificate.exists() {
        return Ok(None);
    }
    let subject =
        inspect(&files.certificate)?.into_iter().next().map(|facts| facts.subject).unwrap_or_default();
    // Its name tells the brand, which the directory does not.
    let brand = [&ORCH, &KUBERNETES]
        .into_iter()
        .find(|brand| subject.strip_prefix("CN=") == Some(client.leaf(brand).common_name.as_str()));
    let brand = brand.ok_or_else(|| CertsError::Content {
        path: files.certificate.clone(),
        expected: "the certificate of a client of this name",
        reason: format!("its subject is {subject}"),
    })?;
    Ok(Some(client.leaf(brand)))
}

fn renew_client(
    layout: &Layout,
    client: Client,
    leaf: &Leaf,
    authority: &Authority,
    now: OffsetDateTime,
) -> Result<Vec<PathBuf>, CertsError> {
    let (files, pair) = (layout.client(client), authority.issue(leaf, now)?);
    let mut written = write(&files.certificate, &files.key, &pair)?.to_vec();
    // `orch dev` keeps its configurations elsewhere, and writes them at each start.
    if files.config.exists() {
        let config = reissued(&read(&files.config)?, client.name(), &pair).map_err(|reason| {
            CertsError::Content { path: files.config.clone(), expected: "a client configuration", reason }
        })?;
        replace_file(&files.config, &config)?;
        written.push(files.config.clone());
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

pub(super) fn same_names(certificate: &Path, name: &str, purpose: Purpose) -> Result<Leaf, CertsError> {
    let hosts = inspect(certificate)?.into_iter().next().map(|facts| facts.hosts).unwrap_or_default();
    Ok(Leaf { common_name: name.to_owned(), organization: None, hosts, purpose })
}

pub(super) fn write(certificate: &Path, key: &Path, pair: &Pair) -> Result<[PathBuf; 2], CertsError> {
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
