//! The configuration file: the flags of a command under the same names, in TOML or YAML.
//!
//! Owns the translation of a file into command line arguments. The command's own parser then checks the values, so a
//! file accepts exactly the values of the flags. An unknown key is an error that names the nearest flag.

use std::path::{Path, PathBuf};

use clap::Command;
use serde_json::Value;

/// A configuration is a page of text. A larger file is taken for the wrong one.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Least Jaro-Winkler similarity (1 is equal) of a flag that is suggested for an unknown key: one or two letters
/// swapped, left out or wrong.
const NEAR: f64 = 0.8;

/// A configuration file was refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read configuration file {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// The file is larger than 1 MiB.
    #[error("configuration file {path} is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is neither TOML nor YAML, has another file name extension, or is no map of names and values.
    #[error("configuration file {path}: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's error, with line and column where known.
        reason: String,
    },
    /// A key is no flag of the command.
    #[error("configuration file {path}: unknown key {key:?}{hint}")]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// End of the message: the nearest flag, or where the flags are listed.
        hint: String,
    },
    /// A value is not valid for its flag.
    #[error("configuration file {path}: {reason}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The flag and the fault of its value.
        reason: String,
    },
}

/// One setting of a file: a flag's name and its value as spelled on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) flag: String,
    pub(super) value: String,
}

impl Setting {
    /// The equivalent command line argument.
    pub(super) fn argument(&self) -> String {
        format!("--{}={}", self.flag, self.value)
    }
}

/// Reads the settings of `path` for `command`.
pub(super) fn read(path: &Path, command: &Command) -> Result<Vec<Setting>, FileError> {
    settings(path, &content(path)?, command)
}

/// The text value of `key` in `path`, whatever else stands there; `None` where the file cannot be read either.
pub(super) fn value(path: &Path, key: &str) -> Option<String> {
    let value = parse(path, &content(path).ok()?).ok()?;
    value.get(key)?.as_str().map(str::to_owned)
}

fn content(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// Parses the settings in `text`. The extension of `path` decides the format; errors name it.
pub(super) fn settings(path: &Path, text: &str, command: &Command) -> Result<Vec<Setting>, FileError> {
    let value = parse(path, text).map_err(|reason| FileError::Syntax { path: path.to_owned(), reason })?;
    let entries = match value {
        Value::Object(entries) => entries,
        Value::Null => return Ok(Vec::new()),
        _ => {
            let reason = "a configuration is names and values, one a line".to_owned();
            return Err(FileError::Syntax { path: path.to_owned(), reason });
        }
    };
    entries.into_iter().map(|(key, value)| setting(path, key, &value, command)).collect()
}

fn setting(path: &Path, key: String, value: &Value, command: &Command) -> Result<Setting, FileError> {
    if !flags(command).any(|flag| flag == key) {
        return Err(FileError::UnknownKey { path: path.to_owned(), hint: hint(&key, command), key });
    }
    let value = spelled(value)
        .map_err(|reason| FileError::Value { path: path.to_owned(), reason: format!("{key}: {reason}") })?;
    Ok(Setting { flag: key, value })
}

fn parse(path: &Path, text: &str) -> Result<Value, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned()),
        Some("yaml" | "yml" | "json") => {
            let value: serde_norway::Value =
                serde_norway::from_str(text).map_err(|error| error.to_string())?;
            serde_json::to_value(value).map_err(|error| error.to_string())
        }
        _ => Err("the name must end in .toml, .yaml, .yml or .json".to_owned()),
    }
}

/// The keys a file may use: every flag of the command except `--config`, `--version` and those that ask for help.
fn flags(command: &Command) -> impl Iterator<Item = &str> {
    let names = command.get_arguments().filter_map(|argument| argument.get_long());
    names.filter(|name| !["config", "help", super::help::ALL, "version"].contains(name))
}

fn hint(key: &str, command: &Command) -> String {
    if key == "config" {
        return ": a configuration file cannot name another".to_owned();
    }
    let likeness = |flag: &str| strsim::jaro_winkler(flag, &key.to_lowercase().replace('_', "-"));
    let nearest = flags(command).map(|flag| (likeness(flag), flag)).max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((likeness, flag)) if likeness >= NEAR => format!(", did you mean {flag:?}?"),
        _ => format!("; `orch {} --{}` lists them", command.get_name(), super::help::ALL),
    }
}

/// A value as spelled on the command line: lists joined by commas, tables as `name=value`.
fn spelled(value: &Value) -> Result<String, String> {
    match value {
        Value::Array(items) => Ok(items.iter().map(scalar).collect::<Result<Vec<_>, _>>()?.join(",")),
        Value::Object(entries) => {
            let pairs = entries.iter().map(|(name, value)| Ok(format!("{name}={}", scalar(value)?)));
            Ok(pairs.collect::<Result<Vec<_>, String>>()?.join(","))
        }
        _ => scalar(value),
    }
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null => Err("a value is missing".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("a list or table inside another is not allowed".to_owned()),
    }
}
