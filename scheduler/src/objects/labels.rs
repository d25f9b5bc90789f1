//! Labels and label selectors.
//!
//! Owns their compiled forms: labels are pairs of symbols sorted by key; a selector is a list of requirements that all
//! have to hold. An absent selector matches nothing, an empty one everything; [`Selector::default`] is the empty one.

use std::collections::BTreeMap;

use crate::api::meta::v1::LabelSelector;

use super::intern::{Interner, Symbol};

/// Keys and values, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    /// Compiles a map of labels.
    pub fn compile(interner: &mut Interner, map: &BTreeMap<String, String>) -> Labels {
        let mut pairs: Box<[_]> =
            map.iter().map(|(key, value)| (interner.intern(key), interner.intern(value))).collect();
        pairs.sort_unstable();
        Labels(pairs)
    }

    /// The value of a key.
    pub fn value(&self, key: Symbol) -> Option<Symbol> {
        if self.0.len() <= 8 {
            return self.0.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        }
        let at = self.0.binary_search_by_key(&key, |(k, _)| *k).ok()?;
        Some(self.0[at].1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, sorted by key.
    pub fn pairs(&self) -> &[(Symbol, Symbol)] {
        &self.0
    }
}

/// How a requirement compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The key has one of the values (sorted).
    In(Box<[Symbol]>),
    /// The key has none of the values, or is absent.
    NotIn(Box<[Symbol]>),
    /// The key is there.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The key's value is an integer above this.
    Above(i64),
    /// The key's value is an integer below this.
    Below(i64),
    /// Never holds: the requirement is malformed.
    Never,
}

/// A requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The key.
    pub key: Symbol,
    /// The condition on the label's value.
    pub operator: Operator,
}

impl Requirement {
    /// Compiles a requirement of a label selector or of a node selector. Operators that only node selectors have are
    /// compiled, too: the API server lets none of them into a label selector.
    pub fn compile(interner: &mut Interner, key: &str, operator: &str, values: &[String]) -> Requirement {
        let mut symbols = || -> Box<[Symbol]> {
            let mut symbols: Vec<Symbol> = values.iter().map(|value| interner.intern(value)).collect();
            symbols.sort_unstable();
            symbols.dedup();
            symbols.into()
        };
        let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
        let operator = match operator {
            "In" => Operator::In(symbols()),
            "NotIn" => Operator::NotIn(symbols()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => bound().map_or(Operator::Never, Operator::Above),
            "Lt" => bound().map_or(Operator::Never, Operator::Below),
            _ => Operator::Never,
        };
        Requirement { key: interner.intern(key), operator }
    }

    /// Whether `labels` fulfil it. `texts` reads values that are compared as integers.
    pub fn matches(&self, labels: &Labels, texts: &Interner) -> bool {
        self.matches_value(labels.value(self.key), texts)
    }

    /// Whether a value, or its absence, fulfils it.
    pub fn matches_value(&self, value: Option<Symbol>, texts: &Interner) -> bool {
        let integer = || value.and_then(|value| texts.text(value).parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(&value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Above(bound) => integer().is_some_and(|value| value > *bound),
            Operator::Below(bound) => integer().is_some_and(|value| value < *bound),
            Operator::Never => false,
        }
    }
}

/// A label selector: all requirements have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Selector {
    /// Matches nothing.
    pub fn nothing() -> Selector {
        Selector { requirements: Vec::new(), nothing: true }
    }

    /// Compiles a selector; an absent one matches nothing.
    pub fn compile(interner: &mut Interner, selector: Option<&LabelSelector>) -> Selector {
        let Some(selector) = selector else { return Selector::nothing() };
        let mut compiled = Selector::of_map(interner, &selector.match_labels);
        for expression in &selector.match_expressions {
            let Some(requirement) = compile_expression(interner, expression) else {
                return Selector::nothing();
            };
            compiled.requirements.push(requirement);
        }
        compiled.requirements.sort_unstable();
        compiled
    }

    /// A requirement of equality for each member of `map`.
    pub fn of_map(interner: &mut Interner, map: &BTreeMap<String, String>) -> Selector {
        let mut requirements: Vec<Requirement> = map
            .iter()
            .map(|(key, value)| Requirement {
                key: interner.intern(key),
                operator: Operator::In(Box::new([interner.intern(value)])),
            })
            .collect();
        requirements.sort_unstable();
        Selector { requirements, nothing: false }
    }

    /// Whether `labels` are selected.
    pub fn matches(&self, labels: &Labels, texts: &Interner) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels, texts))
    }

    /// Whether it selects everything because nothing is asked for.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Adds a requirement.
    pub fn require(&mut self, requirement: Requirement) {
        self.requirements.push(requirement);
        self.requirements.sort_unstable();
        self.requirements.dedup();
    }

    /// Adds the requirements of another selector.
    pub fn require_all(&mut self, other: &Selector) {
        self.nothing |= other.nothing;
        self.requirements.extend(other.requirements.iter().cloned());
        self.requirements.sort_unstable();
        self.requirements.dedup();
    }
}

fn compile_expression(
    interner: &mut Interner,
    expression: &crate::api::meta::v1::LabelSelectorRequirement,
) -> Option<Requirement> {
    let requirement =
        Requirement::compile(interner, &expression.key, &expression.operator, &expression.values);
    (requirement.operator != Operator::Never).then_some(requirement)
}
