//! `orch certs init` and `orch certs add`: authorities, keys, certificates and client configurations of a new cluster,
//! and the certificates of members that come later.

use std::path::{Path, PathBuf};

use orch_proto::Brand;
use orch_raft::transport::tonic::peer_dns_name;
use time::OffsetDateTime;

use super::authority::{Authority, CertsError, Leaf, Pair, Purpose, read, token_keys};
use super::clients::Client;
use super::file::{replace_file, write_new};
use super::layout::Layout;
use crate::cli::{AddMembersArgs, InitArgs, MemberSpec, SECURE_PORT};
use crate::kubeconfig::{Server, servers};
use crate::run::host_port;

/// A file to be written.
struct Draft {
    path: PathBuf,
    content: String,
}

/// Makes every certificate that `arguments` name and returns the files, in the order written. Writes nothing if one of
/// the files exists: an error, but with `--if-absent` where all of them do.
pub fn init(arguments: &InitArgs, now: OffsetDateTime) -> Result<Vec<PathBuf>, CertsError> {
    let drafts = draft(arguments, now)?;
    if arguments.if_absent && drafts.iter().all(|draft| draft.path.exists()) {
        return Ok(Vec::new());
    }
    write_all(drafts)
}

/// Makes the certificates of the members that `arguments` name under the authorities in their directory, adds the members to
/// the client configurations there, and returns the files, in the order written. Writes nothing if a certificate exists.
pub fn add_members(arguments: &AddMembersArgs, now: OffsetDateTime) -> Result<Vec<PathBuf>, CertsError> {
    let layout = Layout::new(&arguments.dir);
    let authority = Authority::load(&layout.authority_certificate(), &layout.authority_key())?;
    let peer_authority = Authority::load(&layout.peer_authority_certificate(), &layout.peer_authority_key())?;
    let issuing = Issuing { layout: &layout, authority: &authority, peer_authority: &peer_authority, now };
    let mut written = write_all(issuing.draft_members(&arguments.members, arguments.brand.0)?)?;
    let port = arguments.secure_port.unwrap_or(secure_port(&layout)?);
    let servers: Vec<Server> = arguments.members.iter().map(|member| server(member, port)).collect();
    for client in Client::ALL {
        written.extend(name_servers(&layout, client, &servers)?);
    }
    Ok(written)
}

/// Makes the certificates of `member` and of every client, and the client configurations, under the authorities in `dir`, which holds
/// none of them: those of a cluster that is made anew from its keys. The configurations name this member alone. Returns the files.
pub fn reissue(
    dir: &Path,
    member: &MemberSpec,
    secure_port: u16,
    brand: &Brand,
    now: OffsetDateTime,
) -> Result<Vec<PathBuf>, CertsError> {
    let layout = Layout::new(dir);
    let authority = Authority::load(&layout.authority_certificate(), &layout.authority_key())?;
    let peer_authority = Authority::load(&layout.peer_authority_certificate(), &layout.peer_authority_key())?;
    authority.require_valid(&layout.authority_certificate(), now)?;
    peer_authority.require_valid(&layout.peer_authority_certificate(), now)?;
    let issuing = Issuing { layout: &layout, authority: &authority, peer_authority: &peer_authority, now };
    let mut drafts = issuing.draft_clients(&[server(member, secure_port)], brand)?;
    drafts.extend(issuing.draft_members(std::slice::from_ref(member), brand)?);
    write_all(drafts)
}

/// Writes `drafts` and returns their paths, or writes nothing if one of them exists.
fn write_all(drafts: Vec<Draft>) -> Result<Vec<PathBuf>, CertsError> {
    if let Some(draft) = drafts.iter().find(|draft| draft.path.exists()) {
        return Err(CertsError::Exists { path: draft.path.clone() });
    }
    for draft in &drafts {
        write_new(&draft.path, &draft.content)?;
    }
    Ok(drafts.into_iter().map(|draft| draft.path).collect())
}

fn draft(arguments: &InitArgs, now: OffsetDateTime) -> Result<Vec<Draft>, CertsError> {
    let layout = Layout::new(&arguments.dir);
    let authority = Authority::create("cluster-ca", now)?;
    let peer_authority = Authority::create("peer-ca", now)?;
    let (token_key, token_public_key) = token_keys()?;
    let servers: Vec<Server> = arguments.members.iter().map(|m| server(m, arguments.secure_port)).collect();
    let mut drafts = pair(layout.authority_certificate(), layout.authority_key(), authority.pair.clone());
    drafts.extend(pair(
        layout.peer_authority_certificate(),
        layout.peer_authority_key(),
        peer_authority.pair.clone(),
    ));
    drafts.push(Draft { path: layout.token_key(), content: token_key });
    drafts.push(Draft { path: layout.token_public_key(), content: token_public_key });
    let issuing = Issuing { layout: &layout, authority: &authority, peer_authority: &peer_authority, now };
    drafts.extend(issuing.draft_clients(&servers, arguments.brand.0)?);
    drafts.extend(issuing.draft_members(&arguments.members, arguments.brand.0)?);
    Ok(drafts)
}

/// Authorities and settings by which certificates of members are made.
struct Issuing<'a> {
    layout: &'a Layout,
    /// Signs servers.
    authority: &'a Authority,
    /// Signs members.
    peer_authority: &'a Authority,
    now: OffsetDateTime,
}

