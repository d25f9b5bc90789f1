//! Errors of policies beside each other, and the places where they stand.

use super::*;

/// The reason and the text of each error of a validating policy with this spec.
fn causes(spec: Value) -> Vec<(&'static str, String)> {
    let new = created(&ValidatingAdmissionPolicy, validating(spec));
    let errors = ValidatingAdmissionPolicy.validate_create(&crate::kinds::testing::CONTEXT, &new);
    errors.iter().map(|error| (error.kind.reason(), error.to_string())).collect()
}

#[test]
fn a_pattern_that_cannot_be_used_is_an_internal_error() {
    let find = "object.data.k.find('(') == ''";
    let detail = "Internal error: program instantiation failed: ";
    for (spec, field) in [
        (expression(find), "validations[0].expression"),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "'a'.find('(')"}]}),
            "validations[0].messageExpression",
        ),
        (
            json!({"auditAnnotations": [{"key": "k", "valueExpression": "'a'.find('(')"}]}),
            "auditAnnotations[0].valueExpression",
        ),
        (
            json!({"variables": [{"name": "v", "expression": find}], "validations": [{"expression": "variables.v.any == 1"}]}),
            "variables[0].expression",
        ),
        (
            json!({"matchConditions": [{"name": "c", "expression": find}], "validations": [{"expression": "true"}]}),
            "matchConditions[0].expression",
        ),
    ] {
        let told = causes(spec);
        assert_eq!((told.len(), told[0].0), (1, "InternalError"), "{told:?}");
        assert!(told[0].1.starts_with(&format!("spec.{field}: {detail}")), "{told:?}");
    }
}

#[test]
fn a_policy_without_variables_has_none_to_name() {
    let undeclared = "spec.validations[0].expression: Invalid value: \"variables.limit > 1\": compilation failed: ERROR: \
                      <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.limit > 1\n | ^";
    check(expression("variables.limit > 1"), &[undeclared]);
    let mutation =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "variables.none"}});
    check_create(
        &MutatingAdmissionPolicy,
        mutating(mutation),
        &[
            "spec.mutations[0].applyConfiguration.expression: Invalid value: \"variables.none\": compilation failed: ERROR: \
           <input>:1:10: undefined field 'none'\n | variables.none\n | .........^",
        ],
    );
}

#[test]
fn selectors_are_told_where_they_stand() {
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Nope"}]});
    for field in ["namespaceSelector", "objectSelector"] {
        let mut constraints = json!({"resourceRules": rules(&["pods"], &["CREATE"])});
        crate::validate::tree::set(&mut constraints, field, selector.clone());
        let mut spec = expression("true");
        crate::validate::tree::set(&mut spec, "matchConstraints", constraints);
        let told = causes(spec);
        let place = format!("spec.matchConstraints.{field}.matchExpressions[0].operator: ");
        assert!(told.len() == 1 && told[0].1.starts_with(&place), "{told:?}");
    }
}

#[test]
fn more_items_than_may_be_are_looked_at() {
    let condition =
        |at: usize| json!({"name": format!("c{at}"), "expression": if at == 2 { "1" } else { "true" }});
    let conditions = Value::Array((0..65).map(condition).collect());
    check(
        json!({"matchConditions": conditions, "validations": [{"expression": "true"}]}),
        &[
            "spec.matchConditions: Too many: 65: must have at most 64 items",
            "spec.matchConditions[2].expression: Invalid value: \"1\": must evaluate to bool but got int",
        ],
    );
    let annotation = |at: usize| json!({"key": format!("k{}", at.min(19)), "valueExpression": "'x'"});
    let told = causes(json!({"auditAnnotations": Value::Array((0..21).map(annotation).collect())}));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].1.ends_with(": must not have more than 20 auditAnnotations"), "{told:?}");
    assert_eq!(told[1].1, "spec.auditAnnotations[20].key: Duplicate value: \"k19\"");
}

#[test]
fn operations_that_there_are_none_of_are_told_twice_of_mutating_policies() {
    let spec = json!({"policyName": "p", "matchResources": {"resourceRules": rules(&["pods"], &["PATCH"])}});
    check_create(
        &PolicyBinding::Mutating,
        json!({"spec": spec}),
        &[
            "spec.matchResources.resourceRules[0].operations[0]: Unsupported value: \"PATCH\": supported values: \"*\", \
             \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            "spec.matchResources.resourceRules.operations: Unsupported value: \"PATCH\": supported values: \"*\", \
             \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ],
    );
}

#[test]
fn values_of_annotations_are_compiled_without_blanks_around_them() {
    check(
        json!({"auditAnnotations": [{"key": "k", "valueExpression": "  nope"}]}),
        &[
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"  nope\": compilation failed: ERROR: <input>:1:1: \
           undeclared reference to 'nope' (in container '')\n | nope\n | ^",
        ],
    );
}

#[test]
fn a_status_has_warnings_with_texts_and_fields() {
    let warning = |field: &str, warning: &str| json!({"fieldRef": field, "warning": warning});
    let old = created(&ValidatingAdmissionPolicy, validating(expression("true")));
    let with = |warnings: Value| {
        let mut new = old.clone();
        crate::validate::tree::set(
            &mut new,
            "status",
            json!({"typeChecking": {"expressionWarnings": warnings}}),
        );
        let context = crate::kinds::Context { action: Action::Status, ..crate::kinds::testing::CONTEXT };
        let errors = ValidatingAdmissionPolicy.validate_update(&context, &old, &new);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(with(json!([warning("spec.validations[0].messageExpression", "w")])), [""; 0]);
    let at = "status.typeChecking.expressionWarnings";
    assert_eq!(
        with(json!([warning(" ", ""), warning(" spec[", "w")])),
        [
            format!("{at}[0].warning: Required value"),
            format!("{at}[0].fieldRef: Required value"),
            format!("{at}[1].fieldRef: Invalid value: \"spec[\": invalid JSONPath: unterminated array"),
        ]
    );
}
