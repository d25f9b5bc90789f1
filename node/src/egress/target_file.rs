//! Reads a client configuration file (kubeconfig) that names one server to ask, or only the certificates in it.
//!
//! Owns which members of the file count: the cluster and the user of the current context. Members that would weaken or
//! run something (`insecure-skip-tls-verify`, `exec`, `auth-provider`), or that would ask in another user's name (`as`), are
//! refused by name. No error quotes a secret.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orch_api::egress::{Reach, Url};
use orch_serving::Secret;
use orch_serving::files;
use orch_serving::kubeconfig::{self, Cluster, File, Named, User};

use super::{Credentials, Target, Trust, TrustError};

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
    if cluster.server.is_empty() {
        return Err(file.fault("server", "it is missing"));
    }
    let url = Url::parse(&cluster.server).map_err(|fault| file.fault("server", fault.to_string()))?;
    if cluster.insecure_skip_tls_verify {
        let reason = "servers are always verified; name their authority in certificate-authority";
        return Err(file.fault("insecure-skip-tls-verify", reason));
    }
    if cluster.proxy_url.as_deref().is_some_and(|url| !url.is_empty()) {
        return Err(file.fault("proxy-url", "servers are reached directly"));
    }
    let Identity { pair, credentials } = file.identity(&user)?;
    let authority = file.authority(cluster)?;
    let pair = pair.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
    let trust = Trust::new(authority.as_ref().map(|authority| authority.pem.as_slice()), pair)
        .map_err(|source| TargetFileError::Trust { path: path.to_owned(), source })?;
    let server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
    let target = Target::new(Reach::of([&url]), &trust, credentials).named(server_name);
    Ok(TargetFile { target, url })
}

/// Who this server is to another one. Keys are not shown.
pub(super) struct Identity {
    /// Client certificate and key, in PEM.
    pub(super) pair: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) credentials: Credentials,
}

/// The users of a client configuration.
pub(super) struct Users {
    /// By name.
    pub(super) named: Vec<(String, Identity)>,
    /// The name of the user of the current context; empty without one.
    pub(super) current: String,
}

/// Reads the users of the client configuration at `path`.
///
/// # Errors
/// The file, or one that it names, cannot be read or used.
pub(super) fn read_users(path: &Path) -> Result<Users, TargetFileError> {
    let file = Reader { path };
    let config = file.config()?;
    let mut named = Vec::new();
    for user in &config.users {
        let identity = file.identity(&user.entry)?;
        let pair = identity.pair.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        // A pair that cannot be used is refused at the start.
        Trust::unverified(pair).map_err(|source| TargetFileError::Trust { path: path.to_owned(), source })?;
        named.push((user.name.clone(), identity));
    }
    let current = match config.current_context.as_str() {
        "" => String::new(),
        name => file.entry("contexts", name, &config.contexts)?.user.clone(),
    };
    Ok(Users { named, current })
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
    Ok(TargetCertificates { authority: file.authority(cluster)?, client: file.client_certificate(&user)? })
}

struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn config(&self) -> Result<File, TargetFileError> {
        let malformed = || self.fault("file", "it is no client configuration in YAML or JSON");
        let text = String::from_utf8(read_file(self.path)?).map_err(|_| malformed())?;
        // The parser's error may quote a secret.
        kubeconfig::parse(&text).map_err(|_| malformed())
    }

    /// The cluster and the user of the current context.
    fn current<'a>(&self, config: &'a File) -> Result<(&'a Cluster, User), TargetFileError> {
        let context = self.entry("contexts", &config.current_context, &config.contexts)?;
        let cluster = self.entry("clusters", &context.cluster, &config.clusters)?;
        let user = match context.user.as_str() {
            "" => User::default(),
            name => self.entry("users", name, &config.users)?.clone(),
        };
        Ok((cluster, user))
    }

    /// The certificate and the credentials of `user`.
    fn identity(&self, user: &User) -> Result<Identity, TargetFileError> {
        if user.exec.is_some() {
            return Err(self.fault("exec", "no program is run for credentials"));
        }
        if user.auth_provider.is_some() {
            return Err(self.fault("auth-provider", "it is not known"));
        }
        let asks_as = [
            ("as", is_given(&user.impersonate)),
            ("as-uid", is_given(&user.as_uid)),
            ("as-groups", !user.as_groups.is_empty()),
            ("as-user-extra", !user.as_user_extra.is_empty()),
        ];
        if let Some((field, _)) = asks_as.into_iter().find(|(_, is_given)| *is_given) {
            return Err(self.fault(field, "no other user is impersonated; give that user's own credentials"));
        }
        let certificate = self.client_certificate(user)?;
        let key = self.data("client-key", &user.client_key_data, &user.client_key)?;
        let pair = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate.pem, key.pem)),
            (None, None) => None,
            (Some(_), None) => return Err(self.fault("client-key", "it is missing")),
            (None, Some(_)) => return Err(self.fault("client-certificate", "it is missing")),
        };
        Ok(Identity { pair, credentials: self.credentials(user)? })
    }

    fn fault(&self, field: &'static str, reason: impl Into<String>) -> TargetFileError {
        TargetFileError::Content { path: self.path.to_owned(), field, reason: reason.into() }
    }

    /// The entry called `name` of the list `list`.
    fn entry<'a, T>(
        &self,
        list: &'static str,
        name: &str,
        entries: &'a [Named<T>],
    ) -> Result<&'a T, TargetFileError> {
        kubeconfig::find(name, entries)
            .ok_or_else(|| self.fault(list, format!("there is none called {name:?}")))
    }

    fn authority(&self, cluster: &Cluster) -> Result<Option<Material>, TargetFileError> {
        let (data, file) = (&cluster.certificate_authority_data, &cluster.certificate_authority);
        self.data("certificate-authority", data, file)
    }

    fn client_certificate(&self, user: &User) -> Result<Option<Material>, TargetFileError> {
        self.data("client-certificate", &user.client_certificate_data, &user.client_certificate)
    }

    /// The embedded text of `field`, or that of the file that it names; relative to the configuration's directory.
    fn data(
        &self,
        field: &'static str,
        data: &Option<Secret>,
        file: &Option<PathBuf>,
    ) -> Result<Option<Material>, TargetFileError> {
        let found = kubeconfig::material(data.as_ref(), file.as_ref());
        match found.map_err(|fault| self.fault(field, fault.to_string()))? {
            Some(kubeconfig::Material::Embedded(pem)) => {
                Ok(Some(Material { path: self.path.to_owned(), pem }))
            }
            Some(kubeconfig::Material::File(name)) => {
                let path = self.beside(&name);
                Ok(Some(Material { pem: read_file(&path)?, path }))
            }
            None => Ok(None),
        }
    }

    fn beside(&self, name: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }

    fn credentials(&self, user: &User) -> Result<Credentials, TargetFileError> {
        let text = |text: &Option<Secret>| {
            text.as_ref().map(Secret::expose).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let file = user.token_file.as_ref().filter(|file| !file.as_os_str().is_empty());
        let name = user.username.as_ref().filter(|name| !name.is_empty());
        match (text(&user.token), file, name) {
            (Some(token), _, _) => Credentials::bearer(&token)
                .ok_or_else(|| self.fault("token", "it cannot be sent in a header")),
            (None, Some(file), _) => Ok(Credentials::TokenFile(self.beside(file))),
            (None, None, Some(name)) => Credentials::basic(name, &text(&user.password).unwrap_or_default())
                .ok_or_else(|| self.fault("username", "it cannot be sent in a header")),
            (None, None, None) => Ok(Credentials::None),
        }
    }
}

fn is_given(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
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
