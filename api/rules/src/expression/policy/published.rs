//! Type checking of a validating policy against the published types of the objects that it is about.
//!
//! Owns the issues that the status of a policy shows. A policy with issues is evaluated as any other: admission takes objects of any
//! type. An expression is checked once for each type of objects, with all variables, and any type of its value will do.
//!
//! As in the reference, the environment is another one than that of admission: objects and parameters have types, and
//! questions about rights have no `requestResource`.

use std::sync::Arc;

use orch_expression::environments::{AdmissionTypes, AdmissionVariable};
use orch_expression::schema::{Declared, Keywords, SchemaTypes};
use orch_expression::{Ast, Libraries, Scope, Type};
use orch_proto::Brand;
use orch_schema::value::Value;

use crate::expression::{Charge, Exhausted};
use crate::validate::tree::Tree;

/// The type of the objects of a kind, as its published schema says.
#[derive(Clone, Debug)]
pub struct PublishedType {
    declared: Arc<Declared>,
    types: Arc<SchemaTypes>,
}

impl PublishedType {
    /// The type of the objects with this schema, in which no reference is left; messages call it `name`. `None` if expressions see
    /// nothing of such objects.
    pub fn of(schema: &Value, name: &str, brand: &Brand) -> Option<PublishedType> {
        let declared = Keywords::with_prefix(brand.extension_prefix).declare_published(schema, name)?;
        let types = Arc::new(SchemaTypes::of(&declared));
        Some(PublishedType { declared, types })
    }
}

/// An expression of a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The one that has to hold.
    Expression,
    /// The one that makes the message.
    Message,
}

impl Part {
    /// The field of the validation.
    pub fn field(self) -> &'static str {
        match self {
            Part::Expression => "expression",
            Part::Message => "messageExpression",
        }
    }
}

/// The faults of one expression for objects of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The number of the validation.
    pub at: usize,
    /// The expression.
    pub part: Part,
    /// The faults, with their places in the text.
    pub text: String,
}

/// The issues that the validations of the policy with this spec have for objects of the type `object`, in their order. `params`: the
/// type of the parameters; without one those of a policy that has some are of any type.
///
/// # Errors
/// The steps are not left.
pub fn type_issues(
    spec: &Value,
    brand: &'static Brand,
    object: &PublishedType,
    params: Option<&PublishedType>,
    charge: &mut dyn Charge,
) -> Result<Vec<Issue>, Exhausted> {
    let scope = scope(spec, known(brand, object, params), charge)?;
    let mut issues = Vec::new();
    for (at, validation) in spec.items("validations").iter().enumerate() {
        for part in [Part::Expression, Part::Message] {
            let source = validation.text(part.field());
            if part == Part::Message && source.is_empty() {
                continue;
            }
            if let Err(error) = Ast::check(source, &scope, charge)? {
                issues.push(Issue { at, part, text: error.to_string() });
            }
        }
    }
    Ok(issues)
}

fn known(brand: &'static Brand, object: &PublishedType, params: Option<&PublishedType>) -> AdmissionTypes {
    let mut types = AdmissionTypes::of(brand.name);
    let shown = [
        (AdmissionVariable::Object, Some(object)),
        (AdmissionVariable::OldObject, Some(object)),
        (AdmissionVariable::Params, params),
    ];
    for (variable, of) in shown {
        if let Some(of) = of {
            types = types.with_known(variable, of.declared.type_of(), Arc::clone(&of.types));
        }
    }
    types
}

