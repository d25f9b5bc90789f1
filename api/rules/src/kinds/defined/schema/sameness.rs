//! Compares a part of an object with its former value: breaches of the schema are forgiven where it did not change.
//!
//! Owns the reference's comparison, which follows the schema: items of a list of type map are compared by their keys, in any order, and a
//! member that the schema does not declare makes its object a changed one, as does an item without a key its list. Other lists are
//! compared as a whole.
//!
//! Invariant: a value is visited once for each look at a part around it, and each visit counts as a step of the request.

use std::collections::HashMap;

use orch_schema::budget::count_steps;
use orch_schema::value::Value;

use super::constraint::{Node, Unique};
use super::rules::Rules;
use crate::expression::rules::Sameness;

/// Steps that a look at one value with one node counts as: the outcomes of its rules, about a quarter of a microsecond.
pub(super) const VISIT_STEPS: u64 = 10;

/// The values of the keys of an item of a list of type map; `None` if one is absent or no scalar, so that the item has no old one.
pub(super) fn keys<'v>(node: &Node, item: &'v Value) -> Option<Vec<&'v Value>> {
    let names = node.rules().map(Rules::list_keys).unwrap_or_default();
    let item = item.as_object()?;
    let is_scalar = |value: &&Value| !value.is_object() && !value.is_array() && !value.is_null();
    names.iter().map(|name| item.get(name).filter(is_scalar)).collect()
}

/// Items by their keys. Of repeated keys the first counts.
pub(super) fn by_keys<'v>(node: &Node, items: &'v [Value]) -> HashMap<Vec<&'v Value>, &'v Value> {
    let mut found = HashMap::with_capacity(items.len());
    for item in items {
        if let Some(keys) = keys(node, item) {
            found.entry(keys).or_insert(item);
        }
    }
    found
}

impl Sameness for Node {
    fn property(&self, name: &str) -> Option<&dyn Sameness> {
        Node::property(self, name).map(|node| node as &dyn Sameness)
    }

    fn element(&self) -> Option<&dyn Sameness> {
        self.values.as_deref().or(self.items.as_deref()).map(|node| node as &dyn Sameness)
    }

    fn is_same(&self, new: &Value, old: &Value) -> bool {
        if !count_steps(VISIT_STEPS) {
            return false;
        }
        match (new, old) {
            (Value::Object(new), Value::Object(old)) => {
                let is_member_same = |(name, value): (_, &Value)| {
                    let name: &str = name;
                    let node = Node::property(self, name).or(self.values.as_deref());
                    node.zip(old.get(name)).is_some_and(|(node, old)| node.is_same(value, old))
                };
                new.len() == old.len() && new.iter().all(|(name, value)| is_member_same((name, value)))
            }
            (Value::Array(new), Value::Array(old)) if self.unique == Unique::Keys => {
                let looks = u64::try_from(old.len()).unwrap_or(u64::MAX);
                if new.len() != old.len() || !count_steps(VISIT_STEPS.saturating_mul(looks)) {
                    return false;
                }
                let old_by_keys = by_keys(self, old);
                new.iter().all(|value| {
                    let old = keys(self, value).and_then(|keys| old_by_keys.get(&keys).copied());
                    self.items.as_deref().zip(old).is_some_and(|(node, old)| node.is_same(value, old))
                })
            }
            _ => new == old,
        }
    }
}

/// A whole object, whose `apiVersion` and `kind` are not among its members.
#[derive(Debug)]
pub(super) struct Whole<'n>(pub(super) &'n Node);

impl Sameness for Whole<'_> {
    fn property(&self, name: &str) -> Option<&dyn Sameness> {
        Sameness::property(self.0, name)
    }

    fn element(&self) -> Option<&dyn Sameness> {
        self.0.element()
    }

    fn is_same(&self, new: &Value, old: &Value) -> bool {
        // few: two names.
        let declares_head =
            ["apiVersion", "kind"].into_iter().all(|name| Node::property(self.0, name).is_some());
        declares_head && self.0.is_same(new, old)
    }
}
