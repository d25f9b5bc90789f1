//! Label selectors and node selectors, compiled from the API's structs.
//!
//! Owns matching them against labels and node names. Invariant: a selector that compiled is never asked again whether its
//! operators and numbers are valid; a requirement with an unknown operator, or a bound that is no number, matches nothing,
//! as in the reference.

use std::collections::BTreeMap;

use crate::api::core::v1::{NodeSelector as ApiNodeSelector, NodeSelectorRequirement};
use crate::api::meta::v1::LabelSelector as ApiLabelSelector;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Whatever knows its labels.
pub trait LabelLookup {
    /// The value of the label `key`.
    fn label(&self, key: &str) -> Option<&str>;
}

impl LabelLookup for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The field of a node that `matchFields` may name.
const NAME_FIELD: &str = "metadata.name";

/// A requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

/// The condition of a requirement on the value under its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
    /// An operator or a bound that cannot be read.
    Never,
}

impl Requirement {
    fn new(key: &str, operator: &str, values: &[String]) -> Requirement {
        let bound = || match values {
            [only] => only.parse::<i64>().ok(),
            _ => None,
        };
        let test = match operator {
            "In" => Test::In(values.to_vec()),
            "NotIn" => Test::NotIn(values.to_vec()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            "Gt" => bound().map_or(Test::Never, Test::GreaterThan),
            "Lt" => bound().map_or(Test::Never, Test::LessThan),
            _ => Test::Never,
        };
        Requirement { key: key.into(), test }
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Test::LessThan(bound) => number().is_some_and(|number| number < *bound),
            Test::Never => false,
        }
    }
}

/// A label selector. The default one, without requirements, matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Compiles the API's struct.
    pub fn new(selector: &ApiLabelSelector) -> LabelSelector {
        let equal = selector.match_labels.iter().map(|(key, value)| {
            let test = Test::In(vec![value.clone()]);
            Requirement { key: key.as_str().into(), test }
        });
        let expressions = selector.match_expressions.iter();
        let expressions = expressions.map(|one| Requirement::new(&one.key, &one.operator, &one.values));
        LabelSelector { requirements: equal.chain(expressions).collect() }
    }

    /// The selector with the further requirement that `key` has one of `values`.
    #[must_use]
    pub fn and_in(mut self, key: &str, values: Vec<String>) -> LabelSelector {
        self.requirements.push(Requirement { key: key.into(), test: Test::In(values) });
        self
    }

    /// The selector with the further requirement that `key` has none of `values`.
    #[must_use]
    pub fn and_not_in(mut self, key: &str, values: Vec<String>) -> LabelSelector {
        self.requirements.push(Requirement { key: key.into(), test: Test::NotIn(values) });
        self
    }

    /// Whether the selector matches `labels`.
    pub fn matches(&self, labels: &dyn LabelLookup) -> bool {
        self.requirements.iter().all(|one| one.matches(labels.label(&one.key)))
    }
}

/// A node selector: alternatives, each with requirements of labels and of the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl NodeSelector {
    /// Compiles the API's struct.
    pub fn new(selector: &ApiNodeSelector) -> NodeSelector {
        let compiled = |requirements: &[NodeSelectorRequirement]| {
            requirements.iter().map(|one| Requirement::new(&one.key, &one.operator, &one.values)).collect()
        };
        let terms = selector.node_selector_terms.iter();
        let terms = terms.map(|term| Term {
            labels: compiled(&term.match_expressions),
            fields: compiled(&term.match_fields),
        });
        NodeSelector { terms: terms.collect() }
    }

    /// Whether the selector matches the node called `name` with `labels`. An empty term matches no node, nor does a
    /// selector without terms.
    pub fn matches(&self, name: &str, labels: &dyn LabelLookup) -> bool {
        self.terms.iter().any(|term| term.matches(name, labels))
    }
}

