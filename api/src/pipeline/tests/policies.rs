//! Admission policies over the pipeline: the recorded scenarios, and what they do not show.

mod counted;
mod mutating;

use super::*;

/// Scenarios that need loops, or another form of answers.
const ELSEWHERE: [&str; 1] = ["vap-custom"];

const POLICIES: &str = "/apis/admissionregistration.orch.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.orch.io/v1/validatingadmissionpolicybindings";

/// A server with the recorded policies in force.
struct Replay {
    server: Server,
    differences: Vec<String>,
    compared: usize,
}

/// Members that the replay does not look at: those of the representation, and of the system.
const UNSEEN: [&str; 9] = [
    "kind",
    "apiVersion",
    "managedFields",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "status",
    "details",
    "metadata.generation",
];

/// Whether `got` has what `expected` has. `<text>` stands for anything.
fn fits(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::String(expected), Value::String(got)) => {
            let mut rest = got.as_str();
            let mut parts = expected.split(['<', '>']);
            if !expected.contains('<') {
                return expected == got;
            }
            parts.all(|part| match (part, rest.find(part)) {
                ("text" | "any" | "uid" | "time" | "rv" | "generated" | "age", _) => true,
                (_, Some(at)) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                (_, None) => false,
            })
        }
        (Value::Object(expected), got) => expected.iter().all(|(name, expected)| {
            UNSEEN.contains(&name.as_str()) || fits(expected, got.get(name.as_str()).unwrap_or(&Value::Null))
        }),
        (Value::Array(expected), Value::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(expected, got)| fits(expected, got))
        }
        (expected, got) => expected == got,
    }
}

fn picked<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, step| match step.parse::<usize>() {
        Ok(at) => value.as_array().and_then(|items| items.get(at)).unwrap_or(&Value::Null),
        Err(_) => value.get(step).unwrap_or(&Value::Null),
    })
}

impl Replay {
    async fn step(&mut self, place: &str, step: &Value) {
        let Some((method, path)) = step["do"].as_str().and_then(|text| text.split_once(' ')) else { return };
        let headers = step["headers"].as_object();
        let header = |name: &str| headers.and_then(|headers| headers.get(name)).and_then(Value::as_str);
        let is_other = header("Accept").is_some() || header("Impersonate-User").is_some();
        if is_other || path.contains("customresourcedefinitions") {
            return;
        }
        let user = match step["as"].as_str() {
            Some("alice") => {
                User { name: "alice".to_owned(), groups: vec!["devs".to_owned()], ..User::default() }
            }
            _ => User { name: "admin".to_owned(), ..User::local_admin() },
        };
        let body = if step["body"].is_null() { String::new() } else { step["body"].to_string() };
        let content_type = header("Content-Type").unwrap_or(JSON);
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let reply = self.server.send_as(&user, method, path, content_type, &body).await;
        let expect = &step["expect"];
        if expect.is_null() {
            assert!(reply.code < 400 || !step["until"].is_null(), "{place}: {path}: {}", reply.json);
            return;
        }
        self.compared += 1;
        let mut problem = self.problem(&reply, expect, step);
        if let Some(warnings) = expect["headers"]["Warning"].as_array() {
            let mut found: Vec<String> =
                reply.warnings.iter().map(|text| format!("299 - \"{text}\"")).collect();
            let mut wanted: Vec<&str> = warnings.iter().filter_map(Value::as_str).collect();
            found.sort();
            wanted.sort_unstable();
            if found != wanted {
                problem = Some(format!("warnings {found:#?}, want {wanted:#?}"));
            }
        }
        if let Some(problem) = problem {
            self.differences.push(format!("{place}: {}: {problem}", step["do"]));
        }
    }

    fn problem(&self, reply: &Reply, expect: &Value, step: &Value) -> Option<String> {
        let status = expect["status"].as_u64().unwrap_or(0);
        if u64::from(reply.code) != status {
            return Some(format!("code {}, want {status}: {}", reply.code, reply.json));
        }
        let wanted = &expect["body"];
        // Answers are in the stored form here: the renderer converts them.
        if step["do"].as_str().is_some_and(|path| path.contains("/apis/autoscaling/v1/")) && status < 300 {
            return None;
        }
        let is_fine = match &step["pick"] {
            Value::String(path) => path == "code" || fits(wanted, picked(&reply.json, path)),
            Value::Array(paths) => {
                let mut paths = paths.iter().filter_map(Value::as_str);
                paths.all(|path| fits(&wanted[path], picked(&reply.json, path)))
            }
            _ => {
                fits(wanted, &reply.json)
                    && fits(&wanted["details"]["causes"], &reply.json["details"]["causes"])
            }
        };
        (!is_fine).then(|| format!("\n  got  {}\n  want {wanted}", reply.json))
    }
}

