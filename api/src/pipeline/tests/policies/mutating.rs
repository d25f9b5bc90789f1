//! Mutating policies over the pipeline: parameters, errors of several, and what a mutation may leave.

use super::*;

const MUTATING: &str = "/apis/admissionregistration.orch.io/v1/mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str = "/apis/admissionregistration.orch.io/v1/mutatingadmissionpolicybindings";

impl Server {
    /// Puts a policy that mutates config maps to work, with a binding of its name.
    pub(super) async fn mutated(&self, name: &str, spec: Value, binding: Value) {
        let (mut spec, mut binding) = (spec, binding);
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
        orch_rules::validate::tree::set_default(
            &mut spec,
            "matchConstraints",
            json!({"resourceRules": rules}),
        );
        orch_rules::validate::tree::set_default(&mut spec, "reinvocationPolicy", json!("Never"));
        self.create(MUTATING, json!({"metadata": {"name": name}, "spec": spec})).await;
        orch_rules::validate::tree::set(&mut binding, "policyName", name);
        self.create(MUTATING_BINDINGS, json!({"metadata": {"name": name}, "spec": binding})).await;
    }
}

pub(super) fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn denied(name: &str, rest: &str) -> String {
    format!("policy '{name}' with binding '{name}' denied request: {rest}")
}

#[tokio::test]
async fn a_part_is_taken_as_one_of_the_objects_kind() {
    let server = Server::new().await;
    let part = "Object{apiVersion: 'example.com/v9', kind: 'Other', data: {'added': 'yes'}}";
    server.mutated("p", json!({"mutations": [apply(part)]}), json!({})).await;
    let made = server.create(MAPS, map("c")).await;
    assert_eq!(made["data"], json!({"k": "v", "added": "yes"}));
    assert_eq!(made["kind"], server.get(&format!("{MAPS}/c")).await.object()["kind"]);
}

#[tokio::test]
async fn all_errors_are_told_and_those_of_lenient_policies_are_not() {
    let server = Server::new().await;
    let lenient = json!({"failurePolicy": "Ignore", "mutations": [apply("Object{data: object.none}"), apply("Object{data: {'a': 'a'}}")]});
    server.mutated("a", lenient, json!({})).await;
    let made = server.create(MAPS, map("c")).await;
    assert_eq!(made["data"], json!({"k": "v", "a": "a"}), "a mutation that fails does not stop the next one");
    let strict = json!({"mutations": [
        apply("Object{data: object.none}"), patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
    ]});
    server.mutated("b", strict, json!({})).await;
    let condition = json!([{"name": "c", "expression": "object.other == 1"}]);
    server
        .mutated("c", json!({"matchConditions": condition, "mutations": [apply("Object{}")]}), json!({}))
        .await;
    let refused = server.post(MAPS, map("d")).await;
    let first = denied("b", "expression 'Object{data: object.none}' resulted in error: no such key: none");
    assert_eq!(refused.refusal(), (403, &*first));
    assert_eq!(refused.json["reason"], "Invalid");
    let causes = refused.causes();
    assert_eq!(causes.len(), 3, "{causes:?}");
    assert!(causes[1].contains("JSON Patch: "), "{causes:?}");
    let last = denied("c", "expression 'object.other == 1' resulted in error: no such key: other");
    assert!(causes[2].ends_with(&last), "{causes:?}");
    assert_eq!(server.get(&format!("{MAPS}/d")).await.code, 404);
}

#[tokio::test]
async fn each_parameter_mutates_once() {
    let server = Server::new().await;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "mutations": [apply("Object{data: {params.metadata.name: params.kind + string(size(object.data))}}")],
    });
    let selected =
        json!({"paramRef": {"selector": {"matchLabels": {"p": "yes"}}, "parameterNotFoundAction": "Deny"}});
    server.mutated("p", spec, selected).await;
    let none =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let refused = server.post(MAPS, map("c")).await;
    assert_eq!(refused.refusal(), (403, &*denied("p", none)));
    assert_eq!(refused.json["reason"], "Forbidden");
    for name in ["one", "two"] {
        let secret = json!({"metadata": {"name": name, "labels": {"p": "yes"}}});
        server.create("/api/v1/namespaces/ns/secrets", secret).await;
    }
    let made = server.create(MAPS, map("c")).await;
    assert_eq!(
        made["data"],
        json!({"k": "v", "one": "Secret1", "two": "Secret2"}),
        "each sees the one before"
    );
}

#[tokio::test]
async fn a_patched_object_has_to_be_one_of_its_kind() {
    let server = Server::new().await;
    let add = "[JSONPatch{op: 'add', path: '/datum', value: 'x'}, JSONPatch{op: 'add', path: '/another', value: 'x'}]";
    let unknown = json!({"failurePolicy": "Ignore", "mutations": [patch(add)]});
    server.mutated("p", unknown, json!({})).await;
    let refused = server.post(MAPS, map("c")).await;
    assert_eq!(refused.code, 500, "whatever the failure policy is: {}", refused.json);
    let told =
        "Internal error occurred: strict decoding error: unknown field \"another\", unknown field \"datum\"";
    assert_eq!(refused.json["message"], told);
    server.delete(&format!("{MUTATING_BINDINGS}/p"), Value::Null).await.object();
    let tests = json!({"mutations": [
        patch("[JSONPatch{op: 'test', path: '/data/k', value: 'w'}, JSONPatch{op: 'remove', path: '/data/k'}]"),
        patch("[JSONPatch{op: 'test', path: '/kind', value: 'ConfigMap'}, JSONPatch{op: 'add', path: '/data/t', value: 't'}]"),
    ]});
    server.mutated("t", tests, json!({})).await;
    let made = server.create(MAPS, map("c")).await;
    assert_eq!(made["data"], json!({"k": "v", "t": "t"}), "a patch whose test fails has no effect");
}

