//! Policies evaluated over values: conditions, validations, messages, annotations, mutations, and their budgets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use orch_expression::{Decision, Decisions, Question, ResourceTarget};
use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;

use super::*;

/// Answers of a test, and the questions that were asked.
#[derive(Debug, Default)]
struct Answers(Mutex<HashMap<Question, Arc<Decision>>>);

impl Decisions for Answers {
    fn answer(&self, question: &Question) -> Option<Arc<Decision>> {
        self.0.lock().unwrap().get(question).cloned()
    }
}

/// A write that a policy is evaluated over.
#[derive(Default)]
struct Write {
    object: Value,
    old: Value,
    params: Value,
    namespace: Value,
}

fn evaluate<T>(write: &Write, answers: &Answers, run: impl Fn(&Input<'_>) -> Result<T, Box<Question>>) -> T {
    let document = |value| Document::new("v1", "ConfigMap", value);
    let (object, old, params) = (document(&write.object), document(&write.old), document(&write.params));
    let request =
        json!({"operation": "CREATE", "name": "n", "userInfo": {"username": "ann"}, "dryRun": false});
    let mut own = request.clone();
    own["resource"] = json!({"resource": "own"});
    let target = ResourceTarget { resource: "configmaps".into(), ..ResourceTarget::default() };
    let input = Input {
        object: object.as_ref(),
        old: old.as_ref(),
        request: &request,
        condition_request: &own,
        params: params.as_ref(),
        namespace: Some(&write.namespace).filter(|namespace| !namespace.is_null()),
        decisions: answers,
        target: &target,
    };
    loop {
        match run(&input) {
            Ok(done) => return done,
            Err(question) => {
                let allowed = &*question.verb == "get";
                let decision = Decision { allowed, reason: "told".to_owned(), error: String::new() };
                answers.0.lock().unwrap().insert(*question, Arc::new(decision));
            }
        }
    }
}

fn verdict_of(spec: &Value, write: &Write, failure: FailurePolicy) -> Verdict {
    let programs = ValidatingPrograms::compile(spec, &ORCH);
    evaluate(write, &Answers::default(), |input| programs.validate(input, failure))
}

fn config_map(data: Value) -> Write {
    Write { object: json!({"metadata": {"name": "n"}, "data": data}), ..Write::default() }
}

fn said(spec: &Value, write: &Write) -> Vec<Said> {
    verdict_of(spec, write, FailurePolicy::Fail).said
}

fn denied(message: &str) -> Said {
    Said::Denied { message: message.to_owned(), reason: String::new() }
}

#[test]
fn messages_are_made_given_or_the_expression() {
    let spec = json!({"validations": [
        {"expression": " object.data.k != 'v' "},
        {"expression": "false", "message": " two "},
        {"expression": "false", "messageExpression": "' k is ' + object.data.k", "message": "unused"},
        {"expression": "false", "messageExpression": "string(object.data.none)", "message": "fallback"},
        {"expression": "false", "messageExpression": "''", "message": "eight"},
        {"expression": "false", "messageExpression": "'a\\nb'", "message": "nine"},
        {"expression": "false", "messageExpression": "['x'].map(i, i + i).join('')"},
        {"expression": "true"},
        {"expression": "false", "message": "five", "reason": "Forbidden"},
    ]});
    let found = said(&spec, &config_map(json!({"k": "v"})));
    let expected = [
        denied("failed expression: object.data.k != 'v'"),
        denied("two"),
        denied("k is v"),
        denied("fallback"),
        denied("eight"),
        denied("nine"),
        denied("xx"),
        Said::Holds,
        Said::Denied { message: "five".to_owned(), reason: "Forbidden".to_owned() },
    ];
    assert_eq!(found, expected);
}

#[test]
fn errors_follow_the_failure_policy_and_violations_do_not() {
    let spec = json!({"validations": [{"expression": "object.data.none == 'x'"}, {"expression": "false", "message": "m"}]});
    let write = config_map(json!({"k": "v"}));
    let text =
        "expression 'object.data.none == \"x\"' resulted in error: no such key: none".replace('"', "'");
    assert_eq!(said(&spec, &write), [Said::Failed(text.clone()), denied("m")]);
    assert_eq!(verdict_of(&spec, &write, FailurePolicy::Ignore).said, [Said::Ignored(text), denied("m")]);
    let broken = json!({"validations": [{"expression": "object +"}]});
    let [Said::Failed(reason)] = &said(&broken, &write)[..] else { panic!("it does not compile") };
    assert!(reason.starts_with("compilation error: compilation failed: ERROR: <input>:1:9"), "{reason}");
}

#[test]
fn conditions_skip_a_policy() {
    let of =
        |conditions: Value| json!({"matchConditions": conditions, "validations": [{"expression": "false"}]});
    let condition = |source: &str| json!({"name": "c", "expression": source});
    let write = config_map(json!({}));
    let no = of(json!([condition("object.data.none == 'x'"), condition("object.metadata.name != 'n'")]));
    assert_eq!(said(&no, &write), [], "one that is false decides");
    let yes = of(json!([
        condition("request.operation == 'CREATE'"),
        condition("namespaceObject == null"),
        condition("request.resource.resource == 'own'")
    ]));
    assert_eq!(said(&yes, &write).len(), 1);
    let failing =
        of(json!([condition("object.data.none == 'x'"), condition("true"), condition("object.none == 1")]));
    let text = "[expression 'object.data.none == 'x'' resulted in error: no such key: none, expression 'object.none == 1' \
                resulted in error: no such key: none]";
    assert_eq!(said(&failing, &write), [Said::Failed(text.to_owned())]);
    let block = of(json!([condition("object.none == 1\n")]));
    let text = "expression 'object.none == 1\n' resulted in error: no such key: none";
    assert_eq!(said(&block, &write), [Said::Failed(text.to_owned())], "as it is written");
    let left_out = verdict_of(&failing, &write, FailurePolicy::Ignore);
    assert!(!left_out.applies && left_out.said.is_empty() && left_out.cost > 0, "{left_out:?}");
    assert_eq!(left_out.condition_errors, 2);
    let decided =
        of(json!([condition("object.none == 1"), condition("false"), condition("object.data.none == 'x'")]));
    assert_eq!(
        verdict_of(&decided, &write, FailurePolicy::Fail).condition_errors,
        1,
        "those behind are not counted"
    );
}

#[test]
fn variables_are_evaluated_where_they_are_read() {
    let spec = json!({
        "variables": [
            {"name": "n", "expression": "has(object.data.n) ? int(object.data.n) : 0"},
            {"name": "twice", "expression": "variables.n * 2"},
            {"name": "broken", "expression": "object.data.none == 'x'"},
        ],
        "validations": [
            {"expression": "variables.twice < 10", "messageExpression": "'n is ' + string(variables.n)"},
            {"expression": "!has(object.data.lazy) || variables.broken"},
        ],
        "auditAnnotations": [{"key": "seen", "valueExpression": "'n=' + string(variables.n)"}],
    });
    let nine = verdict_of(&spec, &config_map(json!({"n": "9"})), FailurePolicy::Fail);
    assert_eq!(nine.said, [denied("n is 9"), Said::Holds]);
    assert_eq!(nine.annotations, [Annotation::Published("seen".to_owned(), "n=9".to_owned())]);
    let lazy = said(&spec, &config_map(json!({"lazy": "yes"})));
    let text = "expression '!has(object.data.lazy) || variables.broken' resulted in error: composited variable \
                \"broken\" fails to evaluate: no such key: none";
    assert_eq!(lazy, [Said::Holds, Said::Failed(text.to_owned())]);
}

#[test]
fn annotations_without_a_value_are_left_out_and_errors_refuse() {
    let spec = json!({"auditAnnotations": [
        {"key": "a", "valueExpression": "' x '"}, {"key": "b", "valueExpression": "''"},
        {"key": "c", "valueExpression": "null"}, {"key": "d", "valueExpression": "string(object.data.none)"},
        {"key": "e", "valueExpression": "string(authorizer.path('/').check('get').allowed())"},
    ]});
    let verdict = verdict_of(&spec, &config_map(json!({})), FailurePolicy::Fail);
    let failed = |source: &str, reason: &str| {
        Annotation::Failed(format!("expression '{source}' resulted in error: {reason}"))
    };
    assert_eq!(
        verdict.annotations,
        [
            Annotation::Published("a".to_owned(), "x".to_owned()),
            failed("string(object.data.none)", "no such key: none"),
            failed("string(authorizer.path('/').check('get').allowed())", "no such attribute(s): authorizer"),
        ]
    );
    assert_eq!(verdict_of(&spec, &config_map(json!({})), FailurePolicy::Ignore).annotations.len(), 1);
}

#[test]
fn objects_have_their_kind_and_absent_ones_are_null() {
    let of = |source: &str| json!({"paramKind": {"apiVersion": "v1", "kind": "X"}, "validations": [{"expression": source}]});
    let write = config_map(json!({"k": "v"}));
    for source in [
        "object.apiVersion == 'v1' && object.kind == 'ConfigMap' && has(object.kind)",
        "oldObject == null && params == null && namespaceObject == null",
        "object.all(name, name in ['apiVersion', 'kind', 'metadata', 'data']) && size(object) == 4",
        "object == object && object.data == {'k': 'v'}",
        "request.userInfo.username == 'ann' && !has(request.namespace)",
    ] {
        assert_eq!(said(&of(source), &write), [Said::Holds], "{source}");
    }
    let deletion = Write { old: write.object, ..Write::default() };
    assert_eq!(said(&of("object == null && oldObject.data.k == 'v'"), &deletion), [Said::Holds]);
}

#[test]
fn questions_are_asked_once_and_the_answers_used() {
    let spec = json!({
        "matchConditions": [{"name": "a", "expression": "authorizer.path('/a').check('get').allowed()"}],
        "variables": [{"name": "may", "expression": "authorizer.requestResource.check('get').allowed()"}],
        "validations": [
            {"expression": "variables.may && authorizer.group('').resource('pods').check('list').reason() == 'told'"},
            {"expression": "variables.may || authorizer.requestResource.check('never').allowed()"},
            {"expression": "authorizer.requestResource.check('delete').allowed()"},
        ],
    });
    let (programs, answers) = (ValidatingPrograms::compile(&spec, &ORCH), Answers::default());
    let found =
        evaluate(&config_map(json!({})), &answers, |input| programs.validate(input, FailurePolicy::Fail));
    let last = denied("failed expression: authorizer.requestResource.check('delete').allowed()");
    assert_eq!(found.said, [Said::Holds, Said::Holds, last]);
    let asked = answers.0.lock().unwrap().len();
    assert_eq!(asked, 4, "what decides nothing is not asked");
}

#[test]
fn a_budget_that_is_used_up_ends_the_policy_with_one_error() {
    let check = |at: usize| json!({"expression": format!("authorizer.path('/{at}').check('get').allowed()")});
    let spec = json!({"validations": Value::Array((0..40).map(check).collect())});
    let write = config_map(json!({}));
    assert_eq!(said(&spec, &write), [Said::Failed(OUT_OF_BUDGET.to_owned())]);
    assert_eq!(
        verdict_of(&spec, &write, FailurePolicy::Ignore).said,
        [Said::Ignored(OUT_OF_BUDGET.to_owned())]
    );
}

#[test]
fn messages_of_validations_that_hold_use_up_the_budget() {
    let made = "string(object.data.k.contains(object.data.k))";
    let spec =
        json!({"validations": [{"expression": "true", "messageExpression": made}, {"expression": "false"}]});
    let text = format!("failed messageExpression: {OUT_OF_BUDGET}");
    let large = config_map(json!({"k": "a".repeat(100_000)}));
    assert_eq!(said(&spec, &large), [Said::Failed(text.clone()), Said::Failed(text.clone())]);
    let ignored = verdict_of(&spec, &large, FailurePolicy::Ignore).said;
    assert_eq!(ignored, [Said::Ignored(text.clone()), Said::Ignored(text)]);
    let small = config_map(json!({"k": "a"}));
    assert_eq!(said(&spec, &small), [Said::Holds, denied("failed expression: false")]);
}

#[test]
fn evaluations_of_policies_take_their_time_from_the_request() {
    let numbers = vec!["'no'"; 5_000].join(",");
    let cheap = json!({"validations": [{"expression": format!("!(object.data.k in [{numbers}])")}]});
    let programs = ValidatingPrograms::compile(&cheap, &ORCH);
    let write = config_map(json!({"k": "v"}));
    let request = Arc::new(orch_schema::budget::Budget::of(200_000));
    let judge = || {
        request.enter(|| {
            let run = |input: &Input<'_>| programs.validate(input, FailurePolicy::Ignore);
            evaluate(&write, &Answers::default(), run).said
        })
    };
    assert_eq!(judge(), [Said::Holds]);
    let judged = (0..1_000).take_while(|_| judge() == [Said::Holds]).count();
    assert!((10..500).contains(&judged), "{judged} were judged");
    assert!(request.check().is_err(), "the request has ended, whatever the policy says of its failures");
}

#[test]
fn large_texts_and_growing_values_end_within_the_cost() {
    let large = config_map(json!({"k": "ab".repeat(1_500_000)}));
    let out_of_cost = |source: &str| {
        let spec = json!({"validations": [{"expression": source}]});
        match said(&spec, &large).as_slice() {
            [Said::Failed(reason)] => reason.contains("cost") || reason.contains("budget"),
            _ => false,
        }
    };
    for source in [
        "object.data.k.split('').all(x, object.data.k.contains(x + 'c'))",
        "object.data.k.matches('^(a|b|ab){1,900}$') && object.data.k.contains(object.data.k)",
        "lists.range(100000).map(x, object.data.k + string(x)).size() > 0",
        "lists.range(1000).all(x, lists.range(1000).all(y, lists.range(1000).all(z, x + y + z >= 0)))",
    ] {
        assert!(out_of_cost(source), "{source}");
    }
}

#[test]
fn mutations_make_documents() {
    let spec = json!({
        "variables": [{"name": "k", "expression": "object.data.k"}],
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: {'op': string(request.operation)}}, data: {'added': variables.k}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: {'x': [1, 2]}}]"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{spec: Object.status{}}"}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": "object.none"}},
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: object.none}\n"}},
        ],
    });
    let programs = MutatingPrograms::compile(&spec, &ORCH);
    let write = config_map(json!({"k": "v"}));
    let made = |at: usize| evaluate(&write, &Answers::default(), |input| programs.evaluate(at, input)).0;
    assert_eq!(
        made(0).unwrap().document,
        json!({"metadata": {"labels": {"op": "CREATE"}}, "data": {"added": "v"}})
    );
    let patch = made(1).unwrap();
    assert_eq!(patch.kind, MutationKind::JsonPatch);
    assert_eq!(patch.document, json!([{"op": "add", "path": "/data/a~1b", "value": {"x": [1, 2]}}]));
    assert!(made(2).unwrap_err().contains("unexpected type name \"Object.status\""));
    assert_eq!(made(3).unwrap_err(), "must evaluate to list(JSONPatch) but got dyn");
    let told = made(4).unwrap_err();
    assert_eq!(told, "expression 'Object{data: object.none}\n' resulted in error: no such key: none");
}

