//! Reads a client configuration file (kubeconfig) that names one server to ask, or only the certificates in it.
//!
//! Owns which members of the file count: the cluster and the user of the current context. Members that would weaken or
//! run something (`insecure-skip-tls-verify`, `exec`, `auth-provider`) are refused by name. No error quotes a secret.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_api::egress::{Reach, Url};
use serde_json::Value;

use super::{Credentials, Target, Trust, TrustError};
use crate::files;

/// The user of a context that names none.
static NO_USER: Value = Value::Null;

/// Bytes of a client configuration: certificates and keys of a few KiB each.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A client configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetFileError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// A member is missing or wrong.
    #[error("{path}: {field}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The member.
        field: &'static str,
        /// Its fault.
        reason: String,
    },
    /// Authorities or the client's pair cannot be used.
    #[error("{path}")]
    Trust {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: TrustError,
    },
}

/// A server to ask, and where it is asked.
#[derive(Debug)]
pub struct TargetFile {
    /// The server.
    pub target: Target,
    /// The URL that documents are posted to.
    pub url: Url,
}

/// Reads the client configuration at `path`.
///
/// # Errors
/// The file, or one that it names, cannot be read or used.
pub fn read_target(path: &Path) -> Result<TargetFile, TargetFileError> {
    let file = Reader { path };
    let config = file.config()?;
    let (cluster, user) = file.current(&config)?;
    let server = cluster["server"].as_str().ok_or_else(|| file.fault("server", "it is missing"))?;
    let url = Url::parse(server).map_err(|fault| file.fault("server", fault.to_string()))?;
    if cluster["insecure-skip-tls-verify"].as_bool() == Some(true) {
        let reason = "servers are always verified; name their authority in certificate-authority";
        return Err(file.fault("insecure-skip-tls-verify", reason));
    }
    for (field, reason) in
        [("exec", "no program is run for credentials"), ("auth-provider", "it is not known")]
    {
        if !user[field].is_null() {
            return Err(file.fault(field, reason));
        }
    }
    let authority = file.data(cluster, "certificate-authority")?;
    let certificate = file.data(user, "client-certificate")?;
    let key = file.data(user, "client-key")?;
    let pair = match (&certificate, &key) {
        (Some(certificate), Some(key)) => Some((certificate.pem.as_slice(), key.pem.as_slice())),
        (None, None) => None,
        (Some(_), None) => return Err(file.fault("client-key", "it is missing")),
        (None, Some(_)) => return Err(file.fault("client-certificate", "it is missing")),
    };
    let trust = Trust::new(authority.as_ref().map(|authority| authority.pem.as_slice()), pair)
        .map_err(|source| TargetFileError::Trust { path: path.to_owned(), source })?;
    let credentials = file.credentials(user)?;
    let server_name = cluster["tls-server-name"].as_str().filter(|name| !name.is_empty());
    let target = Target::new(Reach::of([&url]), &trust, credentials).named(server_name.map(str::to_owned));
    Ok(TargetFile { target, url })
}

/// PEM, and the file that it stands in: the configuration, or one that it names. It may be a key, so that it is not shown.
pub struct Material {
    /// The file.
    pub path: PathBuf,
    /// Its text, or what the configuration embeds.
    pub pem: Vec<u8>,
}

/// The certificates of the server that a client configuration names.
pub struct TargetCertificates {
    /// The authorities of the server; `None` for those of the machine.
    pub authority: Option<Material>,
    /// The certificate that the server is shown; `None` without one.
    pub client: Option<Material>,
}

/// Reads the certificates that the client configuration at `path` has or names. They are not checked.
///
/// # Errors
/// The file, or one that it names, cannot be read.
pub fn read_certificates(path: &Path) -> Result<TargetCertificates, TargetFileError> {
    let file = Reader { path };
    let config = file.config()?;
    let (cluster, user) = file.current(&config)?;
    let authority = file.data(cluster, "certificate-authority")?;
    Ok(TargetCertificates { authority, client: file.data(user, "client-certificate")? })
}

struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn config(&self) -> Result<Value, TargetFileError> {
        let parsed = serde_norway::from_slice(&read_file(self.path)?);
        parsed.map_err(|_| self.fault("file", "it is no client configuration in YAML or JSON"))
    }

    /// The cluster and the user of the current context.
    fn current<'a>(&self, config: &'a Value) -> Result<(&'a Value, &'a Value), TargetFileError> {
        let current = config["current-context"].as_str().unwrap_or_default();
        let context = self.entry(config, "contexts", current, "context")?;
        let name = |member: &str| context[member].as_str().unwrap_or_default();
        let cluster = self.entry(config, "clusters", name("cluster"), "cluster")?;
        let user = match name("user") {
            "" => &NO_USER,
            name => self.entry(config, "users", name, "user")?,
        };
        Ok((cluster, user))
    }

    fn fault(&self, field: &'static str, reason: impl Into<String>) -> TargetFileError {
        TargetFileError::Content { path: self.path.to_owned(), field, reason: reason.into() }
    }

    /// The member `member` of the entry called `name` in the list `list`.
    fn entry<'a>(
        &self,
        config: &'a Value,
        list: &'static str,
        name: &str,
        member: &str,
    ) -> Result<&'a Value, TargetFileError> {
        let entries = config[list].as_array().into_iter().flatten();
        let entry = entries.into_iter().find(|entry| entry["name"].as_str() == Some(name));
        entry
            .map(|entry| &entry[member])
            .ok_or_else(|| self.fault(list, format!("there is none called {name:?}")))
    }

    /// The text embedded as `FIELD-data`, or that of the file named as `FIELD`; relative to the configuration's directory.
    fn data(&self, entry: &Value, field: &'static str) -> Result<Option<Material>, TargetFileError> {
        if let Some(text) = entry[format!("{field}-data")].as_str().filter(|text| !text.is_empty()) {
            let pem =
                STANDARD.decode(text.trim()).map_err(|_| self.fault(field, "its data is not base64"))?;
            return Ok(Some(Material { path: self.path.to_owned(), pem }));
        }
        let Some(name) = entry[field].as_str().filter(|name| !name.is_empty()) else { return Ok(None) };
        let path = self.beside(name);
        Ok(Some(Material { pem: read_file(&path)?, path }))
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }

    fn credentials(&self, user: &Value) -> Result<Credentials, TargetFileError> {
        let text = |member: &str| user[member].as_str().filter(|text| !text.is_empty());
        match (text("token"), text("tokenFile"), text("username")) {
            (Some(token), _, _) => {
                Credentials::bearer(token).ok_or_else(|| self.fault("token", "it cannot be sent in a header"))
            }
            (None, Some(file), _) => Ok(Credentials::TokenFile(self.beside(file))),
            (None, None, Some(name)) => Credentials::basic(name, text("password").unwrap_or_default())
                .ok_or_else(|| self.fault("username", "it cannot be sent in a header")),
            (None, None, None) => Ok(Credentials::None),
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, TargetFileError> {
    files::read(path, FILE_BYTES_MAX).map_err(|source| {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::FileTooLarge => {
                TargetFileError::Content { path, field: "file", reason: source.to_string() }
            }
            _ => TargetFileError::Unreadable { path, source },
        }
    })
}
