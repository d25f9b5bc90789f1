//! The `kms` provider of the encryption configuration.
//!
//! Owns the form of its fields and what is wrong with them. It opens no socket.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::cli::parse_duration;
use crate::encryption::config::ConfigError;
use crate::server::{SOCKET_PATH_BYTES_MAX, is_socket_path};

/// Time for one call without a `timeout`: the reference's.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(3);
/// Longest `timeout`. A start makes one call for each stored data key.
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Longest name in bytes: it is part of the names of data keys, which have 255 at most.
const NAME_BYTES_MAX: usize = 128;

/// The provider as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in crate::encryption) struct FileKms {
    api_version: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    endpoint: String,
    timeout: Option<String>,
    cachesize: Option<serde_json::Value>,
}

/// A plugin to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::encryption) struct PluginConfig {
    /// Its name, unique in the file and without colons.
    pub(in crate::encryption) name: String,
    /// The endpoint as written: `unix:///path`.
    pub(in crate::encryption) endpoint: String,
    /// Path of the socket; an abstract one begins with a zero byte.
    pub(in crate::encryption) socket: PathBuf,
    /// Time for one call.
    pub(in crate::encryption) timeout: Duration,
}

impl PluginConfig {
    /// Checks the fields at `path`.
    pub(in crate::encryption) fn parse(file: FileKms, path: &str) -> Result<PluginConfig, ConfigError> {
        let fault = |field: &str, reason: String| ConfigError::at(format!("{path}.kms.{field}"), reason);
        let FileKms { api_version, name, endpoint, timeout, cachesize } = file;
        match api_version.as_deref() {
            Some("v2") => {}
            Some("v1") | None => {
                let reason = "version v1, which is meant where none is given, asks the plugin for each record and is not \
                              supported; use v2";
                return Err(fault("apiVersion", reason.to_owned()));
            }
            Some(other) => {
                let reason = format!("unsupported apiVersion {other:?} for a KMS provider, v2 is supported");
                return Err(fault("apiVersion", reason));
            }
        }
        if cachesize.is_some() {
            return Err(fault("cachesize", "cachesize is not supported in v2".to_owned()));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(':') {
            let reason = format!("a name of 1 to {NAME_BYTES_MAX} bytes without colons is needed");
            return Err(fault("name", reason));
        }
        let timeout = match timeout.as_deref().map(parse_duration) {
            None => TIMEOUT_DEFAULT,
            Some(Ok(timeout)) if !timeout.is_zero() && timeout <= TIMEOUT_MAX => timeout,
            Some(Ok(_)) => {
                let reason = format!("timeout should be a positive value of at most {TIMEOUT_MAX:?}");
                return Err(fault("timeout", reason));
            }
            Some(Err(reason)) => return Err(fault("timeout", reason)),
        };
        let socket = socket(&endpoint).map_err(|reason| fault("endpoint", reason))?;
        Ok(PluginConfig { name, endpoint, socket, timeout })
    }
}

/// The path in `unix:///path`; `unix:///@name` is the abstract socket `name`.
fn socket(endpoint: &str) -> Result<PathBuf, String> {
    let (scheme, rest) = endpoint.split_once(':').ok_or("endpoint is a mandatory field: unix:///path")?;
    if scheme != "unix" {
        return Err(format!("unsupported scheme {scheme:?} for a KMS provider, only unix is supported"));
    }
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if let Some(name) = path.strip_prefix("/@").filter(|name| !name.is_empty()) {
        return Ok(PathBuf::from(format!("\0{name}")));
    }
    let path = PathBuf::from(path);
    if !path.is_absolute() || !is_socket_path(&path) {
        return Err(format!(
            "{endpoint:?} is no unix:///path of an absolute path with at most {SOCKET_PATH_BYTES_MAX} bytes"
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PluginConfig, String> {
        let file: FileKms = serde_json::from_str(text).unwrap();
        PluginConfig::parse(file, "p").map_err(|error| error.to_string())
    }

    #[test]
    fn a_plugin_has_a_name_a_socket_and_a_time() {
        let plugin = parse(r#"{"apiVersion":"v2","name":"a","endpoint":"unix:///run/kms.sock"}"#).unwrap();
        assert_eq!((plugin.socket, plugin.timeout), (PathBuf::from("/run/kms.sock"), TIMEOUT_DEFAULT));
        let timed = r#"{"apiVersion":"v2","name":"a","endpoint":"unix:///@kms","timeout":"1m"}"#;
        let plugin = parse(timed).unwrap();
        assert_eq!((plugin.socket, plugin.timeout), (PathBuf::from("\0kms"), Duration::from_secs(60)));
    }

    #[test]
    fn faults_are_named_by_their_field() {
        for (fields, fault) in [
            (r#""endpoint":"unix:///x""#, "p.kms.apiVersion: version v1"),
            (r#""apiVersion":"v1","endpoint":"unix:///x""#, "p.kms.apiVersion: version v1"),
            (r#""apiVersion":"v3","endpoint":"unix:///x""#, "p.kms.apiVersion: unsupported"),
            (r#""apiVersion":"v2","cachesize":5,"endpoint":"unix:///x""#, "p.kms.cachesize: "),
            (r#""apiVersion":"v2""#, "p.kms.endpoint: endpoint is a mandatory field"),
            (r#""apiVersion":"v2","endpoint":"tcp://x:1""#, "p.kms.endpoint: unsupported scheme"),
            (r#""apiVersion":"v2","endpoint":"unix://x""#, "p.kms.endpoint: "),
            (r#""apiVersion":"v2","endpoint":"unix:///x","timeout":"0s""#, "p.kms.timeout: "),
            (r#""apiVersion":"v2","endpoint":"unix:///x","timeout":"2m""#, "p.kms.timeout: "),
            (r#""apiVersion":"v2","endpoint":"unix:///x","timeout":"-1s""#, "p.kms.timeout: "),
        ] {
            let told = parse(&format!(r#"{{"name":"a",{fields}}}"#)).unwrap_err();
            assert!(told.starts_with(fault), "{fields}: {told}");
        }
        for name in ["", "a:b"] {
            let text = format!(r#"{{"apiVersion":"v2","endpoint":"unix:///x","name":"{name}"}}"#);
            assert!(parse(&text).unwrap_err().starts_with("p.kms.name: "), "{name}");
        }
    }
}
