//! Faults of fields, with the reference's texts.

use std::fmt;

use orch_schema::SignedDuration;

use super::notation::quote;

/// Faults of a configuration, in order. One is shown as it is, several in brackets; the same one twice counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults(Vec<String>);

impl Faults {
    /// Notes a value that breaks a rule.
    pub(crate) fn invalid(&mut self, path: &str, value: impl Shown, rule: impl fmt::Display) {
        self.push(format!("{path}: Invalid value: {}: {rule}", value.shown()));
    }

    /// Notes a missing value.
    pub(crate) fn required(&mut self, path: &str, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.push(format!("{path}: Required value{colon}{detail}"));
    }

    /// Notes a value that is there twice.
    pub(crate) fn duplicate(&mut self, path: &str, value: &str) {
        self.push(format!("{path}: Duplicate value: {value}"));
    }

    /// Notes a value that must not be there.
    pub(crate) fn forbidden(&mut self, path: &str, detail: &str) {
        self.push(format!("{path}: Forbidden: {detail}"));
    }

    /// Notes a value that is none of the supported ones.
    pub(crate) fn unsupported(&mut self, path: &str, value: &str, supported: &[&str]) {
        let supported: Vec<_> = supported.iter().map(|value| quote(value)).collect();
        self.push(format!(
            "{path}: Unsupported value: {}: supported values: {}",
            quote(value),
            supported.join(", ")
        ));
    }

    /// Notes a fault in other words.
    pub(crate) fn push(&mut self, text: String) {
        if !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    /// The faults as one text; `Ok` where there is none.
    pub(crate) fn result(self) -> Result<(), String> {
        match self.0.as_slice() {
            [] => Ok(()),
            [only] => Err(only.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }
}

/// A value as messages show it.
pub(crate) trait Shown {
    fn shown(&self) -> String;
}

impl Shown for &str {
    fn shown(&self) -> String {
        quote(self)
    }
}

impl Shown for i32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for SignedDuration {
    fn shown(&self) -> String {
        quote(&self.to_string())
    }
}

/// A value in a form of its own.
pub(crate) struct Verbatim(pub(crate) String);

impl Shown for Verbatim {
    fn shown(&self) -> String {
        self.0.clone()
    }
}
