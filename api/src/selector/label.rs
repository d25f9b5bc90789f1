//! Label selectors: requirements over an object's labels.
//!
//! Owns the meaning of each operator. A requirement on an absent label fails, except for `!=`, `notin` and `!key`.

use orch_raft::Object;

use super::label_parser::{self, LabelSelectorError};

/// All requirements must hold; none selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Box<[Requirement]>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: Box<str>,
    /// How it is compared.
    pub operator: Operator,
}

/// A comparison with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (a,b)`, `key=a`: present with one of these values (sorted).
    In(Box<[Box<str>]>),
    /// `key notin (a,b)`, `key!=a`: absent, or present with another value (sorted).
    NotIn(Box<[Box<str>]>),
    /// `key`.
    Exists,
    /// `!key`.
    DoesNotExist,
    /// `key>5`: an integer larger than this.
    GreaterThan(i64),
    /// `key<5`: an integer smaller than this.
    LessThan(i64),
}

impl LabelSelector {
    /// Parses the query parameter's text. An empty text selects everything.
    ///
    /// # Errors
    /// The text breaks the grammar, or names a label or value that cannot exist.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        Ok(LabelSelector { requirements: label_parser::parse(text)?.into() })
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether `object` is selected.
    pub fn matches(&self, object: &Object) -> bool {
        self.requirements.iter().all(|requirement| requirement.operator.holds(object.label(&requirement.key)))
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Operator::In(values) => value.is_some_and(|value| contains(values, value)),
            Operator::NotIn(values) => value.is_none_or(|value| !contains(values, value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan(bound) => integer(value).is_some_and(|number| number > *bound),
            Operator::LessThan(bound) => integer(value).is_some_and(|number| number < *bound),
        }
    }
}

fn contains(sorted: &[Box<str>], value: &str) -> bool {
    sorted.binary_search_by(|candidate| (**candidate).cmp(value)).is_ok()
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use bytes::Bytes;
    use orch_raft::{Index, Revision};

    use super::*;

    fn object(labels: &[(&str, &str)]) -> Object {
        let mut labels: Vec<(String, String)> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        labels.sort();
        Object {
            revision: Revision(2),
            created: Revision(2),
            written_ms: 0,
            json: Bytes::new(),
            revision_at: 0,
            index: Index { labels, ..Index::default() },
            protobuf: OnceLock::new(),
        }
    }

    fn check(selector: &str, labels: &[(&str, &str)], selected: bool) {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(&object(labels)), selected, "{selector} on {labels:?}");
    }

    #[test]
    fn operators_select_what_they_say() {
        let x = [("app", "x"), ("tier", "front"), ("n", "7")];
        for (selector, selected) in [
            ("", true),
            ("app=x", true),
            ("app==x", true),
            ("app=y", false),
            ("app!=y", true),
            ("app!=x", false),
            ("missing!=x", true),
            ("app", true),
            ("!app", false),
            ("!missing", true),
            ("app in (x,y)", true),
            ("app in (y,z)", false),
            ("app notin (x)", false),
            ("missing notin (x)", true),
            ("app in ()", false),
            ("app=", false),
            ("app=x,tier=front", true),
            ("app=x,!tier", false),
            ("n>6", true),
            ("n>7", false),
            ("n<8", true),
            ("app>1", false),
            (" app = x , tier in ( front , back ) ", true),
        ] {
            check(selector, &x, selected);
        }
        check("empty=", &[("empty", "")], true);
        check("empty in ()", &[("empty", "")], true);
        check("in in (in)", &[("in", "in")], true);
    }
}
