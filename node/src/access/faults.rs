//! Faults of a configuration file, each with the path of its field, in the reference's words.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orch_serving::files;
use serde::de::DeserializeOwned;

/// Bytes of the largest configuration: 64 issuers or webhooks with their rules.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Everything that is wrong with a configuration. Formats as the reference's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<String>);

impl std::error::Error for Faults {}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}

impl Faults {
    /// A value is missing. `detail` may be empty.
    pub fn required(&mut self, field: &str, detail: &str) {
        self.add(field, "Required value", detail);
    }

    /// The value `value` is wrong.
    pub fn invalid(&mut self, field: &str, value: &str, detail: &str) {
        self.add(field, &format!("Invalid value: {value:?}"), detail);
    }

    /// The value `value` stands there twice.
    pub fn duplicate(&mut self, field: &str, value: &str) {
        self.add(field, &format!("Duplicate value: {value:?}"), "");
    }

    /// The value `value` is none of `known`.
    pub fn not_supported(&mut self, field: &str, value: &str, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|known| format!("{known:?}")).collect();
        let detail = format!("supported values: {}", known.join(", "));
        self.add(field, &format!("Unsupported value: {value:?}"), &detail);
    }

    /// There are `count` values, more than `limit`.
    pub fn too_many(&mut self, field: &str, count: usize, limit: usize) {
        self.add(field, &format!("Too many: {count}"), &format!("must have at most {limit} items"));
    }

    /// The value must not be there.
    pub fn forbidden(&mut self, field: &str, detail: &str) {
        self.add(field, "Forbidden", detail);
    }

    fn add(&mut self, field: &str, what: &str, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.0.push(format!("{field}: {what}{colon}{detail}"));
    }

    /// `value`, unless something is wrong.
    ///
    /// # Errors
    /// These faults, if there are any.
    pub fn or<T>(self, value: T) -> Result<T, Faults> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

/// A configuration file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// The file is larger than 1 MiB.
    #[error("{path} is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is no configuration of this kind.
    #[error("{path}: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        reason: String,
    },
    /// Fields are wrong.
    #[error("{path}: {faults}")]
    Fields {
        /// The file.
        path: PathBuf,
        /// The faults.
        faults: Faults,
    },
    /// A server that the file names cannot be asked.
    #[error("{path}")]
    Target {
        /// The file.
        path: PathBuf,
        /// The fault of its client configuration.
        source: crate::egress::TargetFileError,
    },
}

/// Reads the file at `path`, in YAML or JSON, as a document of `kind` in one of `versions` of the group `group`.
///
/// # Errors
/// It cannot be read, or is another document.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    kind: &str,
    versions: &[&str],
) -> Result<T, ConfigFileError> {
    let text = read_text(path)?;
    parse(&text, kind, versions).map_err(|reason| ConfigFileError::Form { path: path.to_owned(), reason })
}

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be read, or is too large.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigFileError> {
    files::read_text(path, FILE_BYTES_MAX).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => ConfigFileError::TooLarge { path: path.to_owned() },
        _ => ConfigFileError::Unreadable { path: path.to_owned(), source },
    })
}

/// The head of a document.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

/// Reads `text` as a document of `kind` in one of `versions` of the group of configurations, under the domain of any brand.
///
/// # Errors
/// It is another document: the reason.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, kind: &str, versions: &[&str]) -> Result<T, String> {
    parse_in("apiserver.config.", text, kind, versions)
}

/// The same for a document of a group that begins with `stem`, under the domain of any brand.
pub(super) fn parse_in<T: DeserializeOwned>(
    stem: &str,
    text: &str,
    kind: &str,
    versions: &[&str],
) -> Result<T, String> {
    let head: Head = serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
    let is_known = head.api_version.rsplit_once('/').is_some_and(|(group, version)| {
        // few: the versions of a file.
        group.starts_with(stem) && versions.contains(&version)
    });
    if head.kind != kind || !is_known {
        return Err(format!("a document of kind {kind} and version {} is expected", versions.join(" or ")));
    }
    serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
}
