//! Cardinality of a part of a document, for the cost of the rules at it.

use super::Declared;
use super::sizes::REQUEST_BYTES_MAX;

/// The most times that a part of a document is there, as far as bounds of lists and maps around it say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cardinality(Option<u64>);

impl Cardinality {
    /// The whole document, which is there once.
    pub const ROOT: Cardinality = Cardinality(Some(1));

    /// An element of a list or map with so many, if there is a bound.
    #[must_use]
    pub fn of_element(self, elements_max: Option<u64>) -> Cardinality {
        Cardinality(self.0.zip(elements_max).map(|(around, most)| around.saturating_mul(most)))
    }

    /// The most times that a value of `declared` is there: without a bound, as often as its shortest text fits into a
    /// request.
    pub fn times(self, declared: &Declared) -> u64 {
        self.0.unwrap_or(REQUEST_BYTES_MAX / declared.bytes_min.saturating_add(1))
    }
}
