//! Status of validating policies: what their expressions get wrong about the types of the objects that they are about.
//!
//! Owns which types a policy is checked against, and when: once for each generation, as in the reference, so that a kind which is
//! served later changes no status. The checking is `orch_rules::expression::policy`'s. A policy does what it does whatever its
//! status says.
//!
//! Invariants: policies are checked one after the other, and other tasks run between two types of one; a status is at most
//! [`WARNING_BYTES_MAX`] longer than one without warnings.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::expression::Allowance;
use orch_rules::expression::policy::{Issue, PublishedType, type_issues};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place, let_others_run};
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};
use crate::openapi::expanded;
use crate::registry::{Registry, Resource};

/// Storage resource of validating policies.
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration";

/// Logged where a status cannot be written.
const WARNING: &str = "the status of a validating policy is not written yet";

/// Policies that are looked at at a time: one is checked while the status of another is written.
const CONCURRENT_MAX: usize = 2;

/// Types that one policy is checked against. The reference's.
const TYPES_MAX: usize = 10;

/// Steps of checking a policy against one type, a tenth of a second: the largest public policies take a tenth of them. A policy that
/// needs more has no warnings for the type.
const STEPS_MAX: u64 = 1_000_000;

/// Bytes of all warnings of a policy: each line of an expression is repeated with each fault in it, for each type. Warnings beyond
/// are left out.
const WARNING_BYTES_MAX: usize = 256 << 10;

/// Behind the kind in the name of a type. The reference draws such a number, since parameters may be of the kind of the objects.
const OBJECT_NUMBER: u16 = 1001;
const PARAMS_NUMBER: u16 = 1002;

/// The policies that are to be looked at.
struct Due {
    source: Arc<str>,
    queue: Queue<Arc<str>>,
}

impl Due {
    fn new() -> Self {
        Due { source: POLICIES.into(), queue: Queue::default() }
    }
}

impl Derived for Due {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        if change.new.is_some() {
            self.queue.add(&change.path, Duration::ZERO);
        }
    }

    fn rebuild(&mut self, state: &State) {
        for (name, _) in state.collection(POLICIES).range_from("") {
            self.queue.add(name, Duration::ZERO);
        }
    }
}

impl Queued for Due {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// Keeps the statuses of validating policies. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let due = Due::new();
    let mut rounds =
        Rounds::new((client, "validatingadmissionpolicy_status"), [due.source.clone()], due, CONCURRENT_MAX)
            .await?;
    let checking = Arc::new(tokio::sync::Semaphore::new(1));
    loop {
        let ended = |due: &mut Due, name: &Arc<str>, written: Result<(), ApiError>| {
            let progress = written.map(|()| Progress::Settled);
            end(client, &mut due.queue, (name, name), progress, WARNING);
        };
        let Round { due, .. } = rounds.next(ended).await;
        let look = |_: &mut Due, applied: &Applied, name: &Arc<str>| {
            let object = applied.state.collection(POLICIES).get(name)?.clone();
            let policy = unchecked(&object)?;
            Some(report(client, checking.clone(), name.clone(), object, policy))
        };
        rounds.start_all(due, look).await?;
    }
}

/// The stored policy, if its status is of an earlier generation.
fn unchecked(object: &SharedObject) -> Option<Value> {
    let policy: Value = serde_json::from_slice(&object.json).ok()?;
    let generation = policy.at("metadata").at("generation").as_i64().unwrap_or_default();
    let observed = policy.at("status").at("observedGeneration").as_i64().unwrap_or_default();
    (generation > observed).then_some(policy)
}

/// Writes the status of `policy`, which is stored as `object`.
async fn report<S: Store>(
    client: &Client<S>,
    checking: Arc<tokio::sync::Semaphore>,
    name: Arc<str>,
    object: SharedObject,
    policy: Value,
) -> Result<(), ApiError> {
    // An error means that the semaphore was closed, which it never is.
    let turn = checking.acquire().await;
    let warnings = warnings(client, policy.at("spec")).await;
    drop(turn);
    let mut checked = json!({});
    if !warnings.is_empty() {
        checked = json!({"expressionWarnings": warnings});
    }
    let generation = policy.at("metadata").at("generation").clone();
    let status = json!({"observedGeneration": generation, "typeChecking": checked});
    let Some(resource) = client.stored_resource(POLICIES) else { return Ok(()) };
    client.apply_status(Place { resource: &resource, path: &name }, &object.index.uid, status).await
}

