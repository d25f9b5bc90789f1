//! Client configuration files (kubeconfig format).
//!
//! Owns the meaning of the file's fields to this client; the form is [`orch_serving::kubeconfig`]. A cluster's `server` may list addresses
//! separated by commas: members of one cluster, of which any may answer (a project's own extension; a file with one
//! address reads the same everywhere). Paths are relative to the file's folder. Of a user's credentials a certificate
//! and one of token, token file, password and program may stand side by side; a token file wins over a token.
//!
//! Settings that cannot be followed are refused, never ignored: a proxy, an authentication provider.

use std::path::{Path, PathBuf};

use http::uri::Scheme;
use orch_serving::Secret;
use orch_serving::files;
use orch_serving::kubeconfig::{self, Cluster, Context, File, Material, Named, User, material};

use super::config::{Bearer, Certificate, Config, ConfigError, Impersonation, Pem, Trust};
use super::endpoint::Endpoint;
use super::exec::ExecPlugin;

/// Longest file: real ones have a few kilobytes, with dozens of clusters some hundreds.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads the configuration file at `path`, and in it `context`, or the current one if that is `None`. Addresses in
/// `master`, a list as in `--master`, take the place of those in the file.
///
/// # Errors
/// Those of [`ConfigError`]; none repeats a secret.
pub fn from_file(path: &Path, context: Option<&str>, master: Option<&str>) -> Result<Config, ConfigError> {
    let unreadable = |source| ConfigError::File { path: path.to_owned(), source };
    let text = files::read_text(path, FILE_BYTES_MAX).map_err(unreadable)?;
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
    let file: File<ExecPlugin> = kubeconfig::parse(text).map_err(ConfigError::Format)?;
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
    kubeconfig::find(name, all).ok_or_else(|| ConfigError::Missing { what, name: name.to_owned() })
}

fn trust(cluster: &Cluster, folder: &Path) -> Result<Trust, ConfigError> {
    let (data, file) = (&cluster.certificate_authority_data, &cluster.certificate_authority);
    let authority = pem("certificate-authority-data", data, file, folder)?;
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

fn certificate(user: &User<ExecPlugin>, folder: &Path) -> Result<Option<Certificate>, ConfigError> {
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

fn bearer(user: &User<ExecPlugin>, folder: &Path) -> Result<Bearer, ConfigError> {
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
    match material(data.as_ref(), file.as_ref()).map_err(|_| invalid("not valid base64"))? {
        Some(Material::Embedded(bytes)) => {
            let text = String::from_utf8(bytes).map_err(|_| invalid("not PEM"))?;
            Ok(Some(Pem::Inline(Secret::new(text))))
        }
        Some(Material::File(file)) => Ok(Some(Pem::File(folder.join(file)))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
