//! Trials of policies of both kinds, with all that they may need.

use orch_proto::brand::ORCH;
use orch_rules::expression::policy::Said;

use super::*;

fn group() -> String {
    format!("admissionregistration.{}/v1", ORCH.group_domain)
}

fn object(api_version: &str, kind: &str, name: &str, members: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    for (name, value) in members.as_object().unwrap() {
        object[name.as_str()] = value.clone();
    }
    object
}

fn map(name: &str, data: Value) -> Value {
    object("v1", "ConfigMap", name, json!({"data": data}))
}

/// A policy about config maps of either kind with a binding, whose specs have these members, too.
fn policy(kind: &str, spec: Value, binding: Value) -> [Value; 2] {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
    let rule = match kind {
        "MutatingAdmissionPolicy" => {
            json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]})
        }
        _ => rule,
    };
    let mut policy = json!({"matchConstraints": {"resourceRules": [rule]}});
    let mut bound = json!({"policyName": "p"});
    for (own, more) in [(&mut policy, spec), (&mut bound, binding)] {
        for (name, value) in more.as_object().unwrap() {
            own[name.as_str()] = value.clone();
        }
    }
    let of = |kind: &str, spec: Value| object(&group(), kind, "p", json!({"spec": spec}));
    [of(kind, policy), of(&format!("{kind}Binding"), bound)]
}

async fn trial(stored: &[Value]) -> Trial {
    let trial = Trial::new(&ORCH);
    for object in stored {
        trial.store(object).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }
    trial
}

fn said(tried: &Tried) -> Vec<Said> {
    let of = |evaluation: &Evaluation| match &evaluation.outcome {
        Outcome::Validated(verdict) => verdict.said.clone(),
        other => panic!("{other:?}"),
    };
    tried.evaluations.iter().flat_map(of).collect()
}

#[tokio::test]
async fn a_trial_says_what_each_expression_said_and_what_it_cost_and_stores_nothing() {
    let spec = json!({
        "variables": [{"name": "n", "expression": "size(object.data)"}],
        "validations": [
            {"expression": "variables.n < 3"},
            {"expression": "variables.n < 2", "message": "too many"},
        ],
        "auditAnnotations": [{"key": "k", "valueExpression": "'seen'"}],
    });
    let stored = policy("ValidatingAdmissionPolicy", spec, json!({"validationActions": ["Deny"]}));
    let trial = trial(&stored).await;
    let admin = User::local_admin();
    let tried =
        trial.attempt(Operation::Create, &map("m", json!({"a": "1", "b": "2"})), &admin).await.unwrap();
    let refused = tried.result.as_ref().unwrap_err();
    assert!(refused.is_by_policy && refused.message.contains("denied request: too many"), "{refused:?}");
    assert!(matches!(&said(&tried)[..], [Said::Holds, Said::Denied { .. }]), "{tried:?}");
    let Outcome::Validated(verdict) = &tried.evaluations[0].outcome else { panic!("{tried:?}") };
    // The variable: object, data and size, paid by the first that reads it.
    assert_eq!(verdict.costs.len(), 2);
    assert_eq!(verdict.costs[0] - verdict.costs[1], 3, "{verdict:?}");
    assert_eq!(verdict.cost, verdict.costs.iter().sum::<u64>());
    assert_eq!((&*tried.evaluations[0].policy, tried.evaluations[0].actions.clone()), ("p", vec!["Deny"]));
    for _ in 0..2 {
        let tried = trial.attempt(Operation::Create, &map("m", json!({"a": "1"})), &admin).await.unwrap();
        assert_eq!(tried.result.unwrap()["data"]["a"], "1");
    }
}

