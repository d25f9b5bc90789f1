//! Reads servers and credentials from client configurations: the file of `--kubeconfig`, those of `KUBECONFIG`, or that of a
//! node for development.
//!
//! The current context decides about cluster and user. Further servers are those of clusters with the same authority which
//! another context reaches as the same user: a configuration may hold clusters that have nothing to do with each other.

mod derived;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use orch_serving::files;
use orch_serving::tls::MALFORMED_PEM;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

pub(super) use self::derived::config_for;
use crate::cli::{AccessArgs, parse_server};

/// The variable that names client configurations, as `kubectl` reads it.
const VARIABLE: &str = "KUBECONFIG";

/// The configuration that `orch dev` writes, in its usual place.
const OF_DEV: &str = "./orch-data/admin.conf";

/// A client configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file cannot be read.
    #[error("{origin}: cannot read {path}{hint}")]
    Unreadable {
        /// The flag or variable that names it.
        origin: &'static str,
        /// The file.
        path: PathBuf,
        /// End of the message: another way to name one.
        hint: &'static str,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// An entry is missing, or has a form that is not supported.
    #[error("{path}: {reason}")]
    Content {
        /// The file, or the first of several.
        path: PathBuf,
        /// The entry and its fault.
        reason: String,
    },
}

/// A cluster's servers, and the administrator's identity.
#[derive(Debug)]
pub struct Access {
    /// `HOST:PORT` of each server, to be tried in order.
    pub servers: Vec<String>,
    /// Servers of the configuration that `--server` set aside: they are asked only for the view after a change, because a
    /// server that was named may end by it.
    pub(super) set_aside: Vec<String>,
    /// The cluster's authority, and the client certificate with its key if there is one.
    pub tls: Arc<ClientConfig>,
    /// The certificates of the authorities that servers are verified by, as PEM.
    pub(crate) authorities: Arc<[u8]>,
    /// Value of the `Authorization` header, for users with a token.
    pub token: Option<HeaderValue>,
}

impl Access {
    /// Reads the configuration that `arguments` or the environment name.
    pub fn of(arguments: &AccessArgs) -> Result<Access, AccessError> {
        let mut access = Access::named(arguments.kubeconfig.as_deref())?;
        access.prefer(&arguments.server);
        Ok(access)
    }

    /// Reads the configuration of the flag, or that which the environment names.
    pub(super) fn named(flag: Option<&Path>) -> Result<Access, AccessError> {
        read(&Source::named(flag))
    }

    /// Reads the configuration in `file`, with `context` in place of its current one where that is given.
    pub(crate) fn in_context(file: &Path, context: Option<&str>) -> Result<Access, AccessError> {
        let source = Source::named(Some(file));
        let mut config = configuration(&source)?;
        if let Some(context) = context {
            config.current = Some(context.to_owned());
        }
        config.access().map_err(|reason| source.fault(reason))
    }

    /// An access to no server, by which the authorities of another one are compared with `authorities`.
    #[cfg(test)]
    pub(crate) fn trusting(tls: Arc<ClientConfig>, authorities: &[u8]) -> Access {
        Access {
            servers: Vec::new(),
            set_aside: Vec::new(),
            tls,
            authorities: authorities.into(),
            token: None,
        }
    }

    /// Has requests sent to the servers that are `named`, if any.
    pub(super) fn prefer(&mut self, named: &[String]) {
        if !named.is_empty() {
            self.set_aside = std::mem::replace(&mut self.servers, named.to_vec());
        }
    }

    /// All servers of the cluster that are known, those that requests are sent to first.
    pub(super) fn all_servers(&self) -> Vec<String> {
        let mut seen = std::collections::BTreeSet::new();
        let all = self.servers.iter().chain(&self.set_aside);
        all.filter(|server| seen.insert(server.as_str())).cloned().collect()
    }

    /// The same identity towards `servers`.
    pub(super) fn with_servers(&self, servers: Vec<String>) -> Access {
        let (tls, token) = (self.tls.clone(), self.token.clone());
        Access { servers, set_aside: Vec::new(), tls, authorities: self.authorities.clone(), token }
    }
}

/// The files to read, and the flag or variable that names them.
pub(super) struct Source {
    origin: &'static str,
    hint: &'static str,
    files: Vec<PathBuf>,
}