#[tokio::test]
async fn conditions_are_asked_again_of_policies_that_are_not() {
    let server = Server::new().await;
    let condition = json!([{"name": "c", "expression": "!has(object.data.b) || object.data.none == 'x'"}]);
    let never = json!({"matchConditions": condition, "mutations": [apply("Object{data: {'a': 'a'}}")]});
    server.mutated("a", never, json!({})).await;
    server.create(MAPS, map("c")).await;
    server.mutated("b", json!({"mutations": [apply("Object{data: {'b': 'b'}}")]}), json!({})).await;
    let told =
        "expression '!has(object.data.b) || object.data.none == 'x'' resulted in error: no such key: none";
    assert_eq!(
        server.post(MAPS, map("d")).await.refusal(),
        (403, &*denied("a", told)),
        "in the second round"
    );
}

#[tokio::test]
async fn a_part_that_gives_no_object_follows_the_failure_policy() {
    let server = Server::new().await;
    let quotas = "/api/v1/namespaces/ns/resourcequotas";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["resourcequotas"]}]);
    let spec = |failure: &str| {
        let part = apply("Object{spec: Object.spec{hard: {'pods': 'abc'}}}");
        json!({"failurePolicy": failure, "matchConstraints": {"resourceRules": rules.clone()}, "mutations": [part]})
    };
    let quota = |name: &str| json!({"metadata": {"name": name}, "spec": {"hard": {"secrets": "1"}}});
    server.mutated("open", spec("Ignore"), json!({})).await;
    assert_eq!(server.create(quotas, quota("a")).await["spec"]["hard"], json!({"secrets": "1"}));
    server.mutated("shut", spec("Fail"), json!({})).await;
    let told = "unable to convert unstructured object to /v1, Kind=ResourceQuota: quantities must match the regular expression \
                '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let refused = server.post(quotas, quota("b")).await;
    assert_eq!(
        (refused.refusal(), &refused.json["reason"]),
        ((403, &*denied("shut", told)), &json!("Invalid"))
    );
}

#[tokio::test]
async fn a_test_below_nothing_is_an_error() {
    let server = Server::new().await;
    let test = "[JSONPatch{op: 'test', path: '/metadata/labels/a', value: 'b'}, JSONPatch{op: 'add', path: '/data/t', value: 't'}]";
    server.mutated("p", json!({"mutations": [patch(test)]}), json!({})).await;
    let told =
        "JSON Patch: test operation does not apply: is missing path: /metadata/labels/a: missing value";
    assert_eq!(server.post(MAPS, map("c")).await.refusal(), (403, &*denied("p", told)));
    let mut labelled = map("d");
    labelled["metadata"]["labels"] = json!({"b": "c"});
    let made = server.create(MAPS, labelled).await;
    assert_eq!(made["data"], json!({"k": "v"}), "the test fails, and nothing is changed");
}

#[tokio::test]
async fn a_mutating_policy_without_its_kind_of_parameters_follows_the_failure_policy() {
    let server = Server::new().await;
    let spec = |failure: &str| {
        json!({
            "failurePolicy": failure, "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
            "mutations": [apply("Object{data: {'p': 'p'}}")],
        })
    };
    let binding = || json!({"paramRef": {"name": "l", "parameterNotFoundAction": "Allow"}});
    server.mutated("open", spec("Ignore"), binding()).await;
    assert_eq!(server.create(MAPS, map("a")).await["data"], json!({"k": "v"}));
    server.mutated("shut", spec("Fail"), binding()).await;
    let told = "policy \"shut\" denied request: failed to configure policy: failed to find resource referenced by paramKind: \
                'rules.example.com/v1, Kind=Limit'";
    let refused = server.post(MAPS, map("c")).await;
    assert_eq!((refused.refusal(), &refused.json["reason"]), ((403, told), &json!("Forbidden")));
}

#[tokio::test]
async fn mutations_see_the_request_the_namespace_and_rights() {
    let server = Server::new().await;
    let labelled = json!({"metadata": {"labels": {"team": "blue"}}});
    server.merge("/api/v1/namespaces/ns", labelled).await.object();
    let made_of =
        "Object{data: {'team': namespaceObject.metadata.labels.team, 'by': request.userInfo.username,
        'may': string(authorizer.requestResource.check('create').allowed())}}";
    server.mutated("p", json!({"mutations": [apply(made_of)]}), json!({})).await;
    let user = User { name: "ann".to_owned(), ..User::local_admin() };
    let made = server.send_as(&user, Method::POST, MAPS, JSON, &map("c").to_string()).await.object();
    assert_eq!(made["data"], json!({"k": "v", "team": "blue", "by": "ann", "may": "true"}));
}