/// The warnings of the policy with this spec, by validation.
async fn warnings<S: Store>(client: &Client<S>, spec: &Value) -> Vec<Value> {
    let registry = client.registry();
    let kind = spec.at("paramKind");
    let params = registry.find_named(kind.text("apiVersion"), kind.text("kind"));
    let params = params.and_then(|params| published(&registry, params, PARAMS_NUMBER));
    let mut found = Warnings::default();
    for resource in checked(&registry, spec) {
        let_others_run(client.store()).await;
        let Some(object) = published(&registry, &resource, OBJECT_NUMBER) else { continue };
        let_others_run(client.store()).await;
        let mut allowance = Allowance::of(STEPS_MAX);
        // A policy that takes more steps has no warnings for the type.
        let issues = type_issues(spec, registry.brand, &object, params.as_ref(), &mut allowance);
        found.add(&resource, issues.unwrap_or_default());
    }
    found.into_values()
}

/// The type of the objects of `resource`; `None` if it is not known.
fn published(registry: &Registry, resource: &Arc<Resource>, number: u16) -> Option<PublishedType> {
    let schema = expanded(registry, resource);
    let schema = schema.unwrap_or_else(|error| {
        tracing::warn!(%error, kind = %resource.kind, "a published schema cannot be read");
        None
    })?;
    PublishedType::of(&schema, &format!("{}{number}", resource.kind), registry.brand)
}

/// The resources whose objects the policy with this spec is checked against: those that its rules name, without wildcards and without
/// sub-resources, by group, version and kind.
fn checked(registry: &Registry, spec: &Value) -> Vec<Arc<Resource>> {
    let mut found = BTreeMap::new();
    for rule in spec.at("matchConstraints").items("resourceRules") {
        let [groups, versions, resources] = ["apiGroups", "apiVersions", "resources"].map(|field| {
            let mut names = rule.texts(field);
            names.sort_unstable();
            names
        });
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        for group in groups {
            for version in &versions {
                for plural in &resources {
                    // Rules may have more names than there are resources.
                    if found.len() == TYPES_MAX {
                        return found.into_values().collect();
                    }
                    let Some(resource) = registry.find(group, version, plural) else { continue };
                    let names = [&*resource.group, &*resource.version, &*resource.kind].map(str::to_owned);
                    found.insert(names, resource.clone());
                }
            }
        }
    }
    found.into_values().collect()
}

/// Warnings by number and part of the validation, in the order of types.
#[derive(Default)]
struct Warnings {
    by_expression: BTreeMap<(usize, &'static str), String>,
    bytes: usize,
}

impl Warnings {
    fn add(&mut self, resource: &Resource, issues: Vec<Issue>) {
        for Issue { at, part, text } in issues {
            let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
            let line = format!("{group}/{version}, Kind={kind}: {text}\n");
            self.bytes += line.len();
            if self.bytes > WARNING_BYTES_MAX {
                return;
            }
            let warning = self.by_expression.entry((at, part.field())).or_default();
            if !warning.is_empty() {
                warning.push('\n');
            }
            warning.push_str(&line);
        }
    }

    fn into_values(self) -> Vec<Value> {
        let warning = |((at, field), warning): ((usize, &'static str), String)| json!({"fieldRef": format!("spec.validations[{at}].{field}"), "warning": warning});
        self.by_expression.into_iter().map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Fixture;

    fn policy(resources: &[&str], groups: &[&str], expressions: &[(&str, &str)]) -> Value {
        let validations = expressions.iter().map(|(expression, message)| {
            let mut validation = json!({"expression": *expression});
            if !message.is_empty() {
                validation = json!({"expression": *expression, "messageExpression": *message});
            }
            validation
        });
        let validations: Vec<Value> = validations.collect();
        let rule = json!({
            "apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources,
        });
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": validations,
            },
        })
    }

