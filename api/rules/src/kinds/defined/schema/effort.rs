//! The work that an object of a kind may take, by what it is made of.
//!
//! Owns the estimate, which is made once with the tables of a kind and errs towards more: whoever carries out a write decides by it
//! on which thread. There is none where texts decide (patterns) or rules in expressions do.

use std::collections::HashMap;

use orch_schema::ObjectType;

use super::constraint::{Node, Unique};
use super::failure::FAILURE_STEPS;
use super::sameness::VISIT_STEPS;

/// Names or values of a schema that are compared in one step.
const PER_STEP: u64 = 8;
/// Steps of telling one item of a list from the others.
const UNIQUE_STEPS: u64 = 10;
/// Steps of the rules for the metadata of an object within an object.
const METADATA_STEPS: u64 = 100;
/// Bytes of defaults that make one more value: the smallest values take as many in memory.
const BYTES_PER_VALUE: u64 = 16;

/// Steps that an object may take in the rules of its kind at most, by the values and the objects in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    of_value: u64,
    of_object: u64,
}

impl Effort {
    /// The effort for objects of the schema `root` and the tables `types`; `None`: it has no bound by these numbers.
    pub(super) fn of(root: &Node, types: &[ObjectType]) -> Option<Effort> {
        let mut walk = Walk { heights: HashMap::new(), most: 0, beside: 0, has_patterns: false };
        let height = walk.node(root);
        if walk.has_patterns {
            return None;
        }
        // An update compares each value with its old one once for each value around it.
        let of_value = walk.most.saturating_add(walk.beside).saturating_add(height * VISIT_STEPS);
        let fields = types.iter().map(|ty| ty.fields.len() as u64 / PER_STEP).max().unwrap_or_default();
        let filled = types.iter().map(|ty| u64::from(ty.filled_bytes)).max().unwrap_or_default();
        // Defaults are filled in before the rules of the kind and after them.
        let of_object = (filled / BYTES_PER_VALUE).saturating_mul(of_value).saturating_add(2 * fields);
        Some(Effort { of_value, of_object })
    }

    /// The steps for documents of `values` values, of which `objects` are objects.
    pub fn steps(self, values: u64, objects: u64) -> u64 {
        values.saturating_mul(self.of_value).saturating_add(objects.saturating_mul(self.of_object))
    }
}

struct Walk {
    /// Levels of the nodes that were met, by their places: shared ones are met once.
    heights: HashMap<*const Node, u64>,
    /// Steps of the node that takes most for one value.
    most: u64,
    /// Steps that other schemas may take for a value within a value that they judge.
    beside: u64,
    has_patterns: bool,
}

fn below(node: &Node) -> impl Iterator<Item = &Node> {
    let properties = node.properties.iter().map(|(_, node)| &**node);
    properties.chain(node.items.as_deref()).chain(node.values.as_deref())
}

impl Walk {
    /// Looks at `node` and those below it, and returns how many levels these are.
    fn node(&mut self, node: &Node) -> u64 {
        let place: *const Node = node;
        if let Some(height) = self.heights.get(&place) {
            return *height;
        }
        let steps = self.look(node);
        self.most = self.most.max(steps);
        if node.unique != Unique::Nothing {
            self.beside = self.beside.saturating_add(UNIQUE_STEPS);
        }
        let height = 1 + below(node).map(|node| self.node(node)).max().unwrap_or_default();
        self.heights.insert(place, height);
        height
    }

    /// Steps of one value with `node` and the schemas that judge the same value.
    fn look(&mut self, node: &Node) -> u64 {
        let Some(rules) = node.rules() else {
            return VISIT_STEPS + FAILURE_STEPS + node.properties.len() as u64 / PER_STEP;
        };
        self.has_patterns |= !rules.pattern().is_empty();
        let allowed = rules.allowed().map_or(0, |allowed| allowed.len());
        let names = node.properties.len() + rules.required.len() + allowed;
        let metadata = if node.embedded { METADATA_STEPS } else { 0 };
        let mut steps = VISIT_STEPS + FAILURE_STEPS + names as u64 / PER_STEP + metadata;
        let Some(of) = rules.junctors() else { return steps };
        for junctor in of.all_of.iter().chain(&of.any_of).chain(&of.one_of).chain(&of.not) {
            steps = steps.saturating_add(self.look(junctor));
            let within = below(junctor).map(|node| self.whole(node)).fold(0, u64::saturating_add);
            self.beside = self.beside.saturating_add(within);
        }
        steps
    }

    /// Steps of one value with `node` and with each node below it.
    fn whole(&mut self, node: &Node) -> u64 {
        let own = self.look(node);
        below(node).map(|node| self.whole(node)).fold(own, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use orch_schema::value::Value;

    use super::super::tests::compiled;

    /// The steps for a document of as many values, of which ten are objects.
    fn steps(spec: Value, values: u64) -> Option<u64> {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        compiled(&schema).constraints.effort().map(|effort| effort.steps(values, 10))
    }

    #[test]
    fn plain_kinds_take_little_and_those_that_texts_decide_have_no_bound() {
        let data = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let plain = steps(data, 100).unwrap();
        assert!(plain <= 100 * 100, "{plain}");
        let rule = json!([{"rule": "true"}]);
        for unbounded in [
            json!({"type": "string", "pattern": "a"}),
            json!({"type": "string", "not": {"pattern": "a"}}),
            json!({"type": "object", "x-orch-validations": rule}),
        ] {
            assert_eq!(steps(unbounded.clone(), 1), None, "{unbounded}");
        }
    }

    #[test]
    fn what_judges_a_value_beside_its_type_is_counted() {
        let plain = steps(json!({"type": "string"}), 100).unwrap();
        let wide: Value = (0..8000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
        let either = json!({"x-orch-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
        let names: Vec<Value> = (0..8000).map(|at| json!(at)).collect();
        let within = json!({"oneOf": [{"properties": {"a": {"minLength": 1}}}, {"required": ["a"]}]});
        let mut judged = within.clone();
        judged["type"] = json!("object");
        judged["properties"] = json!({"a": {"type": "string"}});
        let nested = (0..6).fold(within, |inner, _| json!({"oneOf": [inner, inner], "anyOf": [inner]}));
        let filled = json!({"type": "object", "default": {"a": vec!["x"; 1000]}});
        for (spec, times) in [
            (either, 2),
            (judged, 3),
            (nested, 700),
            (json!({"type": "string", "enum": names}), 10),
            (json!({"type": "object", "properties": wide}), 10),
            (json!({"type": "array", "items": {"type": "object", "properties": {"a": filled}}}), 50),
        ] {
            let more = steps(spec.clone(), 100).unwrap();
            assert!(more > times * plain, "{more} {plain} {spec}");
        }
    }
}
