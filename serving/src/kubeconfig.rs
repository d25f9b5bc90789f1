//! Reads client configuration files (kubeconfig format).
//!
//! Owns the file's form: which members it has, that each may be absent or `null` (which programs write for what is empty), and that
//! the current context leads to a cluster and a user. Members that a program does not follow are there to be refused by name. It opens no file and checks no certificate;
//! the programs own what the members mean to them, and the messages. The form of a program that gives credentials is `E`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::secret::Secret;

/// A client configuration file.
#[derive(Deserialize)]
#[serde(bound(deserialize = "E: Deserialize<'de>"))]
pub struct File<E = IgnoredAny> {
    /// Name of the context that counts unless another is named; may be empty.
    #[serde(rename = "current-context", default, deserialize_with = "or_empty")]
    pub current_context: String,
    /// Clusters by name.
    #[serde(default, deserialize_with = "or_empty")]
    pub clusters: Vec<Named<Cluster>>,
    /// Users by name.
    #[serde(default, deserialize_with = "or_empty")]
    pub users: Vec<Named<User<E>>>,
    /// Contexts by name.
    #[serde(default, deserialize_with = "or_empty")]
    pub contexts: Vec<Named<Context>>,
}

/// An entry with its name.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de> + Default"))]
pub struct Named<T> {
    /// Its name.
    #[serde(default, deserialize_with = "or_empty")]
    pub name: String,
    /// The entry: the member `cluster`, `user` or `context`; empty where that is absent, as of a user without credentials.
    #[serde(alias = "cluster", alias = "user", alias = "context", default, deserialize_with = "or_empty")]
    pub entry: T,
}

/// A cluster: its server, and how the server is verified.
#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    /// URL of the server.
    #[serde(deserialize_with = "or_empty")]
    pub server: String,
    /// Name that the server's certificate must have, if not that of the URL.
    pub tls_server_name: Option<String>,
    /// Whether any certificate is accepted.
    #[serde(deserialize_with = "or_empty")]
    pub insecure_skip_tls_verify: bool,
    /// File of the authorities.
    pub certificate_authority: Option<PathBuf>,
    /// The authorities, PEM in base64; wins over the file.
    pub certificate_authority_data: Option<Secret>,
    /// URL of a proxy.
    pub proxy_url: Option<String>,
}

/// A user's credentials.
#[derive(Deserialize, Clone)]
#[serde(rename_all = "kebab-case", bound(deserialize = "E: Deserialize<'de>"))]
pub struct User<E = IgnoredAny> {
    /// File of the client certificate.
    pub client_certificate: Option<PathBuf>,
    /// The client certificate, PEM in base64; wins over the file.
    pub client_certificate_data: Option<Secret>,
    /// File of its key.
    pub client_key: Option<PathBuf>,
    /// Its key, PEM in base64; wins over the file.
    pub client_key_data: Option<Secret>,
    /// A bearer token.
    pub token: Option<Secret>,
    /// File of a bearer token.
    #[serde(rename = "tokenFile")]
    pub token_file: Option<PathBuf>,
    /// Name of a user with a password.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// User to impersonate.
    #[serde(rename = "as")]
    pub impersonate: Option<String>,
    /// Uid to impersonate.
    pub as_uid: Option<String>,
    /// Groups to impersonate.
    #[serde(default, deserialize_with = "or_empty")]
    pub as_groups: Vec<String>,
    /// Further attributes to impersonate.
    #[serde(default, deserialize_with = "or_empty")]
    pub as_user_extra: BTreeMap<String, Vec<String>>,
    /// A plugin of older clients.
    pub auth_provider: Option<IgnoredAny>,
    /// A program that prints credentials.
    pub exec: Option<E>,
}

impl<E> Default for User<E> {
    fn default() -> User<E> {
        User {
            client_certificate: None,
            client_certificate_data: None,
            client_key: None,
            client_key_data: None,
            token: None,
            token_file: None,
            username: None,
            password: None,
            impersonate: None,
            as_uid: None,
            as_groups: Vec::new(),
            as_user_extra: BTreeMap::new(),
            auth_provider: None,
            exec: None,
        }
    }
}

/// A cluster and a user together.
#[derive(Deserialize, Default, Clone)]
#[serde(default)]
pub struct Context {
    /// Name of the cluster.
    #[serde(deserialize_with = "or_empty")]
    pub cluster: String,
    /// Name of the user; may be empty.
    #[serde(deserialize_with = "or_empty")]
    pub user: String,
    /// Namespace of requests that name none; may be empty.
    #[serde(deserialize_with = "or_empty")]
    pub namespace: String,
}

