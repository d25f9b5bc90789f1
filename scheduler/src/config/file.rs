//! Reads the configuration file strictly.

use std::path::Path;

use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};

use super::arguments::{ArgsError, PluginArgs};
use super::document::{self, Node};
use super::names::{configuration_kind, group_version, not_registered};
use super::profile::PluginConfig;
use super::types::FileConfiguration;
use super::wire::{Reading, Wire};

/// A file as read: without defaults, and with the arguments of its profiles' plugins beside it.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) configuration: FileConfiguration,
    /// For each profile the arguments of its plugins.
    pub(super) args: Vec<Vec<PluginConfig>>,
}

/// Reads the file at `path`.
pub(super) fn load(path: &Path, brand: &'static Brand) -> Result<Loaded, String> {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    decode(&text, brand)
}

/// The reference's text of a file that cannot be opened.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("open {}: {}", path.display(), system_text(error))
}

/// The system's text of `error`, in the reference's form.
pub(crate) fn system_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        std::io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            text[..end].to_lowercase()
        }
    }
}

/// Decodes the text of a configuration file.
pub(super) fn decode(text: &str, brand: &'static Brand) -> Result<Loaded, String> {
    let is_json = text.trim_start().starts_with('{');
    let document = document::parse(text).map_err(|fault| match is_json {
        true => format!("couldn't get version/kind; json parse error: {fault}"),
        false => fault,
    })?;
    check_type(&document.root, text, brand)?;
    let mut reading = Reading::new(brand);
    let mut configuration = FileConfiguration::decode(&document.root, &mut reading);
    configuration.api_version = group_version(brand);
    configuration.kind = configuration_kind(brand);
    if let Some(fault) = reading.fault {
        return Err(fault);
    }
    let mut strict = document.duplicates;
    strict.extend(reading.strict);
    let args = decode_args(&configuration, brand, &mut strict)?;
    match strict.is_empty() {
        true => Ok(Loaded { configuration, args }),
        false => Err(format!("strict decoding error: {}", strict.join(", "))),
    }
}

/// Checks group, version and kind, before anything else is looked at.
fn check_type(root: &Node, text: &str, brand: &Brand) -> Result<(), String> {
    let member = |name: &str| match root.member(name) {
        None | Some(Node::Null) => Ok(""),
        Some(Node::Text(text)) => Ok(text.as_str()),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{name} of type \
             string",
            other.kind()
        )),
    };
    let (version, kind) = (member("apiVersion")?, member("kind")?);
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{text}'"));
    }
    if version.is_empty() {
        return Err(format!("Object 'apiVersion' is missing in '{text}'"));
    }
    match kind == configuration_kind(brand) && version == group_version(brand) {
        true => Ok(()),
        false => Err(not_registered(kind, version) + &other_brand(kind, version)),
    }
}

/// End of the message about a document that another brand has; empty for all others.
fn other_brand(kind: &str, version: &str) -> String {
    let brands = [&ORCH, &KUBERNETES].into_iter();
    let other = brands.filter(|brand| kind == configuration_kind(brand) && version == group_version(brand));
    other.map(|brand| format!(" (this file is one of the brand {0}: give --brand {0})", brand.name)).collect()
}

fn decode_args(
    configuration: &FileConfiguration,
    brand: &'static Brand,
    strict: &mut Vec<String>,
) -> Result<Vec<Vec<PluginConfig>>, String> {
    let mut profiles = Vec::new();
    let mut nested = Vec::new();
    for (at, profile) in configuration.profiles.iter().enumerate() {
        let mut args = Vec::new();
        for (position, config) in profile.plugin_config.iter().enumerate() {
            let place = format!("decoding .profiles[{at}].pluginConfig[{position}]: ");
            match PluginArgs::decode(&config.name, &config.args, brand) {
                Ok(decoded) => args.push(PluginConfig { name: config.name.clone(), args: decoded }),
                Err(ArgsError::Strict(fault)) => nested.push(place + &fault),
                Err(ArgsError::Value(fault)) => return Err(place + &fault),
            }
        }
        profiles.push(args);
    }
    strict.extend(nested);
    Ok(profiles)
}