#[tokio::test]
async fn parameters_namespaces_rights_and_custom_kinds_are_looked_up() {
    let group_of = |stem: &str| format!("{stem}.{}", ORCH.group_domain);
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 7}}}},
    }}});
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let definition = object(
        &format!("{}/v1", group_of("apiextensions")),
        "CustomResourceDefinition",
        "widgets.example.com",
        json!({"spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}}),
    );
    let namespace = object(
        "v1",
        "Namespace",
        "default",
        json!({"metadata": {"name": "default", "labels": {"tier": "gold"}}}),
    );
    let rbac = group_of("rbac.authorization");
    let role = object(
        &format!("{rbac}/v1"),
        "ClusterRole",
        "r",
        json!({"rules": [{"verbs": ["shout"], "apiGroups": [""], "resources": ["pods"]}]}),
    );
    let bound = object(
        &format!("{rbac}/v1"),
        "ClusterRoleBinding",
        "r",
        json!({
            "subjects": [{"kind": "User", "apiGroup": rbac, "name": "ann"}],
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"},
        }),
    );
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "c", "expression": "request.kind.kind == 'Widget'"}],
        "validations": [
            {"expression": "object.spec.size <= int(params.data.most)"},
            {"expression": "namespaceObject.metadata.labels.tier == 'gold'"},
            {"expression": "authorizer.group('').resource('pods').check('shout').allowed()", "message": "not allowed"},
        ],
    });
    let binding = json!({
        "validationActions": ["Deny"],
        "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
    });
    let [policy, binding] = policy("ValidatingAdmissionPolicy", spec, binding);
    let limits = map("limits", json!({"most": "7"}));
    let trial = trial(&[definition, namespace, role, bound, limits, policy, binding]).await;
    let widget = object("example.com/v1", "Widget", "w", json!({"spec": {}}));
    let user = |name: &str| User { name: name.to_owned(), ..User::default() };
    let tried = trial.attempt(Operation::Create, &widget, &user("ann")).await.unwrap();
    assert!(tried.result.is_ok(), "{tried:?}");
    assert_eq!(said(&tried), [Said::Holds, Said::Holds, Said::Holds]);
    assert_eq!(tried.evaluations[0].param, "default/limits");
    let tried = trial.attempt(Operation::Create, &widget, &user("bob")).await.unwrap();
    assert!(tried.result.unwrap_err().message.contains("not allowed"));
    let tried = trial.attempt(Operation::Create, &map("m", json!({})), &user("bob")).await.unwrap();
    assert!(matches!(tried.evaluations[0].outcome, Outcome::LeftOut), "{tried:?}");
    let unknown = object("example.com/v1", "Gadget", "g", json!({}));
    assert!(matches!(
        trial.attempt(Operation::Create, &unknown, &user("bob")).await,
        Err(Unusable::UnknownKind { .. })
    ));
}

#[tokio::test]
async fn changes_and_removals_are_of_the_object_before_and_mutations_are_shown() {
    let mutation =
        |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let spec = json!({
        "reinvocationPolicy": "Never",
        "failurePolicy": "Ignore",
        "mutations": [
            mutation("[JSONPatch{op: 'add', path: '/data/b', value: 'made'}]"),
            mutation("[JSONPatch{op: 'remove', path: '/data/none'}]"),
        ],
    });
    let stored = policy("MutatingAdmissionPolicy", spec, json!({}));
    let trial = trial(&stored).await;
    let admin = User::local_admin();
    let tried = trial.attempt(Operation::Create, &map("m", json!({"a": "1"})), &admin).await.unwrap();
    assert_eq!(tried.result.unwrap()["data"], json!({"a": "1", "b": "made"}));
    let Outcome::Mutated(mutated) = &tried.evaluations[0].outcome else { panic!("{:?}", tried.evaluations) };
    assert!(mutated[0].error.is_none() && mutated[1].error.is_some() && mutated[0].cost > 0, "{mutated:?}");

    let spec =
        json!({"validations": [{"expression": "oldObject.data.a == '1'", "message": "it was another"}]});
    let [policy, binding] = policy("ValidatingAdmissionPolicy", spec, json!({"validationActions": ["Deny"]}));
    let trial =
        super::tests::trial(&[map("m", json!({"a": "1"})), map("n", json!({"a": "2"})), policy, binding])
            .await;
    for operation in [Operation::Update, Operation::Delete] {
        let of =
            |name: &'static str| trial.attempt(operation, Box::leak(Box::new(map(name, json!({})))), &admin);
        assert!(of("m").await.unwrap().result.is_ok(), "{operation:?}");
        let refused = of("n").await.unwrap().result.unwrap_err();
        assert!(refused.is_by_policy && refused.message.contains("it was another"), "{refused:?}");
        assert!(!of("none").await.unwrap().result.unwrap_err().is_by_policy);
    }
}
