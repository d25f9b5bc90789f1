//! The encryption configuration: which keys encrypt the records of which resources.
//!
//! Owns the file's form, that of the reference (`EncryptionConfiguration`), and what is wrong with one. It encrypts
//! nothing, and no error names a key's secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::brand::{KUBERNETES, ORCH};
use serde::Deserialize;

use super::cipher::Algorithm;
use super::kms::{FileKms, PluginConfig};

/// Bytes of the largest file: a few hundred keys.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a configuration is refused: a field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct ConfigError {
    field: String,
    reason: String,
}

impl ConfigError {
    pub(super) fn at(field: impl Into<String>, reason: impl Into<String>) -> Self {
        ConfigError { field: field.into(), reason: reason.into() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    api_version: String,
    kind: String,
    resources: Vec<FileEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    resources: Vec<String>,
    providers: Vec<FileProvider>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileProvider {
    aesgcm: Option<FileKeys>,
    secretbox: Option<FileKeys>,
    aescbc: Option<serde_json::Value>,
    kms: Option<FileKms>,
    identity: Option<Nothing>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKeys {
    keys: Vec<FileKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKey {
    name: String,
    secret: String,
}

impl Algorithm {
    /// The provider's name in the file.
    pub(super) fn provider(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "aesgcm",
            Algorithm::XChaCha => "secretbox",
        }
    }
}

/// A key.
pub(super) struct Key {
    /// `PROVIDER:NAME`: what records and messages call it.
    pub(super) name: String,
    /// How it encrypts.
    pub(super) algorithm: Algorithm,
    /// The key itself, of a length that the algorithm takes.
    pub(super) secret: Vec<u8>,
}

/// A provider in the order of its entry.
pub(super) enum Provider {
    /// Keys, by their place in [`Config::keys`]; the first one writes.
    Keys(Vec<usize>),
    /// The data keys of a plugin, by its place in [`Config::plugins`].
    Kms(usize),
    /// Records in clear.
    Identity,
}

/// Resources with their providers, of which the first one writes.
pub(super) struct Entry {
    patterns: Vec<Pattern>,
    /// The providers, at least one.
    pub(super) providers: Vec<Provider>,
}

/// A parsed configuration.
pub(super) struct Config {
    /// Every key, each name once.
    pub(super) keys: Vec<Key>,
    /// Every KMS plugin, each name once.
    pub(super) plugins: Vec<PluginConfig>,
    /// The entries; the first that matches a resource counts.
    pub(super) entries: Vec<Entry>,
}

/// Resources of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    One(Name),
    /// All of a group; the empty one is the core group.
    Group(Name),
    All,
}

/// A resource or group. The store's names of built-in groups lack the domain of the cluster's brand. Which brand that is, is
/// not known when a member joins or a stopped one is rewritten: the domain of either brand is taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    written: String,
    stored: String,
}

impl Name {
    fn new(text: &str) -> Name {
        let domains = [&ORCH, &KUBERNETES].map(|brand| format!(".{}", brand.group_domain));
        let stored = domains.iter().find_map(|domain| text.strip_suffix(domain)).unwrap_or(text);
        Name { written: text.to_owned(), stored: stored.to_owned() }
    }

    fn is(&self, name: &str) -> bool {
        self.stored == name || self.written == name
    }
}

impl Pattern {
    /// The pattern that `text` spells: `secrets`, `roles.GROUP`, `*.`, `*.GROUP` or `*.*`; or else what is wrong with it.
    fn parse(text: &str) -> Result<Pattern, &'static str> {
        let unknown =
            "names no resources; write it like secrets, deployments.apps, *. (the core group), *.apps or *.*";
        let events = "names no resources of the store, where events of both groups are called events";
        if text.chars().any(char::is_uppercase) {
            return Err("has capital letters, which no resource has");
        }
        match text {
            "" | "*" => Err(unknown),
            "*.*" => Ok(Pattern::All),
            text => match text.strip_prefix("*.").map(Name::new) {
                Some(group) if group.stored == "events" => Err(events),
                Some(group) => Ok(Pattern::Group(group)),
                None if text.contains(['*', '/']) => Err(unknown),
                None => Some(Name::new(text))
                    .filter(|name| name.stored != "events.events")
                    .map(Pattern::One)
                    .ok_or(events),
            },
        }
    }

    fn covers(&self, resource: &str) -> bool {
        // That of a custom kind ends in a dot.
        let resource = resource.strip_suffix('.').unwrap_or(resource);
        let group = resource.split_once('.').map_or("", |(_, group)| group);
        match self {
            Pattern::One(own) => own.is(resource),
            Pattern::Group(own) => own.is(group),
            Pattern::All => true,
        }
    }
}

impl Entry {
    /// Whether the entry is about the resource called `resource` in the store.
    pub(super) fn covers(&self, resource: &str) -> bool {
        // few: the resources of one entry.
        self.patterns.iter().any(|pattern| pattern.covers(resource))
    }
}

impl Config {
    /// Parses the file of `--encryption-provider-config`, in YAML or JSON.
    ///
    /// # Errors
    /// The field that is wrong.
    pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
        // The parser's message may quote the text around a fault, and so a secret: it is left out.
        let file: File = serde_saphyr::from_str(text)
            .map_err(|_| ConfigError::at("file", "it is no EncryptionConfiguration in YAML or JSON"))?;
        if file.kind != "EncryptionConfiguration" || !file.api_version.ends_with("/v1") {
            return Err(ConfigError::at("kind", "an EncryptionConfiguration of version v1 is expected"));
        }
        if file.resources.is_empty() {
            return Err(ConfigError::at("resources", "at least one entry is needed"));
        }
        let mut config = Config { keys: Vec::new(), plugins: Vec::new(), entries: Vec::new() };
        for (at, entry) in file.resources.into_iter().enumerate() {
            let parsed = config.entry(entry, &format!("resources[{at}]"))?;
            config.entries.push(parsed);
        }
        Ok(config)
    }

