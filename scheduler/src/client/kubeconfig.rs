//! Client configuration files (kubeconfig format).
//!
//! Owns the file's form and what its fields mean to this client. The `server` of a cluster may list several addresses
//! separated by commas: members of one cluster, of which any may answer (a project's own extension; a file with one
//! address reads the same everywhere). Paths are relative to the file's folder. Of a user's credentials a certificate
//! and one of token, token file, password and program may stand side by side; a token file wins over a token.
//!
//! Settings that cannot be followed are refused, never ignored: a proxy, an authentication provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::Scheme;
use serde::{Deserialize, Deserializer};

use super::config::{Bearer, Certificate, Config, ConfigError, Impersonation, Pem, Trust};
use super::endpoint::Endpoint;
use super::exec::ExecPlugin;
use super::secret::Secret;

/// Longest file: real ones have a few kilobytes, with dozens of clusters some hundreds.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "current-context", default)]
    current_context: String,
    #[serde(default, deserialize_with = "or_empty")]
    clusters: Vec<Named<Cluster>>,
    #[serde(default, deserialize_with = "or_empty")]
    users: Vec<Named<User>>,
    #[serde(default, deserialize_with = "or_empty")]
    contexts: Vec<Named<Context>>,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "user", alias = "context")]
    entry: T,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    tls_server_name: Option<String>,
    insecure_skip_tls_verify: bool,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<Secret>,
    client_key: Option<PathBuf>,
    client_key_data: Option<Secret>,
    token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<Secret>,
    #[serde(rename = "as")]
    impersonate: Option<String>,
    as_uid: Option<String>,
    #[serde(deserialize_with = "or_empty")]
    as_groups: Vec<String>,
    #[serde(deserialize_with = "or_empty")]
    as_user_extra: BTreeMap<String, Vec<String>>,
    auth_provider: Option<serde::de::IgnoredAny>,
    exec: Option<ExecPlugin>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
    namespace: String,
}

/// A list that programs write as `null` where it is empty.
fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the configuration file at `path`, and in it `context`, or the current one if that is `None`. Addresses in
/// `master`, a list as in `--master`, take the place of those in the file.
///
/// # Errors
/// Those of [`ConfigError`]; none repeats a secret.
pub fn from_file(path: &Path, context: Option<&str>, master: Option<&str>) -> Result<Config, ConfigError> {
    let unreadable = |source| ConfigError::File { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable(std::io::Error::other(format!("it has over {FILE_BYTES_MAX} bytes"))));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    from_text(&text, path.parent().unwrap_or(Path::new("")), context, master)
}

/// Reads the configuration in `text`, whose paths are relative to `folder`. With a `master` the text may lack what it
/// stands for: the server, the cluster, or the context.
///
/// # Errors
/// Those of [`ConfigError`]; none repeats a secret.
pub fn from_text(
    text: &str,
    folder: &Path,
    context: Option<&str>,
    master: Option<&str>,
) -> Result<Config, ConfigError> {
    let file: File = serde_norway::from_str(text).map_err(ConfigError::Format)?;
    let context = match context.unwrap_or(&file.current_context) {
        "" if master.is_some() => &Context::default(),
        "" => return Err(ConfigError::NoContext),
        name => find("context", name, &file.contexts)?,
    };
    let cluster = match context.cluster.as_str() {
        "" if master.is_some() => &Cluster::default(),
        name => find("cluster", name, &file.clusters)?,
    };
    let user = match context.user.as_str() {
        "" => &User::default(),
        name => find("user", name, &file.users)?,
    };
    if cluster.proxy_url.as_deref().is_some_and(|url| !url.is_empty()) {
        return Err(ConfigError::Unsupported {
            field: "proxy-url",
            advice: "give an address that can be reached without a proxy",
        });
    }
    let (trust, certificate) = (trust(cluster, folder)?, certificate(user, folder)?);
    let has_tls = trust != Trust::System || certificate.is_some();
    let scheme = if has_tls { Scheme::HTTPS } else { Scheme::HTTP };
    let mut config = Config::new(Endpoint::parse_list(master.unwrap_or(&cluster.server), &scheme)?);
    config.trust = trust;
    config.tls_server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
    config.certificate = certificate;
    config.bearer = bearer(user, folder)?;
    config.impersonation = Impersonation {
        user: user.impersonate.clone().unwrap_or_default(),
        uid: user.as_uid.clone().unwrap_or_default(),
        groups: user.as_groups.clone(),
        extra: user.as_user_extra.clone(),
    };
    config.namespace.clone_from(&context.namespace);
    Ok(config)
}

