//! Label selectors: requirements over an object's labels.
//!
//! Owns the meaning of each operator. A requirement on an absent label fails, except for `!=`, `notin` and `!key`.

use std::collections::BTreeMap;

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::label_parser::{self, LabelSelectorError};
use crate::validate::tree::Tree;

/// Labels that are sorted by key, as their owner holds them.
pub trait LabelSet {
    /// Number of labels.
    fn count(&self) -> usize;

    /// The value of the label `key`; `None` where it is not there.
    fn find(&self, key: &str) -> Option<&str>;

    /// Every label, as key and value.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)>;
}

impl LabelSet for [(String, String)] {
    fn count(&self) -> usize {
        self.len()
    }

    fn find(&self, key: &str) -> Option<&str> {
        self.binary_search_by(|(own, _)| own.as_str().cmp(key)).ok().map(|at| self[at].1.as_str())
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// A parsed label selector: all requirements must hold. Without requirements it selects everything. Conditions are kept
/// by label: thousands of requirements cost an object no more than a look-up for each of its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted by key, each key once.
    conditions: Box<[(Box<str>, Condition)]>,
    /// Number of conditions with `is_required`.
    required: usize,
}

/// All requirements on one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Condition {
    is_required: bool,
    is_forbidden: bool,
    /// The only values that the label may have, sorted; `None` for any.
    allowed: Option<Box<[Box<str>]>>,
    /// Values that the label must not have, sorted.
    excluded: Box<[Box<str>]>,
    above: Option<i64>,
    below: Option<i64>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: Box<str>,
    /// The comparison of the label's value.
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
        Ok(LabelSelector::of(label_parser::parse(text)?))
    }

    /// The selector in a field of an object (`matchLabels`, `matchExpressions`). `None` for an absent one, which selects
    /// nothing. An operator that does not exist selects nothing either.
    pub fn of_field(selector: &Value) -> Option<Self> {
        let labels = selector.as_object()?.get("matchLabels").and_then(Value::as_object);
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        let labels = labels.map(|(key, value)| Requirement {
            key: key.as_str().into(),
            operator: Operator::In(value.as_str().into_iter().map(Box::from).collect()),
        });
        let expressions = selector.items("matchExpressions").iter().map(|expression| {
            let values = || {
                let mut values: Vec<Box<str>> =
                    expression.texts("values").into_iter().map(Box::from).collect();
                values.sort_unstable();
                values.into_boxed_slice()
            };
            let operator = match expression.text("operator") {
                "In" => Operator::In(values()),
                "NotIn" => Operator::NotIn(values()),
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => Operator::In(Box::default()),
            };
            Requirement { key: expression.text("key").into(), operator }
        });
        Some(LabelSelector::of(labels.chain(expressions)))
    }

    fn of(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut by_key: BTreeMap<Box<str>, Vec<Operator>> = BTreeMap::new();
        for Requirement { key, operator } in requirements {
            by_key.entry(key).or_default().push(operator);
        }
        let conditions: Box<[_]> =
            by_key.into_iter().map(|(key, operators)| (key, Condition::of(operators))).collect();
        let required = conditions.iter().filter(|(_, condition)| condition.is_required).count();
        LabelSelector { conditions, required }
    }

    /// The requirements of the query parameter's text, in its order.
    ///
    /// # Errors
    /// As for [`LabelSelector::parse`].
    pub fn requirements_of(text: &str) -> Result<Vec<Requirement>, LabelSelectorError> {
        label_parser::parse(text)
    }

    /// Bytes of memory that the selector holds: some tens for each byte of text, where that names many labels.
    pub fn held_bytes(&self) -> usize {
        let listed =
            |values: &[Box<str>]| values.iter().map(|value| size_of::<Box<str>>() + held(value)).sum();
        let condition = |(key, condition): &(Box<str>, Condition)| {
            let allowed: usize = condition.allowed.as_deref().map_or(0, listed);
            size_of::<(Box<str>, Condition)>() + held(key) + allowed + listed(&condition.excluded)
        };
        self.conditions.iter().map(condition).sum()
    }

    /// The labels of which a requirement allows one value only, as key and value, sorted by key. Every selected object has all
    /// of them.
    pub fn required_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.conditions.iter().filter_map(|(key, condition)| match condition.allowed.as_deref() {
            Some([value]) => Some((&**key, &**value)),
            _ => None,
        })
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether an object with these labels, sorted by key, is selected.
    pub fn matches<L: LabelSet + ?Sized>(&self, labels: &L) -> bool {
        // The smaller one of conditions and labels is looked up in the other.
        if self.conditions.len() <= labels.count() {
            return self.conditions.iter().all(|(key, condition)| condition.holds(labels.find(key)));
        }
        let mut required = 0;
        for (key, value) in labels.pairs().take_while(|_| count_step()) {
            let found = self.conditions.binary_search_by(|(asked, _)| (**asked).cmp(key));
            let Ok(at) = found else { continue };
            let condition = &self.conditions[at].1;
            if !condition.holds(Some(value)) {
                return false;
            }
            required += usize::from(condition.is_required);
        }
        required == self.required
    }
}

