//! Policies and bindings as they are written: what is refused, in which words, and what is filled in.

use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::Action;
use crate::kinds::Strategy;
use crate::kinds::testing::{check_create, check_hostile, check_update, created, defaulted, updated};

mod companions;

fn rules(resources: &[&str], operations: &[&str]) -> Value {
    let list = |texts: &[&str]| Value::Array(texts.iter().map(|text| Value::from(*text)).collect());
    json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": list(resources),
    }])
}

fn validating(spec: Value) -> Value {
    let mut spec = spec;
    crate::validate::tree::set_default(
        &mut spec,
        "matchConstraints",
        json!({"resourceRules": rules(&["configmaps"], &["CREATE"])}),
    );
    json!({"spec": spec})
}

#[track_caller]
fn check(spec: Value, expected: &[&str]) {
    check_create(&ValidatingAdmissionPolicy, validating(spec), expected);
}

fn expression(source: &str) -> Value {
    json!({"validations": [{"expression": source}]})
}

#[test]
fn defaults_are_those_of_the_reference() {
    let new = defaulted(&ValidatingAdmissionPolicy, validating(expression("true")));
    assert_eq!(new["spec"]["failurePolicy"], "Fail");
    assert_eq!(
        new["spec"]["matchConstraints"],
        json!({
            "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                "scope": "*",
            }],
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        })
    );
    let bound = defaulted(
        &PolicyBinding::Validating,
        json!({"spec": {"policyName": "p", "matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}}),
    );
    assert_eq!(bound["spec"]["matchResources"]["matchPolicy"], "Equivalent");
    assert_eq!(defaulted(&PolicyBinding::Validating, json!({"spec": {}}))["spec"], json!({}));
}

#[test]
fn expressions_are_refused_in_the_reference_words() {
    check(expression("object.data.k != 'bad'"), &[]);
    check(
        expression("object.x + "),
        &[
            "spec.validations[0].expression: Invalid value: \"object.x + \": compilation failed: ERROR: <input>:1:12: \
           Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', \
           NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.x + \n | ...........^",
        ],
    );
    check(
        expression("'text'"),
        &["spec.validations[0].expression: Invalid value: \"'text'\": must evaluate to bool but got string"],
    );
    check(
        expression("params.x == 1"),
        &["spec.validations[0].expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: \
           <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^"],
    );
    let with_params = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "params.x == 1"}],
    });
    check(with_params, &[]);
    check(
        json!({"validations": [{"expression": " ", "messageExpression": " ", "message": "a\nb", "reason": "Gone"}]}),
        &[
            "spec.validations[0].expression: Required value: expression is not specified",
            "spec.validations[0].messageExpression: Invalid value: \" \": must be non-empty if specified",
            "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.validations[0].reason: Unsupported value: \"Gone\": supported values: \"Forbidden\", \"Invalid\", \
             \"RequestEntityTooLarge\"",
        ],
    );
    check(
        json!({"validations": [{"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}]}),
        &[
            "spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/x').check('get').reason()\": \
           compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | \
           authorizer.path('/x').check('get').reason()\n | ^",
        ],
    );
}

#[test]
fn variables_are_known_behind_them() {
    let of = |variables: Value, source: &str| json!({"variables": variables, "validations": [{"expression": source}]});
    check(of(json!([{"name": "n", "expression": "size(object.data)"}]), "variables.n > 1"), &[]);
    check(
        of(
            json!([{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]),
            "variables.b == 1",
        ),
        &[
            "spec.variables[0].expression: Invalid value: \"variables.b\": compilation failed: ERROR: <input>:1:10: \
           undefined field 'b'\n | variables.b\n | .........^",
        ],
    );
    check(
        of(
            json!([{"name": "", "expression": ""}, {"name": "in", "expression": "1"}, {"name": "a-b", "expression": "1"}]),
            "true",
        ),
        &[
            "spec.variables[0].name: Required value: name is not specified",
            "spec.variables[0].expression: Required value: expression is not specified",
            "spec.variables[1].name: Invalid value: \"in\": must be a valid CEL identifier",
            "spec.variables[2].name: Invalid value: \"a-b\": must be a valid CEL identifier",
        ],
    );
    check(
        json!({
            "validations": [{"expression": "true"}],
            "variables": [{"name": "n", "expression": "1"}],
            "matchConditions": [
                {"name": "a", "expression": "variables.n == 1"}, {"name": "a", "expression": ""},
                {"name": "c", "expression": "namespaceObject == null"},
            ],
        }),
        &[
            "spec.matchConditions[0].expression: Invalid value: \"variables.n == 1\": compilation failed: ERROR: \
             <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.n == 1\n | ^",
            "spec.matchConditions[1].expression: Required value",
            "spec.matchConditions[1].name: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn a_policy_says_something_and_about_something() {
    check(
        json!({}),
        &[
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ],
    );
    check_create(
        &ValidatingAdmissionPolicy,
        json!({"spec": {"validations": [{"expression": "true"}]}}),
        &["spec.matchConstraints: Required value"],
    );
    check(
        json!({"matchConstraints": {}, "failurePolicy": "Maybe", "validations": [{"expression": "true"}]}),
        &[
            "spec.failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"",
            "spec.matchConstraints.resourceRules: Required value",
        ],
    );
    check(
        json!({"auditAnnotations": [
            {"key": "a", "valueExpression": "'x'"}, {"key": "a", "valueExpression": "1"},
            {"key": "", "valueExpression": ""}, {"key": "b", "valueExpression": "null"},
        ]}),
        &[
            "spec.auditAnnotations[1].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] \
             but got int",
            "spec.auditAnnotations[1].key: Duplicate value: \"a\"",
            "spec.auditAnnotations[2].key: Required value",
            "spec.auditAnnotations[2].valueExpression: Required value: valueExpression is not specified",
        ],
    );
}

#[test]
fn kinds_of_parameters_are_named_in_full() {
    let of = |version: &str, kind: &str| json!({"paramKind": {"apiVersion": version, "kind": kind}, "validations": [{"expression": "true"}]});
    check(of("rules.example.com/v1", "Limit"), &[]);
    check(of("", ""), &["spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"]);
    check(
        of("a/b/c", "K"),
        &["spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"],
    );
    check(of("a/", "K"), &["spec.paramKind.apiVersion: Invalid value: \"a/\": version must be specified"]);
}

#[test]
fn rules_over_resources_are_checked_as_those_of_webhooks() {
    let of = |rule: Value| {
        let mut spec = expression("true");
        crate::validate::tree::set(&mut spec, "matchConstraints", json!({"resourceRules": [rule]}));
        spec
    };
    let at = |rest: &str| format!("spec.matchConstraints.resourceRules[0].{rest}");
    let empty = ["operations", "apiGroups", "apiVersions", "resources"]
        .map(|field| at(&format!("{field}: Required value")));
    check(of(json!({})), &empty.each_ref().map(String::as_str));
    let mixed = json!({
        "apiGroups": ["*", "a"], "apiVersions": ["*", ""], "resources": ["*", "a", "a/*", "a/b", "*/c", "d/c", "*/*"],
        "operations": ["*", "PATCH"], "resourceNames": ["a", "a", "x/y"], "scope": "World",
    });
    let expected = [
        at("resourceNames[1]: Duplicate value: \"a\""),
        at("resourceNames[2]: Invalid value: \"x/y\": may not contain '/'"),
        at(
            "operations: Invalid value: [\"*\",\"PATCH\"]: if '*' is present, must not specify other operations",
        ),
        at(
            "operations[1]: Unsupported value: \"PATCH\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \
            \"UPDATE\"",
        ),
        at("apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other API groups"),
        at(
            "apiVersions: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify other API versions",
        ),
        at("apiVersions[1]: Required value"),
        at("resources[3]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b"),
        at("resources[5]: Invalid value: \"d/c\": if '*/c' is present, must not specify d/c"),
        at(
            "resources: Invalid value: [\"*\",\"a\",\"a/*\",\"a/b\",\"*/c\",\"d/c\",\"*/*\"]: if '*/*' is present, must not \
            specify other resources",
        ),
        at(
            "resources: Invalid value: [\"*\",\"a\",\"a/*\",\"a/b\",\"*/c\",\"d/c\",\"*/*\"]: if '*' is present, must not \
            specify other resources without subresources",
        ),
        at("scope: Unsupported value: \"World\": supported values: \"*\", \"Cluster\", \"Namespaced\""),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(of(mixed), &expected);
}

#[test]
fn bindings_name_a_policy_and_what_follows() {
    let check = |spec: Value, expected: &[&str]| {
        check_create(&PolicyBinding::Validating, json!({"spec": spec}), expected);
    };
    check(json!({"policyName": "p", "validationActions": ["Deny", "Audit"]}), &[]);
    check(
        json!({"validationActions": []}),
        &[
            "spec.policyName: Required value",
            "spec.validationActions: Required value: at least one validation action is required",
        ],
    );
    check(
        json!({"policyName": "p", "validationActions": ["Deny", "Warn", "Deny", "Log"]}),
        &[
            "spec.validationActions[2]: Duplicate value: \"Deny\"",
            "spec.validationActions[3]: Unsupported value: \"Log\": supported values: \"Audit\", \"Deny\", \"Warn\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\",\"Log\"]: must not contain both Deny and \
             Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ],
    );
    check(
        json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {}}),
        &[
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ],
    );
    check(
        json!({
            "policyName": "p", "validationActions": ["Deny"],
            "paramRef": {"name": "n", "selector": {}, "parameterNotFoundAction": "Guess"},
        }),
        &[
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.parameterNotFoundAction: Unsupported value: \"Guess\": supported values: \"Allow\", \"Deny\"",
        ],
    );
    check_create(
        &PolicyBinding::Mutating,
        json!({"spec": {"policyName": "p", "matchResources": {"resourceRules": rules(&["pods"], &["DELETE"])}}}),
        &[
            "spec.matchResources.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \
           \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ],
    );
}

#[test]
fn variables_make_no_parts_of_objects() {
    let mutation =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}});
    let with_variable = |source: &str| {
        let mut policy = mutating(mutation.clone());
        let mut spec = policy["spec"].clone();
        crate::validate::tree::set(&mut spec, "variables", json!([{"name": "v", "expression": source}]));
        crate::validate::tree::set(&mut policy, "spec", spec);
        let new = created(&MutatingAdmissionPolicy, policy);
        MutatingAdmissionPolicy.validate_create(&crate::kinds::testing::CONTEXT, &new)
    };
    assert_eq!(with_variable("object.metadata.name").iter().count(), 0);
    for (source, reason) in [
        ("Object.spec{}", "undeclared reference to 'Object.spec'"),
        ("[JSONPatch{op: 'remove', path: '/a'}]", "undeclared reference to 'JSONPatch'"),
    ] {
        let errors = with_variable(source);
        let told: Vec<String> =
            errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect();
        assert!(told.len() == 1 && told[0].starts_with("spec.variables[0].expression: "), "{told:?}");
        assert!(told[0].contains(reason), "{told:?}");
    }
}

fn mutating(mutation: Value) -> Value {
    json!({"spec": {
        "matchConstraints": {"resourceRules": rules(&["configmaps"], &["CREATE"])},
        "mutations": [mutation], "reinvocationPolicy": "Never",
    }})
}

#[test]
fn mutations_make_what_their_type_says() {
    let apply = |source: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": source}});
    let patch = |source: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": source}});
    let check = |mutation: Value, expected: &[&str]| {
        check_create(&MutatingAdmissionPolicy, mutating(mutation), expected);
    };
    check(apply("Object{spec: Object.spec{anything: 'goes'}}"), &[]);
    check(patch("[JSONPatch{op: 'remove', path: '/data/' + jsonpatch.escapeKey('a/b')}]"), &[]);
    let at = "spec.mutations[0]";
    check(
        apply("\"text\""),
        &[&format!(
            "{at}.applyConfiguration.expression: Invalid value: \"\\\"text\\\"\": must evaluate to Object but got \
                    string"
        )],
    );
    check(
        patch("\"text\""),
        &[&format!(
            "{at}.jsonPatch.expression: Invalid value: \"\\\"text\\\"\": must evaluate to list(JSONPatch) but got \
                    string"
        )],
    );
    check(apply(""), &[&format!("{at}.applyConfiguration.expression: Required value")]);
    check(
        json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}),
        &[
            &format!(
                "{at}.applyConfiguration: Invalid value: \"{{applyConfiguration}}\": must not be specified when \
                      patchType is JSONPatch"
            ),
            &format!("{at}.jsonPatch: Required value: must be specified when patchType is JSONPatch"),
        ],
    );
    check(
        json!({"patchType": "Magic"}),
        &[&format!(
            "{at}.patchType: Unsupported value: \"Magic\": supported values: \"ApplyConfiguration\", \"JSONPatch\""
        )],
    );
    check_create(
        &MutatingAdmissionPolicy,
        json!({"spec": {"mutations": []}}),
        &[
            "spec.matchConstraints: Required value",
            "spec.mutations: Required value: mutations must contain at least one item",
            "spec.reinvocationPolicy: Required value",
        ],
    );
}

#[test]
fn the_generation_follows_the_spec_and_the_status_is_apart() {
    let strategy = &ValidatingAdmissionPolicy;
    let first = created(strategy, validating(expression("true")));
    assert_eq!((&first["metadata"]["generation"], &first["status"]), (&json!(1), &json!({})));
    let same = updated(strategy, Action::Object, &first, validating(expression("true")));
    assert!(same["metadata"]["generation"].is_null(), "the pipeline carries it over");
    let other = updated(strategy, Action::Object, &first, validating(expression("false")));
    assert_eq!(other["metadata"]["generation"], 2);
    let mut status = validating(expression("1"));
    crate::validate::tree::set(&mut status, "status", json!({"observedGeneration": 1}));
    let status = updated(strategy, Action::Status, &first, status);
    assert_eq!(status["spec"]["validations"][0]["expression"], "true");
    assert_eq!(status["status"]["observedGeneration"], 1);
    let created = created(&MutatingAdmissionPolicy, mutating(json!({})));
    assert!(created["status"].is_null(), "it has none");
    check_update(strategy, validating(expression("true")), validating(expression("false")), &[]);
}

#[test]
fn rows_name_parameters() {
    let now = "2026-01-02T03:04:05Z";
    let mut policy = created(&ValidatingAdmissionPolicy, validating(expression("true")));
    crate::validate::tree::set(&mut policy, "metadata", json!({"name": "p", "creationTimestamp": now}));
    let row = |policy: &Value| ValidatingAdmissionPolicy.table_row(policy, now).unwrap();
    assert_eq!(row(&policy)[..3], [json!("p"), json!(1), json!("<unset>")]);
    let mut spec = policy["spec"].clone();
    crate::validate::tree::set(&mut spec, "paramKind", json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    crate::validate::tree::set(&mut policy, "spec", spec);
    assert_eq!(row(&policy)[2], json!("v1/ConfigMap"));
    for (reference, cell) in [
        (json!(null), "<unset>"),
        (json!({"name": "n"}), "n"),
        (json!({"name": "n", "namespace": "ns"}), "ns/n"),
        (json!({"selector": {"matchLabels": {"a": "b"}}}), "a=b"),
    ] {
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": reference}});
        let row = PolicyBinding::Mutating.table_row(&binding, now).unwrap();
        assert_eq!(row[1..3], [json!("p"), json!(cell)]);
    }
}

#[test]
fn many_expressions_are_refused_before_they_take_long() {
    let one = |at: usize| json!({"expression": format!("object.a{at}.matches('(?i)[x\\\\W]{{{}}}')", at % 900 + 1)});
    let spec = json!({"validations": Value::Array((0..2_000).map(one).collect())});
    let new = created(&ValidatingAdmissionPolicy, validating(spec));
    let errors = ValidatingAdmissionPolicy.validate_create(&crate::kinds::testing::CONTEXT, &new);
    assert!(errors.iter().any(|error| error.message == "Forbidden: too complex, exceeds cost limit"));
}

#[test]
fn hostile_objects_are_looked_at_without_harm() {
    check_hostile(&ValidatingAdmissionPolicy);
    check_hostile(&MutatingAdmissionPolicy);
    check_hostile(&PolicyBinding::Validating);
    check_hostile(&PolicyBinding::Mutating);
}
