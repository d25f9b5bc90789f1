//! Field paths and field errors.
//!
//! Owns the wording that all rules share. `orch_schema::excerpt` bounds the client's values that an error repeats. The
//! texts are the interface: clients compare them.

use std::fmt;

use orch_schema::excerpt::{beginning, cut, fitting, quoted};

/// Bytes of one error's detail, as answers hold them. A detail may quote several values, or the difference that an
/// update would make; the longest recorded one has 541 bytes.
const DETAIL_BYTES_MAX: usize = 16 * 1024;

/// The path of a field as messages print it: `spec.containers[0].name`, `data[bad key!]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// The path of a top-level field.
    pub fn new(name: &str) -> Self {
        Path(name.to_owned())
    }

    /// The field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let name = beginning(name);
        if self.0.is_empty() { Path(name.to_owned()) } else { self.with([".", name, ""]) }
    }

    /// The list item at `index`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(["[", &index.to_string(), "]"])
    }

    /// The map entry under `key`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(["[", beginning(key), "]"])
    }

    /// This path with `parts` behind it. Valid objects have a hundred paths made that nobody reads: each is one allocation, and is not
    /// formatted.
    fn with(&self, parts: [&str; 3]) -> Self {
        let mut path = String::with_capacity(self.0.len() + parts.map(str::len).iter().sum::<usize>());
        path.push_str(&self.0);
        parts.into_iter().for_each(|part| path.push_str(part));
        Path(path)
    }

    /// The path's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The class of a field error, and the reason of its cause in an `Invalid` Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// `FieldValueRequired`.
    Required,
    /// `FieldValueInvalid`.
    Invalid,
    /// `FieldValueNotSupported`.
    NotSupported,
    /// `FieldValueForbidden`.
    Forbidden,
    /// `FieldValueDuplicate`.
    Duplicate,
    /// `FieldValueTooLong`.
    TooLong,
    /// `FieldValueTooMany`.
    TooMany,
    /// `FieldValueNotFound`.
    NotFound,
    /// `FieldValueTypeInvalid`.
    TypeInvalid,
    /// `InternalError`: the reference reports some faults of expressions as its own.
    Internal,
}

/// One refused field. `Display` gives `path: message`; [`FieldError::message`] the part behind the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the refused field.
    pub path: Path,
    /// Class of the error.
    pub kind: FieldErrorKind,
    /// The message without the path: `Invalid value: "a/b": may not contain '/'`.
    pub message: String,
}

impl FieldError {
    /// A field that must be set.
    pub fn required(path: Path, detail: &str) -> Self {
        Self::with_detail(path, FieldErrorKind::Required, "Required value".to_owned(), detail)
    }

    /// A value that breaks a rule. `shown` is the value as JSON prints it (strings quoted).
    pub fn invalid(path: Path, shown: &str, detail: &str) -> Self {
        let message = format!("Invalid value: {}", cut(shown));
        Self::with_detail(path, FieldErrorKind::Invalid, message, detail)
    }

    /// A value that breaks a rule and is not shown, such as an object of several fields.
    pub fn invalid_unshown(path: Path, detail: &str) -> Self {
        Self::with_detail(path, FieldErrorKind::Invalid, "Invalid value".to_owned(), detail)
    }

    /// A string value that breaks a rule.
    pub fn invalid_str(path: Path, value: &str, detail: &str) -> Self {
        Self::invalid(path, &quoted(value), detail)
    }

    /// A value outside an enumeration; `supported` in the order in which the reference lists them.
    pub fn not_supported(path: Path, value: &str, supported: &[&str]) -> Self {
        Self::not_supported_value(path, &quoted(value), supported)
    }

    /// Like [`FieldError::not_supported`] for a value that is no string; `shown` as JSON prints it.
    pub fn not_supported_value(path: Path, shown: &str, supported: &[&str]) -> Self {
        let names: Vec<String> = supported.iter().map(|name| quoted(name)).collect();
        let message = format!("Unsupported value: {}: supported values: {}", cut(shown), names.join(", "));
        FieldError { path, kind: FieldErrorKind::NotSupported, message }
    }

    /// A reference to a missing target. `shown` is the value as JSON prints it.
    pub fn not_found(path: Path, shown: &str) -> Self {
        FieldError { path, kind: FieldErrorKind::NotFound, message: format!("Not found: {}", cut(shown)) }
    }

    /// A field that may not be set or changed.
    pub fn forbidden(path: Path, detail: &str) -> Self {
        Self::with_detail(path, FieldErrorKind::Forbidden, "Forbidden".to_owned(), detail)
    }

    /// A field for which the reference reports a fault of its own. No value is shown.
    pub fn internal(path: Path, detail: &str) -> Self {
        Self::with_detail(path, FieldErrorKind::Internal, "Internal error".to_owned(), detail)
    }

    /// A value that must be unique and is repeated. `shown` is the value as JSON prints it.
    pub fn duplicate(path: Path, shown: &str) -> Self {
        FieldError {
            path,
            kind: FieldErrorKind::Duplicate,
            message: format!("Duplicate value: {}", cut(shown)),
        }
    }

    /// A value that is too long; `limit` in bytes.
    pub fn too_long(path: Path, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let message = format!("Too long: may not be more than {limit} {unit}");
        FieldError { path, kind: FieldErrorKind::TooLong, message }
    }

    /// A list or map of `count` entries that may have at most `limit`.
    pub fn too_many(path: Path, count: usize, limit: usize) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let message = format!("Too many: {count}: must have at most {limit} {unit}");
        FieldError { path, kind: FieldErrorKind::TooMany, message }
    }

    /// The error without its value and without its detail, which may quote a value.
    pub fn withheld(self) -> Self {
        let class = match self.kind {
            // These messages name a bound, and no value.
            FieldErrorKind::Required | FieldErrorKind::TooLong | FieldErrorKind::TooMany => self.message,
            _ => {
                let class = self.message.split(':').next().unwrap_or_default();
                format!("{class}: what stands there is not repeated")
            }
        };
        FieldError { message: class, ..self }
    }

    fn with_detail(path: Path, kind: FieldErrorKind, message: String, detail: &str) -> Self {
        let detail = fitting(detail, DETAIL_BYTES_MAX);
        let message = if detail.is_empty() { message } else { format!("{message}: {detail}") };
        FieldError { path, kind, message }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl FieldErrorKind {
    /// The `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorKind::Internal => "InternalError",
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::excerpt::VALUE_BYTES_MAX;

    use super::*;

    #[test]
    fn long_values_are_shown_in_part() {
        let long = "é".repeat(100_000);
        let error = FieldError::invalid_str(Path::new("a").key(&long), &long, "is long");
        assert!(error.message.ends_with("é\"... (200000 bytes): is long"), "{}", error.message);
        assert!(error.message.len() < 2 * VALUE_BYTES_MAX && error.path.as_str().len() < 2 * VALUE_BYTES_MAX);
        let error = FieldError::invalid(Path::new("a"), &long, "is long");
        assert!(error.message.len() < 2 * VALUE_BYTES_MAX, "{}", error.message);
        let whole = "x".repeat(300);
        assert_eq!(
            quoted(&whole),
            format!("\"{whole}\""),
            "the reference shows recorded values of this length"
        );
    }
}