/// A member that programs write as `null` where it is empty.
fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the file's text, in YAML or JSON.
///
/// # Errors
/// `text` is neither, or a member has another type. The error may quote a member, which may be a secret.
pub fn parse<E: for<'de> Deserialize<'de>>(text: &str) -> Result<File<E>, serde_norway::Error> {
    serde_norway::from_str(text)
}

/// The entry called `name`, the first of several.
pub fn find<'a, T>(name: &str, entries: &'a [Named<T>]) -> Option<&'a T> {
    // few: the clusters, users and contexts of an operator's file.
    entries.iter().find(|named| named.name == name).map(|named| &named.entry)
}

/// Embedded data is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its data is not base64")]
pub struct NotBase64;

/// PEM that an entry embeds, or the file that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Material {
    /// The bytes.
    Embedded(Vec<u8>),
    /// The path, relative to the configuration's folder.
    File(PathBuf),
}

/// The material of `data`, or else that of `file`; `None` where both are absent or empty.
///
/// # Errors
/// `data` is not base64.
pub fn material(data: Option<&Secret>, file: Option<&PathBuf>) -> Result<Option<Material>, NotBase64> {
    if let Some(data) = data.filter(|data| !data.expose().is_empty()) {
        let bytes = STANDARD.decode(data.expose().trim()).map_err(|_| NotBase64)?;
        return Ok(Some(Material::Embedded(bytes)));
    }
    Ok(file.filter(|file| !file.as_os_str().is_empty()).cloned().map(Material::File))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_name_and_empty_lists_may_be_null() {
        let text = "current-context: a\nusers: null\ncontexts: [{name: a, context: {cluster: c}}]\n\
            clusters: [{name: c, cluster: {server: 'https://a:1', insecure-skip-tls-verify: true}}]\n";
        let file: File = parse(text).unwrap();
        let context = find(&file.current_context, &file.contexts).unwrap();
        let cluster = find(&context.cluster, &file.clusters).unwrap();
        assert_eq!((cluster.server.as_str(), cluster.insecure_skip_tls_verify), ("https://a:1", true));
        assert!(file.users.is_empty() && find("other", &file.clusters).is_none());
        let json = serde_json::json!({"users": [{"name": "u", "user": {"token": "t", "as-groups": null}}]});
        let file: File = parse(&json.to_string()).unwrap();
        let user = find("u", &file.users).unwrap();
        assert_eq!(user.token, Some(Secret::new("t")));
    }

    #[test]
    fn members_and_entries_may_be_null_or_absent() {
        let text = "current-context: a\npreferences: null\nusers: [{name: u, user: null}, {name: v}]\n\
            contexts: [{name: a, context: {cluster: c, user: u, namespace: null}}, {name: b, context: null}]\n\
            clusters: [{name: c, cluster: {server: null, insecure-skip-tls-verify: null}}, {name: d, cluster: null}]\n";
        let file: File = parse(text).unwrap();
        for name in ["u", "v"] {
            let user = find(name, &file.users).unwrap();
            assert!(user.token.is_none() && user.as_groups.is_empty() && user.exec.is_none(), "{name}");
        }
        let context = find("a", &file.contexts).unwrap();
        assert_eq!((context.user.as_str(), context.namespace.as_str()), ("u", ""));
        assert_eq!(find("b", &file.contexts).unwrap().cluster, "");
        let cluster = find("c", &file.clusters).unwrap();
        assert_eq!((cluster.server.as_str(), cluster.insecure_skip_tls_verify), ("", false));
        assert_eq!(find("d", &file.clusters).unwrap().server, "");
        let file: File = parse("current-context: null\nclusters: null").unwrap();
        assert!(file.current_context.is_empty() && file.clusters.is_empty());
    }

    #[test]
    fn embedded_data_wins_over_a_file() {
        let (data, file) = (Secret::new(" QUJD\n"), PathBuf::from("ca.crt"));
        let embedded = Material::Embedded(b"ABC".to_vec());
        assert_eq!(material(Some(&data), Some(&file)), Ok(Some(embedded)));
        let empty = Secret::new("");
        assert_eq!(material(Some(&empty), Some(&file)), Ok(Some(Material::File(file))));
        assert_eq!(material(None, Some(&PathBuf::new())), Ok(None));
        assert_eq!(material(Some(&Secret::new("%")), None), Err(NotBase64));
    }
}
