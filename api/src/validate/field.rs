//! Field paths and field errors: how a rule says which field is wrong and why.
//!
//! Owns the wording that all rules share. The texts are the interface: clients compare them (spec 7).

use std::fmt;

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
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The list item at `index`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// The map entry under `key`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
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

/// Why a field is refused; the names of the causes of an `Invalid` Status.
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
    /// `FieldValueNotFound`.
    NotFound,
    /// `FieldValueTypeInvalid`.
    TypeInvalid,
    /// `InternalError`.
    Internal,
}

/// One refused field. `Display` gives `path: message`; [`FieldError::message`] the part behind the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where.
    pub path: Path,
    /// Why, as a class.
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
        Self::with_detail(path, FieldErrorKind::Invalid, format!("Invalid value: {shown}"), detail)
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
        let message = format!("Unsupported value: {shown}: supported values: {}", names.join(", "));
        FieldError { path, kind: FieldErrorKind::NotSupported, message }
    }

    /// A reference to something that is not there. `shown` is the value as JSON prints it.
    pub fn not_found(path: Path, shown: &str) -> Self {
        FieldError { path, kind: FieldErrorKind::NotFound, message: format!("Not found: {shown}") }
    }

    /// A field that may not be set or changed.
    pub fn forbidden(path: Path, detail: &str) -> Self {
        Self::with_detail(path, FieldErrorKind::Forbidden, "Forbidden".to_owned(), detail)
    }

    /// A value that stands twice where it may stand once.
    pub fn duplicate(path: Path, shown: &str) -> Self {
        FieldError { path, kind: FieldErrorKind::Duplicate, message: format!("Duplicate value: {shown}") }
    }

    /// A value past its length; `limit` in bytes.
    pub fn too_long(path: Path, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let message = format!("Too long: may not be more than {limit} {unit}");
        FieldError { path, kind: FieldErrorKind::TooLong, message }
    }

    fn with_detail(path: Path, kind: FieldErrorKind, message: String, detail: &str) -> Self {
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
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorKind::Internal => "InternalError",
        }
    }
}

/// `text` in double quotes as messages show a string value: control characters escaped, everything else as it is.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' || control == '\u{7f}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            control if control.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_escapes_control_characters() {
        for (text, expected) in
            [("a", "\"a\""), ("a\"b", "\"a\\\"b\""), ("\n\u{1}", "\"\\n\\x01\""), ("ä", "\"ä\"")]
        {
            assert_eq!(quoted(text), expected);
        }
    }
}
