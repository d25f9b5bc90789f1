//! Constraints over the devices of a claim: an attribute that all share, or by which all differ.
//!
//! Devices are added and taken back in the order of a search. A list of values shares what both lists have in common.

use std::collections::BTreeSet;

use super::claim::{Alternative, Request};
use super::slice::Device;
use crate::api::resource::v1::{DeviceAttribute, DeviceConstraint};

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scalar {
    Int(i64),
    Bool(bool),
    Text(String),
    Version(String),
}

type Values = BTreeSet<Scalar>;

/// A constraint, with the values of the devices that were added.
#[derive(Debug)]
pub(super) struct Constraint<'a> {
    requests: &'a [String],
    attribute: &'a str,
    rule: Rule,
    /// For a shared attribute what all devices up to each have in common, for a distinct one the values of each.
    added: Vec<Values>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Match,
    Distinct,
}

/// Whether a device was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It was, and has to be taken back when the search turns back.
    Yes,
    /// The constraint does not speak of its request.
    NotConcerned,
    /// It breaks the constraint.
    No,
}

impl<'a> Constraint<'a> {
    /// `None` for a kind that is not known here.
    pub(super) fn new(constraint: &'a DeviceConstraint) -> Option<Constraint<'a>> {
        let (attribute, rule) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (attribute, Rule::Match),
            (None, Some(attribute)) => (attribute, Rule::Distinct),
            (None, None) => return None,
        };
        Some(Constraint { requests: &constraint.requests, attribute, rule, added: Vec::new() })
    }

    pub(super) fn add(&mut self, request: &Request, alternative: &Alternative, device: &Device) -> Added {
        if !request.is_among(self.requests, alternative) {
            return Added::NotConcerned;
        }
        let Some(attribute) = device.attribute(self.attribute) else { return Added::No };
        let values = values(attribute);
        let next = match self.rule {
            Rule::Match => match self.added.last() {
                Some(common) => common.intersection(&values).cloned().collect(),
                None => values,
            },
            Rule::Distinct if self.added.iter().any(|other| !other.is_disjoint(&values)) => return Added::No,
            Rule::Distinct => values,
        };
        if next.is_empty() {
            return Added::No;
        }
        self.added.push(next);
        Added::Yes
    }

    /// Takes back the device that was added last.
    pub(super) fn take_back(&mut self) {
        self.added.pop();
    }
}

fn values(attribute: &DeviceAttribute) -> Values {
    let ints = attribute.int.iter().chain(&attribute.ints).map(|value| Scalar::Int(*value));
    let bools = attribute.bool.iter().chain(&attribute.bools).map(|value| Scalar::Bool(*value));
    let texts = attribute.string.iter().chain(&attribute.strings).map(|value| Scalar::Text(value.clone()));
    let versions = attribute.version.iter().chain(&attribute.versions);
    ints.chain(bools).chain(texts).chain(versions.map(|value| Scalar::Version(value.clone()))).collect()
}