#[tokio::test]
async fn policies_answer_as_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tests/vectors/policies.json");
    let text = std::fs::read_to_string(path).expect("the vectors are test data");
    let scenarios: Value = serde_json::from_str(&text).expect("the vectors are JSON");
    let (mut differences, mut compared) = (Vec::new(), 0);
    for scenario in scenarios.as_array().expect("a list of scenarios") {
        let name = scenario["name"].as_str().unwrap_or_default();
        if ELSEWHERE.contains(&name) {
            continue;
        }
        let server = Server::new().await;
        server.create("/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
        // A role that every cluster has.
        let rbac = "/apis/rbac.authorization.orch.io/v1";
        let role = json!({"metadata": {"name": "info"}, "rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]});
        server.create(&format!("{rbac}/clusterroles"), role).await;
        let bound = json!({
            "metadata": {"name": "info"},
            "roleRef": {"apiGroup": "rbac.authorization.orch.io", "kind": "ClusterRole", "name": "info"},
            "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.orch.io", "name": "devs"}],
        });
        server.create(&format!("{rbac}/clusterrolebindings"), bound).await;
        let mut replay = Replay { server, differences: Vec::new(), compared: 0 };
        for step in scenario["steps"].as_array().unwrap() {
            replay.step(name, step).await;
        }
        differences.extend(replay.differences);
        compared += replay.compared;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared > 100, "only {compared} steps were compared");
}

fn rules(resource: &str) -> Value {
    json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [resource]}])
}

impl Server {
    /// Puts a policy over config maps to work, with a binding of its name.
    async fn bound(&self, name: &str, spec: Value, binding: Value) {
        let mut spec = spec;
        let constraints = json!({"resourceRules": rules("configmaps")});
        orch_rules::validate::tree::set_default(&mut spec, "matchConstraints", constraints);
        self.create(POLICIES, json!({"metadata": {"name": name}, "spec": spec})).await;
        let mut binding = binding;
        orch_rules::validate::tree::set(&mut binding, "policyName", name);
        let deny = json!(["Deny"]);
        orch_rules::validate::tree::set_default(&mut binding, "validationActions", deny);
        self.create(BINDINGS, json!({"metadata": {"name": name}, "spec": binding})).await;
    }
}

fn denied_by(name: &str, rest: &str) -> String {
    format!(
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {rest}"
    )
}

#[tokio::test]
async fn parameters_are_found_by_name_and_by_labels() {
    let server = Server::new().await;
    let with_params = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "params == null || params.metadata.name != 'bad'", "messageExpression": "string(params.kind)"}],
    });
    let secret = |name: &str| json!({"metadata": {"name": name, "labels": {"limit": "yes"}}});
    let secrets = "/api/v1/namespaces/ns/secrets";
    let by_name = json!({"paramRef": {"name": "bad", "parameterNotFoundAction": "Deny"}});
    server.bound("p", with_params.clone(), by_name).await;
    let none =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let refused = server.post(MAPS, map("c")).await;
    assert_eq!(refused.refusal(), (422, &*denied_by("p", none)));
    server.create(secrets, secret("bad")).await;
    assert_eq!(server.post(MAPS, map("c")).await.refusal(), (422, &*denied_by("p", "Secret")));
    server.delete(&format!("{BINDINGS}/p"), Value::Null).await.object();
    server.create(MAPS, map("c")).await;
    server.delete(&format!("{POLICIES}/p"), Value::Null).await.object();
    server.delete(&format!("{MAPS}/c"), Value::Null).await.object();
    let selected = json!({"paramRef": {"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Allow"}});
    server.bound("s", with_params, selected).await;
    assert_eq!(server.post(MAPS, map("c")).await.code, 422);
    server.delete(&format!("{secrets}/bad"), Value::Null).await.object();
    server.create(secrets, secret("good")).await;
    server.create(MAPS, map("c")).await;
}