/// The names that validations may use, variables of the policy included: one that has a fault is of any type.
fn scope(spec: &Value, mut types: AdmissionTypes, charge: &mut dyn Charge) -> Result<Scope, Exhausted> {
    let declared = AdmissionVariable::ALL.into_iter().filter(|variable| match variable {
        AdmissionVariable::Params => spec.has("paramKind"),
        AdmissionVariable::RequestResource => false,
        AdmissionVariable::Object
        | AdmissionVariable::OldObject
        | AdmissionVariable::Request
        | AdmissionVariable::NamespaceObject
        | AdmissionVariable::Variables
        | AdmissionVariable::Authorizer => true,
    });
    let declared: Vec<AdmissionVariable> = declared.collect();
    for (before, variable) in (0_u64..).zip(spec.items("variables")) {
        // A scope has a table of all variables before.
        charge.charge(before.saturating_mul(2))?;
        let scope = types.scope(&declared, Libraries::default());
        let checked = Ast::check(variable.text("expression"), &scope, charge)?;
        let of = checked.as_ref().map_or(&Type::Error, Ast::result);
        types = types.with_policy_variable(variable.text("name"), of);
    }
    Ok(types.scope(&declared, Libraries::default()))
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::json;

    use super::*;
    use crate::expression::Allowance;

    fn types() -> (PublishedType, PublishedType) {
        let object = json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
                "items": {"type": "array", "items": {"type": "object", "properties": {"size": {}}}},
            }},
        }});
        let params = json!({"type": "object", "properties": {
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let of = |schema: &Value, name: &str| PublishedType::of(schema, name, &ORCH).unwrap();
        (of(&object, "Set1"), of(&params, "Map2"))
    }

    fn issues(spec: &Value) -> Vec<(usize, &'static str, String)> {
        let (object, params) = types();
        let params = spec.has("paramKind").then_some(&params);
        let issues = type_issues(spec, &ORCH, &object, params, &mut Allowance::of(1_000_000)).unwrap();
        let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        issues.iter().map(|of| (of.at, of.part.field(), first(&of.text))).collect()
    }

    #[test]
    fn expressions_are_checked_against_the_types_of_objects_and_parameters() {
        let spec = json!({"paramKind": {}, "validations": [
            {"expression": "object.spec.replicas > 1 && oldObject.metadata.name == 'x'", "messageExpression": "object.name"},
            {"expression": "object.spec.replicas <= params.data.max"},
            {"expression": "object.spec.items + ['x'] == []"},
            {"expression": "object.spec.items.all(item, item.size > 1)"},
            {"expression": "object.spec.port != 22"},
            {"expression": "'any type will do'"},
        ]});
        assert_eq!(
            issues(&spec),
            [
                (0, "messageExpression", "ERROR: <input>:1:7: undefined field 'name'".to_owned()),
                (
                    1,
                    "expression",
                    "ERROR: <input>:1:22: found no matching overload for '_<=_' applied to '(int, string)'".to_owned()
                ),
                (
                    2,
                    "expression",
                    "ERROR: <input>:1:19: found no matching overload for '_+_' applied to '(list(Set1.spec.items.@idx), list(string))'"
                        .to_owned()
                ),
                (3, "expression", "ERROR: <input>:1:33: undefined field 'size'".to_owned()),
            ]
        );
    }

    #[test]
    fn variables_are_typed_where_they_are_no_objects_and_have_no_fault() {
        let spec = json!({
            "variables": [
                {"name": "spec", "expression": "object.spec"},
                {"name": "wrong", "expression": "object.none"},
                {"name": "items", "expression": "object.spec.items"},
                {"name": "replicas", "expression": "object.spec.replicas"},
            ],
            "validations": [
                {"expression": "variables.spec.none && variables.items[0].none"},
                {"expression": "variables.wrong.anything > 1"},
                {"expression": "variables.replicas == 'x'"},
                {"expression": "authorizer.requestResource.check('get').allowed()"},
                {"expression": "params == null"},
            ],
        });
        let found =
            issues(&spec).into_iter().map(|(at, _, text)| (at, text.split_once(": ").unwrap().1.to_owned()));
        let texts: Vec<(usize, String)> = found.collect();
        let expected = [
            (2, "<input>:1:20: found no matching overload for '_==_' applied to '(int, string)'"),
            (3, "<input>:1:11: type 'orch.authorization.Authorizer' does not support field selection"),
            (4, "<input>:1:1: undeclared reference to 'params' (in container '')"),
        ];
        assert_eq!(texts, expected.map(|(at, text)| (at, text.to_owned())));
    }

    #[test]
    fn a_check_ends_with_its_steps() {
        let (object, _) = types();
        let spec = json!({"validations": [{"expression": "object.spec.replicas > 1"}]});
        assert!(type_issues(&spec, &ORCH, &object, None, &mut Allowance::of(2)).is_err());
    }
}