impl Condition {
    /// The condition that holds where all of `operators` hold.
    fn of(operators: Vec<Operator>) -> Condition {
        let mut all = Condition::default();
        let mut excluded: Vec<Box<str>> = Vec::new();
        for operator in operators {
            all.is_required |= !matches!(operator, Operator::NotIn(_) | Operator::DoesNotExist);
            match operator {
                Operator::In(values) => {
                    all.allowed = Some(match all.allowed.take() {
                        None => values,
                        Some(allowed) => allowed.into_iter().filter(|v| contains(&values, v)).collect(),
                    });
                }
                Operator::NotIn(values) => excluded.extend(values),
                Operator::Exists => {}
                Operator::DoesNotExist => all.is_forbidden = true,
                Operator::GreaterThan(bound) => all.above = all.above.max(Some(bound)),
                Operator::LessThan(bound) => {
                    all.below = Some(all.below.map_or(bound, |below| below.min(bound)));
                }
            }
        }
        excluded.sort_unstable();
        excluded.dedup();
        all.excluded = excluded.into();
        all
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return !self.is_required };
        let number = || value.parse::<i64>().ok();
        !self.is_forbidden
            && self.allowed.as_ref().is_none_or(|allowed| contains(allowed, value))
            && !contains(&self.excluded, value)
            && self.above.is_none_or(|bound| number().is_some_and(|number| number > bound))
            && self.below.is_none_or(|bound| number().is_some_and(|number| number < bound))
    }
}

/// Bytes that the allocator holds for `text`: its blocks are multiples of sixteen.
fn held(text: &str) -> usize {
    text.len().next_multiple_of(16)
}

fn contains(sorted: &[Box<str>], value: &str) -> bool {
    sorted.binary_search_by(|candidate| (**candidate).cmp(value)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(labels: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut labels: Vec<(String, String)> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        labels.sort();
        labels
    }

    fn check(selector: &str, labels: &[(&str, &str)], selected: bool) {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(&*sorted(labels)), selected, "{selector} on {labels:?}");
    }

    #[test]
    fn a_selector_holds_as_many_bytes_as_it_has_conditions_and_values() {
        let of = |text: &str| LabelSelector::parse(text).unwrap().held_bytes();
        let condition = size_of::<(Box<str>, Condition)>();
        assert_eq!(of(""), 0);
        assert_eq!(of("a"), condition + 16);
        assert_eq!(of("a,a,a"), of("a"));
        assert_eq!(of("a,b"), 2 * of("a"));
        assert_eq!(of("a in (x,y)"), of("a") + 2 * (16 + 16));
        assert_eq!(of("a!=x,a!=y"), of("a in (x,y)"));
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
            ("app!=y,app!=z,app", true),
            ("app!=y,app!=x,app", false),
            ("app in (x,y),app in (y,z)", false),
            ("app in (x,y),app in (x,z),app notin (y)", true),
            ("app,!app", false),
            ("missing,!missing", false),
            ("n>6,n>3,n<9,n<8", true),
            ("n>6,n>7", false),
            ("n<9,n<7", false),
            ("a!=1,b!=1,c!=1,!d,app=x", true),
            ("a!=1,b!=1,c!=1,!tier,app=x", false),
            ("a!=1,b!=1,c!=1,!d,missing", false),
        ] {
            check(selector, &x, selected);
        }
        check("empty=", &[("empty", "")], true);
        check("empty in ()", &[("empty", "")], true);
        check("in in (in)", &[("in", "in")], true);
    }

    #[test]
    fn many_terms_cost_an_object_no_more_than_its_labels() {
        let different: Vec<String> = (0..20_000).map(|at| format!("k{at}!=v")).collect();
        let same: Vec<String> = (0..20_000).map(|at| format!("app!=v{at}")).collect();
        let one = |text: &str| LabelSelector::parse(text).unwrap();
        assert_eq!(one(&same.join(",")).conditions.len(), 1, "terms about one label are one condition");
        let selector = one(&format!("{},app", different.join(",")));
        assert!(selector.matches(&*sorted(&[("app", "x"), ("k7", "w")])));
        assert!(!selector.matches(&*sorted(&[("app", "x"), ("k7", "v")])));
        assert!(!selector.matches(&*sorted(&[("k7", "w")])), "a required label is missing");
    }

    #[test]
    fn twenty_thousand_terms_over_twenty_thousand_objects_take_a_look_up_for_each_label() {
        let objects: Vec<Vec<(String, String)>> = (0..20_000)
            .map(|at| {
                sorted(&[("app", &format!("x{at}")), ("tier", "front"), ("zone", &format!("z{}", at % 7))])
            })
            .collect();
        let absent = (0..20_000).map(|at| format!("!k{at}")).collect::<Vec<_>>().join(",");
        let excluded = (0..20_000).map(|at| format!("app!=x{at}")).collect::<Vec<_>>().join(",");
        let allowed = (0..20_000).map(|at| format!("x{}", 2 * at)).collect::<Vec<_>>().join(",");
        for (text, selected) in [(absent, 20_000), (excluded, 0), (format!("app in ({allowed})"), 10_000)] {
            let selector = LabelSelector::parse(&text).unwrap();
            let budget = std::sync::Arc::new(orch_schema::budget::Budget::default());
            let found = budget.enter(|| objects.iter().filter(|object| selector.matches(&***object)).count());
            assert_eq!(found, selected);
            // Never a step for each term.
            let steps = orch_schema::budget::STEPS_MAX - budget.steps_left();
            assert!(steps <= 4 * 20_000, "{steps} steps");
        }
    }

    #[test]
    fn matching_ends_with_its_request() {
        let terms = (0..20_000).map(|at| format!("!k{at}")).collect::<Vec<_>>().join(",");
        let selector = LabelSelector::parse(&terms).unwrap();
        let labels: Vec<(String, String)> =
            (0..10_000).map(|at| (format!("l{at:05}"), String::new())).collect();
        let labels: Vec<(&str, &str)> =
            labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let object = sorted(&labels);
        orch_schema::budget::stopping::check_stops("selector", 10_000, || selector.matches(&*object));
    }
}