#[tokio::test]
async fn a_kind_of_parameters_that_is_not_served_follows_the_failure_policy() {
    let server = Server::new().await;
    let spec = |failure: &str| {
        json!({
            "failurePolicy": failure, "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
            "validations": [{"expression": "false"}],
        })
    };
    let binding = || json!({"paramRef": {"name": "l", "parameterNotFoundAction": "Deny"}});
    server.bound("open", spec("Ignore"), binding()).await;
    server.create(MAPS, map("a")).await;
    server.bound("shut", spec("Fail"), binding()).await;
    let told = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'shut' denied request: failed to configure \
                policy: failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Limit'";
    assert_eq!(server.post(MAPS, map("c")).await.refusal(), (422, told));
}

#[tokio::test]
async fn policies_are_not_judged_by_policies() {
    let server = Server::new().await;
    let everything = json!({
        "matchConstraints": {"resourceRules": rules("*")}, "validations": [{"expression": "false", "message": "no"}],
    });
    server.bound("all", everything, json!({})).await;
    assert_eq!(server.post(MAPS, map("c")).await.refusal(), (422, &*denied_by("all", "no")));
    let review = server.post("/apis/authentication.orch.io/v1/selfsubjectreviews", json!({})).await;
    assert_eq!(review.code, 201);
    server.delete(&format!("{POLICIES}/all"), Value::Null).await.object();
    server.create(MAPS, map("c")).await;
}

#[tokio::test]
async fn names_that_are_drawn_are_not_those_of_the_request() {
    let server = Server::new().await;
    let spec = json!({"validations": [{"expression": "!has(request.name) || request.name == 'given'"}]});
    server.bound("p", spec, json!({})).await;
    server.create(MAPS, json!({"metadata": {"generateName": "g-"}})).await;
    server.create(MAPS, json!({"metadata": {"name": "given", "generateName": "g-"}})).await;
    assert_eq!(server.post(MAPS, map("c")).await.code, 422);
}

#[tokio::test]
async fn a_changed_policy_judges_the_next_request() {
    let server = Server::new().await;
    server.bound("p", json!({"validations": [{"expression": "object.data.k != 'v'"}]}), json!({})).await;
    assert_eq!(server.post(MAPS, map("c")).await.code, 422);
    let other = json!({"spec": {"validations": [{"expression": "object.data.k == 'v'"}]}});
    server.merge(&format!("{POLICIES}/p"), other).await.object();
    server.create(MAPS, map("c")).await;
    let ignored = json!({"spec": {"matchConstraints": {"resourceRules": rules("secrets")}}});
    server.merge(&format!("{POLICIES}/p"), ignored).await.object();
    server.merge(&format!("{MAPS}/c"), json!({"data": {"k": "w"}})).await.object();
}

#[tokio::test]
async fn a_policy_reads_no_parameters_that_its_writer_may_not_read() {
    let server = Server::new().await;
    let alice = User { name: "alice".to_owned(), ..User::default() };
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"}, "matchConstraints": {"resourceRules": rules("configmaps")},
        "validations": [{"expression": "true"}],
    }});
    let refused = server.send_as(&alice, Method::POST, POLICIES, JSON, &policy.to_string()).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.causes(),
        [
            "FieldValueForbidden spec.paramKind: Forbidden: user \"alice\" must have \"get\" permission on all objects of \
          the referenced paramKind (kind=Secret, apiVersion=v1)"
        ]
    );
    let plain = json!({"metadata": {"name": "q"}, "spec": {
        "matchConstraints": {"resourceRules": rules("configmaps")}, "validations": [{"expression": "true"}],
    }});
    let made = server.send_as(&alice, Method::POST, POLICIES, JSON, &plain.to_string()).await;
    assert_eq!(made.code, 201);
    let binding = json!({"metadata": {"name": "b"}, "spec": {
        "policyName": "q", "validationActions": ["Deny"],
        "paramRef": {"name": "s", "namespace": "ns", "parameterNotFoundAction": "Deny"},
    }});
    let refused = server.send_as(&alice, Method::POST, BINDINGS, JSON, &binding.to_string()).await;
    assert_eq!(
        refused.causes(),
        [
            "FieldValueForbidden spec.paramRef: Forbidden: user \"alice\" does not have \"get\" permission on the object \
          referenced by paramRef"
        ]
    );
}