impl Source {
    /// The file of the flag, or those that the environment names.
    pub(super) fn named(flag: Option<&Path>) -> Source {
        Source::of(flag, std::env::var_os(VARIABLE).as_deref())
    }

    pub(super) fn of(flag: Option<&Path>, variable: Option<&OsStr>) -> Source {
        let named: Vec<PathBuf> = variable.into_iter().flat_map(std::env::split_paths).collect();
        let named: Vec<PathBuf> = named.into_iter().filter(|path| !path.as_os_str().is_empty()).collect();
        match flag {
            Some(path) => Source { origin: "--kubeconfig", hint: "", files: vec![path.to_owned()] },
            None if !named.is_empty() => Source { origin: VARIABLE, hint: "", files: named },
            None => Source {
                origin: "without --kubeconfig and KUBECONFIG",
                hint: " (name the administrator's configuration with --kubeconfig)",
                files: vec![OF_DEV.into()],
            },
        }
    }

    /// The error of a content that cannot be used.
    fn fault(&self, reason: String) -> AccessError {
        AccessError::Content { path: self.files.first().cloned().unwrap_or_default(), reason }
    }
}

/// Reads servers and credentials of the files of `source`.
pub(super) fn read(source: &Source) -> Result<Access, AccessError> {
    configuration(source)?.access().map_err(|reason| source.fault(reason))
}

/// Reads the files of `source`. Of several those that do not exist are left out, and the first one that names an entry
/// counts, as with `kubectl`.
fn configuration(source: &Source) -> Result<Config, AccessError> {
    let Source { origin, hint, files } = source;
    let (origin, hint) = (*origin, *hint);
    let (mut config, mut absent) = (Config::default(), None);
    for path in files {
        match std::fs::read_to_string(path) {
            Ok(text) => config
                .add(&text, path.parent().unwrap_or(Path::new("")))
                .map_err(|reason| AccessError::Content { path: path.clone(), reason })?,
            Err(error) if files.len() > 1 && error.kind() == std::io::ErrorKind::NotFound => {
                absent = absent.or(Some((path, error)));
            }
            Err(source) => {
                return Err(AccessError::Unreadable { origin, path: path.clone(), hint, source });
            }
        }
    }
    match absent {
        Some((path, source)) if config.is_empty() => {
            Err(AccessError::Unreadable { origin, path: path.clone(), hint, source })
        }
        _ => Ok(config),
    }
}

/// An entry of a list in a configuration.
struct Entry {
    name: String,
    value: Value,
    /// The directory to which paths in it are relative.
    directory: PathBuf,
}

/// The entries of all files.
#[derive(Default)]
struct Config {
    clusters: Vec<Entry>,
    users: Vec<Entry>,
    contexts: Vec<Entry>,
    current: Option<String>,
}

impl Config {
    fn add(&mut self, text: &str, directory: &Path) -> Result<(), String> {
        let config: Value =
            serde_norway::from_str(text).map_err(|error| format!("not a client configuration: {error}"))?;
        for (list, inner, into) in [
            ("clusters", "cluster", &mut self.clusters),
            ("users", "user", &mut self.users),
            ("contexts", "context", &mut self.contexts),
        ] {
            for entry in config[list].as_array().into_iter().flatten() {
                let name = entry["name"].as_str().ok_or_else(|| format!("an entry of {list} has no name"))?;
                let value = entry[inner].clone();
                into.push(Entry { name: name.to_owned(), value, directory: directory.to_owned() });
            }
        }
        let current = config["current-context"].as_str().filter(|current| !current.is_empty());
        self.current = self.current.take().or_else(|| current.map(str::to_owned));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.users.is_empty() && self.contexts.is_empty()
    }

    fn current_context(&self) -> Result<(&str, &Entry), String> {
        let current = self.current.as_deref().ok_or("current-context is missing")?;
        let context = named(&self.contexts, current)
            .ok_or_else(|| format!("current-context: there is no context {current:?}"))?;
        Ok((current, context))
    }