    fn status(fixture: &Fixture) -> Value {
        fixture.read(POLICIES, "p")["status"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_is_told_what_its_expressions_get_wrong_about_the_types_of_its_objects() {
        let fixture = Fixture::new();
        let expressions = [
            ("object.spec.replicas <= params.data.max", ""),
            ("object.metadata.name != ''", "string(object.spec.template.spec.containers.size())"),
            ("object.spec.replicas > 0", ""),
        ];
        let resources = ["deployments", "pods", "deployments/scale", "nonesuch"];
        fixture.create(POLICIES, "", policy(&resources, &["apps", ""], &expressions)).await;
        let client = Client::new(fixture.pipeline(), "validatingadmissionpolicy-status");
        fixture.while_running(run(&client), 2).await;
        let pod = |line: u8, field: &str, text: &str| {
            format!(
                "/v1, Kind=Pod: ERROR: <input>:1:{line}: undefined field '{field}'\n | {text}\n | {}^\n",
                ".".repeat(usize::from(line) - 1)
            )
        };
        let deployment = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_<=_' applied to \
                          '(int, string)'\n | object.spec.replicas <= params.data.max\n | .....................^\n";
        assert_eq!(
            status(&fixture),
            json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
                {
                    "fieldRef": "spec.validations[0].expression",
                    "warning": format!("{}\n{deployment}", pod(12, "replicas", expressions[0].0)),
                },
                {
                    "fieldRef": "spec.validations[1].messageExpression",
                    "warning": pod(19, "template", expressions[1].1),
                },
                {
                    "fieldRef": "spec.validations[2].expression",
                    "warning": pod(12, "replicas", expressions[2].0),
                },
            ]}})
        );
        let managed = fixture.read(POLICIES, "p")["metadata"]["managedFields"].clone();
        let own =
            managed.as_array().unwrap().iter().find(|of| of["subresource"] == "status").unwrap().clone();
        assert_eq!(
            (&own["manager"], &own["operation"]),
            (&json!("validatingadmissionpolicy-status"), &json!("Apply"))
        );
        let before = fixture.state().applied();
        fixture.while_running(run(&client), 2).await;
        assert_eq!(fixture.state().applied(), before, "a generation is checked once");
        fixture.merge(POLICIES, "p", json!({"spec": {"validations": [{"expression": "true"}]}})).await;
        fixture.while_running(run(&client), 2).await;
        assert_eq!(status(&fixture), json!({"observedGeneration": 2, "typeChecking": {}}));
    }

    #[test]
    fn a_policy_is_checked_against_ten_types_that_its_rules_name_without_wildcards() {
        let registry = Registry::builtin(&orch_proto::brand::ORCH);
        let kinds = |rules: Value| -> Vec<String> {
            let spec = json!({"matchConstraints": {"resourceRules": rules}});
            checked(&registry, &spec).iter().map(|of| of.kind.clone()).collect()
        };
        let rule = |group: &str, version: &str, resources: &[&str]| json!({"apiGroups": [group], "apiVersions": [version], "resources": resources});
        assert_eq!(kinds(json!([rule("*", "v1", &["pods"])])), [""; 0]);
        assert_eq!(kinds(json!([rule("", "*", &["pods"])])), [""; 0]);
        assert_eq!(
            kinds(json!([rule("", "v1", &["pods", "*", "pods/log"]), rule("apps", "v1", &["deployments"])])),
            ["Pod", "Deployment"]
        );
        let many = [
            "pods",
            "services",
            "secrets",
            "configmaps",
            "nodes",
            "events",
            "endpoints",
            "namespaces",
            "limitranges",
            "resourcequotas",
            "serviceaccounts",
            "podtemplates",
        ];
        assert_eq!(kinds(json!([rule("", "v1", &many)])).len(), TYPES_MAX);
    }
}