    fn entry(&mut self, entry: FileEntry, path: &str) -> Result<Entry, ConfigError> {
        let mut patterns = Vec::new();
        for (at, text) in entry.resources.iter().enumerate() {
            let field = format!("{path}.resources[{at}]");
            let pattern = Pattern::parse(text)
                .map_err(|reason| ConfigError::at(&field, format!("{text:?} {reason}")))?;
            if patterns.contains(&pattern) {
                return Err(ConfigError::at(field, format!("{text:?} stands there twice")));
            }
            patterns.push(pattern);
        }
        if patterns.is_empty() {
            return Err(ConfigError::at(format!("{path}.resources"), "at least one resource is needed"));
        }
        let mut providers = Vec::new();
        for (at, provider) in entry.providers.into_iter().enumerate() {
            providers.push(self.provider(provider, &format!("{path}.providers[{at}]"))?);
        }
        if providers.is_empty() {
            return Err(ConfigError::at(format!("{path}.providers"), "at least one provider is needed"));
        }
        Ok(Entry { patterns, providers })
    }

    fn provider(&mut self, provider: FileProvider, path: &str) -> Result<Provider, ConfigError> {
        let FileProvider { aesgcm, secretbox, aescbc, kms, identity } = provider;
        if aescbc.is_some() {
            let reason =
                "aescbc does not authenticate what it encrypts and is not supported; use aesgcm or secretbox";
            return Err(ConfigError::at(path, reason));
        }
        match (aesgcm, secretbox, kms, identity) {
            (Some(keys), None, None, None) => self.keys_of(keys, Algorithm::AesGcm, path),
            (None, Some(keys), None, None) => self.keys_of(keys, Algorithm::XChaCha, path),
            (None, None, Some(kms), None) => self.plugin_of(kms, path),
            (None, None, None, Some(Nothing {})) => Ok(Provider::Identity),
            _ => Err(ConfigError::at(path, "exactly one of aesgcm, secretbox, kms and identity is expected")),
        }
    }

    fn plugin_of(&mut self, kms: FileKms, path: &str) -> Result<Provider, ConfigError> {
        let plugin = PluginConfig::parse(kms, path)?;
        // few: the plugins of a file.
        if self.plugins.iter().any(|other| other.name == plugin.name) {
            let reason = format!("duplicate KMS provider name {}, names must be unique", plugin.name);
            return Err(ConfigError::at(format!("{path}.kms.name"), reason));
        }
        self.plugins.push(plugin);
        Ok(Provider::Kms(self.plugins.len() - 1))
    }

    /// Whether the plugin at this place encrypts new records.
    pub(super) fn writes(&self, plugin: usize) -> bool {
        let first =
            |entry: &Entry| matches!(entry.providers.first(), Some(Provider::Kms(at)) if *at == plugin);
        // few: the entries of a file.
        self.entries.iter().any(first)
    }