impl Term {
    fn matches(&self, name: &str, labels: &dyn LabelLookup) -> bool {
        let is_empty = self.labels.is_empty() && self.fields.is_empty();
        let by_label = |one: &Requirement| one.matches(labels.label(&one.key));
        let by_field = |one: &Requirement| &*one.key == NAME_FIELD && one.matches(Some(name));
        !is_empty && self.labels.iter().all(by_label) && self.fields.iter().all(by_field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::core::v1::NodeSelectorTerm;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    fn by_labels(requirements: Vec<NodeSelectorRequirement>) -> NodeSelectorTerm {
        NodeSelectorTerm { match_expressions: requirements, match_fields: Vec::new() }
    }

    fn selects(terms: Vec<NodeSelectorTerm>, name: &str, pairs: &[(&str, &str)]) -> bool {
        NodeSelector::new(&ApiNodeSelector { node_selector_terms: terms }).matches(name, &labels(pairs))
    }

    #[test]
    fn operators_ask_for_values_and_presence() {
        let cases: &[(&str, &[&str], Option<&str>, bool)] = &[
            ("In", &["a", "b"], Some("b"), true),
            ("In", &["a", "b"], Some("c"), false),
            ("In", &["a"], None, false),
            ("NotIn", &["a"], Some("b"), true),
            ("NotIn", &["a"], Some("a"), false),
            ("NotIn", &["a"], None, true),
            ("Exists", &[], Some(""), true),
            ("Exists", &[], None, false),
            ("DoesNotExist", &[], None, true),
            ("DoesNotExist", &[], Some("a"), false),
            ("Gt", &["5"], Some("6"), true),
            ("Gt", &["5"], Some("5"), false),
            ("Gt", &["5"], Some("x"), false),
            ("Gt", &["x"], Some("6"), false),
            ("Gt", &["5", "6"], Some("9"), false),
            ("Lt", &["5"], Some("4"), true),
            ("Lt", &["5"], Some("5"), false),
            ("Lt", &["5"], None, false),
            ("Near", &["5"], Some("5"), false),
        ];
        for (operator, values, value, expected) in cases {
            let pairs: Vec<_> = value.iter().map(|value| ("k", *value)).collect();
            let found = selects(vec![by_labels(vec![requirement("k", operator, values)])], "n", &pairs);
            assert_eq!(found, *expected, "{operator} {values:?} of {value:?}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_requirements_add_up() {
        let first = by_labels(vec![requirement("a", "Exists", &[]), requirement("b", "Exists", &[])]);
        let second = by_labels(vec![requirement("c", "Exists", &[])]);
        assert!(!selects(vec![first.clone(), second.clone()], "n", &[("a", "")]));
        assert!(selects(vec![first.clone(), second.clone()], "n", &[("a", ""), ("b", "")]));
        assert!(selects(vec![first, second], "n", &[("c", "")]));
    }

    #[test]
    fn empty_terms_and_no_terms_match_no_node() {
        assert!(!selects(Vec::new(), "n", &[]));
        assert!(!selects(vec![by_labels(Vec::new())], "n", &[("a", "")]));
    }

    #[test]
    fn fields_ask_for_the_name() {
        let term = |field, operator, values| NodeSelectorTerm {
            match_expressions: Vec::new(),
            match_fields: vec![requirement(field, operator, values)],
        };
        assert!(selects(vec![term("metadata.name", "In", &["n"])], "n", &[]));
        assert!(!selects(vec![term("metadata.name", "In", &["m"])], "n", &[]));
        assert!(selects(vec![term("metadata.name", "NotIn", &["m"])], "n", &[]));
        assert!(!selects(vec![term("spec.name", "In", &["n"])], "n", &[]));
    }

    #[test]
    fn an_empty_label_selector_matches_everything() {
        assert!(LabelSelector::default().matches(&labels(&[])));
        assert!(LabelSelector::default().matches(&labels(&[("a", "b")])));
    }

    #[test]
    fn requirements_may_be_added() {
        let selector = LabelSelector::default().and_in("a", vec!["1".to_owned()]);
        assert!(selector.matches(&labels(&[("a", "1")])));
        assert!(!selector.matches(&labels(&[("a", "2")])));
        let selector = selector.and_not_in("b", vec!["1".to_owned()]);
        assert!(!selector.matches(&labels(&[("a", "1"), ("b", "1")])));
    }
}