impl Issuing<'_> {
    fn draft_clients(&self, servers: &[Server], brand: &Brand) -> Result<Vec<Draft>, CertsError> {
        let mut drafts = Vec::new();
        for client in Client::ALL {
            let (files, issued) =
                (self.layout.client(client), self.authority.issue(&client.leaf(brand), self.now)?);
            let content = client.config(brand, servers, &self.authority.pair.certificate, &issued);
            drafts.extend(pair(files.certificate, files.key, issued));
            drafts.push(Draft { path: files.config, content });
        }
        Ok(drafts)
    }

    fn draft_members(&self, members: &[MemberSpec], brand: &Brand) -> Result<Vec<Draft>, CertsError> {
        let (mut drafts, mut names) = (Vec::new(), Vec::new());
        for MemberSpec { name, hosts } in members {
            // few: the members, named in flags.
            if names.contains(&name) {
                return Err(CertsError::MemberTwice { name: name.clone() });
            }
            names.push(name);
            let files = self.layout.member(name);
            let for_clients = self.authority.issue(&server_leaf(name, hosts, brand), self.now)?;
            let for_peers = self.peer_authority.issue(&peer_leaf(name, hosts), self.now)?;
            drafts.extend(pair(files.server_certificate, files.server_key, for_clients));
            drafts.extend(pair(files.peer_certificate, files.peer_key, for_peers));
        }
        Ok(drafts)
    }
}

fn pair(certificate: PathBuf, key: PathBuf, pair: Pair) -> Vec<Draft> {
    vec![Draft { path: certificate, content: pair.certificate }, Draft { path: key, content: pair.key }]
}

pub(super) fn server(member: &MemberSpec, port: u16) -> Server {
    let host = member.hosts.first().map_or("localhost", String::as_str);
    server_at(&member.name, host, port)
}

/// The server of member `name` at `host`.
pub(super) fn server_at(name: &str, host: &str, port: u16) -> Server {
    Server { name: name.to_owned(), url: format!("https://{}", host_port(host, port)) }
}

/// Port of the servers in the client configurations, or of the flag's default where there is none.
pub(super) fn secure_port(layout: &Layout) -> Result<u16, CertsError> {
    for client in Client::ALL {
        let url = known_servers(layout, client)?.into_iter().next().map(|server| server.url);
        let first = url.as_deref().and_then(|url| url.split(',').next()?.rsplit_once(':'));
        if let Some(port) = first.and_then(|(_, port)| port.trim_end_matches('/').parse().ok()) {
            return Ok(port);
        }
    }
    Ok(SECURE_PORT)
}

/// The servers in the configuration of `client`; none where there is no configuration, as with `orch dev`, which keeps its
/// own elsewhere.
pub(super) fn known_servers(layout: &Layout, client: Client) -> Result<Vec<Server>, CertsError> {
    let path = layout.client(client).config;
    if !path.exists() {
        return Ok(Vec::new());
    }
    servers(&read(&path)?).map_err(|reason| no_config(path, reason))
}

/// Adds `servers` to the configuration of `client`, if it exists and lacks some. Returns the path if it was written.
pub(super) fn name_servers(
    layout: &Layout,
    client: Client,
    servers: &[Server],
) -> Result<Option<PathBuf>, CertsError> {
    rewrite_config(layout, client, |config| client.with_servers(config, servers))
}

/// Takes the servers `gone` out of the configuration of `client`, if it exists. Returns the path if it was written.
pub(super) fn forget_servers(
    layout: &Layout,
    client: Client,
    gone: &[Server],
) -> Result<Option<PathBuf>, CertsError> {
    if gone.is_empty() {
        return Ok(None);
    }
    rewrite_config(layout, client, |config| client.without_servers(config, gone))
}

fn rewrite_config(
    layout: &Layout,
    client: Client,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<Option<PathBuf>, CertsError> {
    let path = layout.client(client).config;
    if !path.exists() {
        return Ok(None);
    }
    let before = read(&path)?;
    let after = change(&before).map_err(|reason| no_config(path.clone(), reason))?;
    if after == before {
        return Ok(None);
    }
    replace_file(&path, &after)?;
    Ok(Some(path))
}

pub(super) fn no_config(path: PathBuf, reason: String) -> CertsError {
    CertsError::Content { path, expected: "a client configuration", reason }
}

/// The server certificate of member `name`, for clients: its hosts, its name, the loopback names, and the names of the
/// service under which workloads reach the API.
pub fn server_leaf(name: &str, hosts: &[String], brand: &Brand) -> Leaf {
    let service = brand.api_service;
    let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let inside = [
        service.to_owned(),
        format!("{service}.default"),
        format!("{service}.default.svc"),
        format!("{service}.default.svc.cluster.local"),
    ];
    let hosts = distinct(hosts.iter().cloned().chain([name.to_owned()]).chain(local).chain(inside));
    Leaf { common_name: name.to_owned(), organization: None, hosts, purpose: Purpose::Server }
}

/// The peer certificate of member `name`. The transport takes the member's name from its first host.
pub fn peer_leaf(name: &str, hosts: &[String]) -> Leaf {
    let hosts = distinct([peer_dns_name(name)].into_iter().chain(hosts.iter().cloned()));
    Leaf { common_name: name.to_owned(), organization: None, hosts, purpose: Purpose::Peer }
}

fn distinct(hosts: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for host in hosts {
        if !kept.contains(&host) {
            kept.push(host);
        }
    }
    kept
}