    fn access(&self) -> Result<Access, String> {
        if self.clusters.is_empty() {
            return Err("it names no cluster".to_owned());
        }
        let (_, context) = self.current_context()?;
        let cluster = member(context, "cluster", &self.clusters)?;
        let user = member(context, "user", &self.users)?;
        let authority = content(cluster, "certificate-authority")?;
        let authority = authority.ok_or("certificate-authority-data is missing")?;
        let (tls, token) = (tls(&authority, user)?, token(user)?);
        let mut servers = servers(cluster)?;
        let of_same_user = self.contexts.iter().filter(|other| other.value["user"] == user.name.as_str());
        for other in of_same_user.filter_map(|context| member(context, "cluster", &self.clusters).ok()) {
            if content(other, "certificate-authority").is_ok_and(|found| found.as_ref() == Some(&authority)) {
                servers.extend(self::servers(other)?);
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        servers.retain(|server| seen.insert(server.clone()));
        Ok(Access {
            servers,
            set_aside: Vec::new(),
            tls: Arc::new(tls),
            authorities: authority.into(),
            token,
        })
    }
}

fn named<'a>(entries: &'a [Entry], name: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.name == name)
}

/// The entry of `entries` that `context` names as its `kind`.
fn member<'a>(context: &Entry, kind: &str, entries: &'a [Entry]) -> Result<&'a Entry, String> {
    let name =
        context.value[kind].as_str().ok_or_else(|| format!("context {:?} names no {kind}", context.name))?;
    named(entries, name).ok_or_else(|| format!("context {:?}: there is no {kind} {name:?}", context.name))
}

/// The addresses of a cluster. Schedulers' configurations have several in one entry.
fn servers(cluster: &Entry) -> Result<Vec<String>, String> {
    let url = cluster.value["server"].as_str().unwrap_or_default();
    url.split(',')
        .map(|url| match url.trim() {
            url if url.starts_with("https://") => parse_server(url),
            url => Err(format!("server {url:?} of cluster {:?} is not an https:// address", cluster.name)),
        })
        .collect()
}

fn tls(authority: &[u8], user: &Entry) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authority) {
        let authority = authority.map_err(|_| format!("certificate-authority-data: {MALFORMED_PEM}"))?;
        roots.add(authority).map_err(|error| format!("certificate-authority-data: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    match (content(user, "client-certificate")?, content(user, "client-key")?) {
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
            let chain = chain.map_err(|_| format!("client-certificate-data: {MALFORMED_PEM}"))?;
            let key =
                PrivateKeyDer::from_pem_slice(&key).map_err(|_| "client-key-data holds no private key")?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("client certificate and key: {error}"))
        }
        (None, None) if token(user)?.is_some() => Ok(builder.with_no_client_auth()),
        (None, None) => Err(format!(
            "user {:?} has neither a client certificate nor a token; other credentials (exec, password) are not supported",
            user.name
        )),
        (Some(_), None) => Err(format!("user {:?} has a client certificate and no key", user.name)),
        (None, Some(_)) => Err(format!("user {:?} has a client key and no certificate", user.name)),
    }
}

/// The header of a user with a token. Secret.
fn token(user: &Entry) -> Result<Option<HeaderValue>, String> {
    let token = match (user.value["token"].as_str(), user.value["tokenFile"].as_str()) {
        (Some(token), _) => token.to_owned(),
        (None, Some(path)) => {
            let path = user.directory.join(path);
            files::read_text(&path, files::TOKEN_BYTES_MAX)
                .map_err(|error| format!("tokenFile: cannot read {}: {error}", path.display()))?
        }
        (None, None) => return Ok(None),
    };
    let mut header = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| format!("the token of user {:?} is not one line of visible characters", user.name))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

/// The content of `NAME-data` of an entry, or of the file that `NAME` names; `None` where there is neither.
fn content(entry: &Entry, name: &str) -> Result<Option<Vec<u8>>, String> {
    if let Some(text) = entry.value[format!("{name}-data")].as_str() {
        return STANDARD.decode(text).map(Some).map_err(|_| format!("{name}-data is not base64"));
    }
    let Some(path) = entry.value[name].as_str() else { return Ok(None) };
    let path = entry.directory.join(path);
    let read = files::read(&path, files::MATERIAL_BYTES_MAX);
    read.map(Some).map_err(|error| format!("{name}: cannot read {}: {error}", path.display()))
}
