//! The field errors of one object, of which a bounded number is kept.
//!
//! Owns the bound on how many errors a request may collect. A client chooses how long the lists of an object are, and
//! each item may break several rules: without a bound a body of 3 MiB becomes hundreds of megabytes of messages.
//!
//! Invariant: a list to which an error was added is never empty, so that no object is accepted because errors were
//! dropped.

use std::ops::Deref;

use super::field::FieldError;

/// Errors that an answer names: as many as the reference's decoder names of unknown fields.
pub const ERRORS_SHOWN_MAX: usize = 100;

/// Errors that are kept: one more than are shown, which tells that there are more.
const ERRORS_KEPT_MAX: usize = ERRORS_SHOWN_MAX + 1;

/// Errors in the order in which they were found, the first [`ERRORS_SHOWN_MAX`] and one that stands for the rest, and warnings:
/// faults for which the object is not refused, since it had them before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    errors: Vec<FieldError>,
    warnings: Vec<String>,
}

impl FieldErrors {
    /// An empty list.
    pub fn new() -> Self {
        FieldErrors::default()
    }

    /// Adds an error, unless the list is full.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.errors.push(error);
        }
    }

    /// Adds warnings, which the caller has bounded.
    pub fn warn(&mut self, warnings: Vec<String>) {
        self.warnings.extend(warnings);
    }

    /// Adds the errors and the warnings of another check.
    pub fn append(&mut self, mut other: FieldErrors) {
        self.warn(std::mem::take(&mut other.warnings));
        self.extend(other);
    }

    /// Takes the warnings.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether further errors are dropped, so that loops over a client's input may end.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS_KEPT_MAX
    }

    /// The errors that an answer names.
    pub fn shown(&self) -> &[FieldError] {
        &self.errors[..self.errors.len().min(ERRORS_SHOWN_MAX)]
    }

    /// Whether there are more errors than an answer names.
    pub fn has_more(&self) -> bool {
        self.errors.len() > ERRORS_SHOWN_MAX
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.errors
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        FieldErrors { errors: vec![error], warnings: Vec::new() }
    }
}

impl Extend<FieldError> for FieldErrors {
    // Ends the iterator early: the errors of further checks would be dropped.
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        let room = ERRORS_KEPT_MAX - self.errors.len();
        self.errors.extend(errors.into_iter().take(room));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(errors: T) -> Self {
        let mut all = FieldErrors::new();
        all.extend(errors);
        all
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl<'e> IntoIterator for &'e FieldErrors {
    type Item = &'e FieldError;
    type IntoIter = std::slice::Iter<'e, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Path;

    #[test]
    fn a_hundred_errors_are_shown_and_the_rest_is_mentioned() {
        let error = |at: usize| FieldError::required(Path::new("list").index(at), "");
        let mut asked = 0;
        let mut errors: FieldErrors = (0..50).map(error).collect();
        assert!(!errors.is_full());
        errors.extend((50..1_000_000).map(|at| {
            asked += 1;
            error(at)
        }));
        errors.push(error(7));
        assert_eq!(asked, 51, "nothing is checked whose errors would be dropped");
        assert_eq!(errors.shown().len(), ERRORS_SHOWN_MAX);
        assert_eq!(errors.shown()[99], error(99));
        assert!(errors.has_more() && errors.is_full());
        assert!(!FieldErrors::from(error(0)).has_more());
    }
}