#[test]
fn only_mutations_make_parts_of_objects() {
    let apply = |source: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": source}});
    let spec = json!({
        "variables": [
            {"name": "part", "expression": "Object.metadata{}"},
            {"name": "key", "expression": "jsonpatch.escapeKey('a/b')"},
        ],
        "mutations": [
            apply("Object{metadata: variables.part}"),
            apply("Object{data: {variables.key: 'v'}}"),
            apply("Object{metadata: Object.metadata{labels: {jsonpatch.escapeKey('a/b'): 'v'}}}"),
        ],
    });
    let programs = MutatingPrograms::compile(&spec, &ORCH);
    let write = config_map(json!({}));
    let made = |at: usize| evaluate(&write, &Answers::default(), |input| programs.evaluate(at, input)).0;
    for (at, name, reason) in [
        (0, "part", "undeclared reference to 'Object.metadata'"),
        (1, "key", "undeclared reference to 'jsonpatch'"),
    ] {
        let told = made(at).unwrap_err();
        assert!(told.contains(&format!("composited variable \"{name}\" fails to compile")), "{told}");
        assert!(told.contains(reason), "{told}");
    }
    assert_eq!(made(2).unwrap().document, json!({"metadata": {"labels": {"a~1b": "v"}}}));
    let condition = json!({"name": "c", "expression": "Object{} == object"});
    let spec = json!({"matchConditions": [condition], "mutations": [apply("Object{}")]});
    let programs = MutatingPrograms::compile(&spec, &ORCH);
    let run = |input: &Input<'_>| programs.matched(input, FailurePolicy::Fail);
    let matched = evaluate(&write, &Answers::default(), run).matched;
    assert!(matches!(&matched, Matched::Failed(reason) if reason.contains("'Object'")), "{matched:?}");
}