    fn keys_of(&mut self, keys: FileKeys, algorithm: Algorithm, path: &str) -> Result<Provider, ConfigError> {
        let mut places = Vec::new();
        for (at, FileKey { name, secret }) in keys.keys.into_iter().enumerate() {
            let field = format!("{path}.{}.keys[{at}]", algorithm.provider());
            if name.is_empty() || name.len() > 128 || name.contains(':') {
                let reason = "a name of 1 to 128 bytes without colons is needed";
                return Err(ConfigError::at(format!("{field}.name"), reason));
            }
            let secret = STANDARD.decode(secret.trim());
            let secret = secret.map_err(|_| ConfigError::at(format!("{field}.secret"), "it is no base64"))?;
            let lengths: &[usize] = if algorithm == Algorithm::AesGcm { &[16, 32] } else { &[32] };
            // few: two lengths.
            if !lengths.contains(&secret.len()) {
                let reason = format!("{} bytes are given, {lengths:?} are expected", secret.len());
                return Err(ConfigError::at(format!("{field}.secret"), reason));
            }
            let name = format!("{}:{name}", algorithm.provider());
            // few: the keys of a file.
            match self.keys.iter().position(|key| key.name == name) {
                Some(place) if self.keys[place].secret != secret => {
                    let reason = "another key has this name";
                    return Err(ConfigError::at(format!("{field}.name"), reason));
                }
                Some(place) => places.push(place),
                None => {
                    self.keys.push(Key { name, algorithm, secret });
                    places.push(self.keys.len() - 1);
                }
            }
        }
        if places.is_empty() {
            return Err(ConfigError::at(format!("{path}.{}.keys", algorithm.provider()), "a key is needed"));
        }
        Ok(Provider::Keys(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n{entries}"
        )
    }

    fn key(length: usize) -> String {
        STANDARD.encode(vec![7; length])
    }

    #[test]
    fn resources_are_matched_as_the_store_calls_them() {
        for (text, covered, other) in [
            ("secrets", "secrets", "configmaps"),
            ("roles.rbac.authorization.k8s.io", "roles.rbac.authorization", "roles"),
            ("roles.rbac.authorization.orch.io", "roles.rbac.authorization", "roles"),
            ("*.coordination.k8s.io", "leases.coordination", "leases"),
            ("routes.gateway.k8s.io", "routes.gateway.k8s.io.", "routes"),
            ("widgets.example.com", "widgets.example.com.", "widgets"),
            ("*.example.com", "widgets.example.com.", "widgets.example.org."),
            ("*.", "secrets", "deployments.apps"),
            ("*.apps", "deployments.apps", "jobs.batch"),
        ] {
            let pattern = Pattern::parse(text).unwrap();
            assert!(pattern.covers(covered) && !pattern.covers(other), "{text}");
        }
        assert!(Pattern::parse("*.*").unwrap().covers("jobs.batch"));
        for text in ["", "*", "a*", "pods/status", "Secrets", "events.events.k8s.io", "*.events.orch.io"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fault_is_told_by_its_field_and_never_by_the_secret() {
        let provider = |text: &str| file(&format!("- resources: [secrets]\n  providers: [{text}]\n"));
        let good = provider(&format!(
            "{{aesgcm: {{keys: [{{name: a, secret: {}}}]}}}}, {{identity: {{}}}}",
            key(32)
        ));
        let config = Config::parse(&good).unwrap();
        assert_eq!((config.keys[0].name.as_str(), config.entries[0].providers.len()), ("aesgcm:a", 2));
        let secret = key(20);
        for (text, field) in [
            (file("- resources: [\"*\"]\n  providers: [{identity: {}}]\n"), "resources[0].resources[0]"),
            (file("- resources: [secrets]\n  providers: []\n"), "resources[0].providers"),
            (provider("{identity: {}, aesgcm: {keys: []}}"), "resources[0].providers[0]"),
            (provider("{aesgcm: {keys: []}}"), "resources[0].providers[0].aesgcm.keys"),
            (provider("{kms: {name: x}}"), "resources[0].providers[0].kms.apiVersion"),
            (
                provider("{kms: &k {apiVersion: v2, name: x, endpoint: 'unix:///x'}}, {kms: *k}"),
                "resources[0].providers[1].kms.name",
            ),
            (
                provider(&format!("{{secretbox: {{keys: [{{name: a, secret: {secret}}}]}}}}")),
                "resources[0].providers[0].secretbox.keys[0].secret",
            ),
            (provider(&format!("{{aesgcm: {{keys: [{{name: a, secret: [{secret}]}}]}}}}")), "file"),
            ("kind: Other\napiVersion: x/v1\nresources: []".to_owned(), "kind"),
        ] {
            let told = Config::parse(&text).map(drop).unwrap_err().to_string();
            assert!(told.starts_with(&format!("{field}: ")), "{told}");
            assert!(!told.contains(&secret), "{told}");
        }
    }
}