fn find<'a, T>(what: &'static str, name: &str, all: &'a [Named<T>]) -> Result<&'a T, ConfigError> {
    let found = all.iter().find(|named| named.name == name);
    found.map(|named| &named.entry).ok_or_else(|| ConfigError::Missing { what, name: name.to_owned() })
}

fn trust(cluster: &Cluster, folder: &Path) -> Result<Trust, ConfigError> {
    let data = cluster.certificate_authority_data.as_deref().map(Secret::new);
    let authority = pem("certificate-authority-data", &data, &cluster.certificate_authority, folder)?;
    match (authority, cluster.insecure_skip_tls_verify) {
        (Some(_), true) => Err(ConfigError::Invalid {
            field: "insecure-skip-tls-verify",
            problem: "a certificate authority is given as well, which would never be asked".to_owned(),
        }),
        (None, true) => Ok(Trust::Anyone),
        (Some(authority), false) => Ok(Trust::Authority(authority)),
        (None, false) => Ok(Trust::System),
    }
}

fn certificate(user: &User, folder: &Path) -> Result<Option<Certificate>, ConfigError> {
    let chain =
        pem("client-certificate-data", &user.client_certificate_data, &user.client_certificate, folder)?;
    let key = pem("client-key-data", &user.client_key_data, &user.client_key, folder)?;
    match (chain, key) {
        (Some(chain), Some(key)) => Ok(Some(Certificate { chain, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::Invalid {
            field: "client-key",
            problem: "missing beside a certificate".to_owned(),
        }),
        (None, Some(_)) => Err(ConfigError::Invalid {
            field: "client-certificate",
            problem: "missing beside a private key".to_owned(),
        }),
    }
}

fn bearer(user: &User, folder: &Path) -> Result<Bearer, ConfigError> {
    if user.auth_provider.is_some() {
        return Err(ConfigError::Unsupported {
            field: "auth-provider",
            advice: "use an exec plugin instead",
        });
    }
    let password = user.username.as_deref().filter(|name| !name.is_empty());
    let token = user.token.as_ref().filter(|token| !token.expose().is_empty());
    let fixed = [token.is_some() || user.token_file.is_some(), password.is_some(), user.exec.is_some()];
    if fixed.into_iter().filter(|given| *given).count() > 1 {
        return Err(ConfigError::Invalid {
            field: "user",
            problem: "only one of token, username and exec may be given".to_owned(),
        });
    }
    if let Some(file) = &user.token_file {
        return Ok(Bearer::File(folder.join(file)));
    }
    if let Some(token) = token {
        return Ok(Bearer::Token(token.clone()));
    }
    if let Some(username) = password {
        let password = user.password.clone().unwrap_or(Secret::new(""));
        return Ok(Bearer::Basic { username: username.to_owned(), password });
    }
    match &user.exec {
        Some(exec) => Ok(Bearer::Exec(Box::new(exec.clone().resolved(folder)?))),
        None => Ok(Bearer::None),
    }
}

/// The embedded data, or else the file.
fn pem(
    field: &'static str,
    data: &Option<Secret>,
    file: &Option<PathBuf>,
    folder: &Path,
) -> Result<Option<Pem>, ConfigError> {
    let invalid = |problem: &str| ConfigError::Invalid { field, problem: problem.to_owned() };
    if let Some(data) = data.as_ref().filter(|data| !data.expose().is_empty()) {
        let bytes = STANDARD.decode(data.expose().trim()).map_err(|_| invalid("not valid base64"))?;
        let text = String::from_utf8(bytes).map_err(|_| invalid("not PEM"))?;
        return Ok(Some(Pem::Inline(Secret::new(text))));
    }
    let file = file.as_ref().filter(|file| !file.as_os_str().is_empty());
    Ok(file.map(|file| Pem::File(folder.join(file))))
}

#[cfg(test)]
mod tests;
