//! The status of a claim of devices is written in parts, each with a right of its own.
//!
//! Owns the questions to the authorizers: who changes the allocation or the users of a claim needs the verb of the request
//! on `resourceclaims/binding` in the whole cluster; who changes the reports about a driver's devices needs
//! `arbitrary-node:VERB` on `resourceclaims/driver` of the driver's name, or `associated-node:VERB` as the service account
//! of a pod on the node that the claim is allocated to. In the reference this is part of the kind's rules, has no name as
//! a plugin, and answers as they do.

use futures::future::{Either, FutureExt};
use orch_rules::Action;
use orch_rules::kinds::device::{StatusChange, allocated_node};
use orch_rules::validate::{FieldError, FieldErrors, Path};
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::authz::ResourceAttributes;
use crate::error::{ApiError, Subject};

/// Name of the plugin, which no flag knows.
pub(super) const NAME: &str = "ClaimStatus";

/// Storage resource of claims.
const CLAIMS: &str = "resourceclaims.resource";

/// Refuses changes of a claim's status without the right to the part that changes.
#[derive(Debug)]
pub(super) struct ClaimStatus;

impl Plugin for ClaimStatus {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        *attributes.resource.storage == *CLAIMS
            && attributes.action == Action::Status
            && attributes.operation == Operation::Update
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let (Some(old), Some(new)) = (attributes.old, object) else { return rule(Ok(())) };
        let change = StatusChange::between(old, new);
        if !change.binds && change.drivers.is_empty() {
            return rule(Ok(()));
        }
        Either::Right(check(attributes, change, new, view).boxed())
    }
}

async fn check(
    attributes: &Attributes<'_>,
    change: StatusChange<'_>,
    new: &Value,
    view: &View,
) -> Result<(), Refusal> {
    let mut errors = FieldErrors::new();
    let mut refuse = |detail: String| errors.push(FieldError::forbidden(Path::new("status"), &detail));
    let verb = verb_of(attributes);
    if change.binds {
        let asked = ResourceAttributes { verb, subresource: "binding", ..synthetic(attributes) };
        if let Err(refusal) = attributes.gate.check(attributes.user, asked, view.applied()).await {
            refuse(format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
                 verb=\"{verb}\" permission: {refusal}"
            ));
        }
    }
    let of_pod = attributes.user.node_of_pod(attributes.brand);
    let is_local = of_pod.is_some_and(|node| allocated_node(new) == Some(node));
    let verbs: Vec<String> = ["associated-node", "arbitrary-node"]
        .into_iter()
        .filter(|node| is_local || *node == "arbitrary-node")
        .map(|node| format!("{node}:{verb}"))
        .collect();
    for driver in change.drivers {
        if let Err(refusal) = check_driver(attributes, driver, &verbs, view).await {
            let verbs = verbs.join(" ");
            refuse(format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{verbs}]\" permission: \
                 {refusal}"
            ));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let subject = Subject::kind(attributes.resource, attributes.name);
    Err(Refusal::Error(ApiError::Invalid { subject, errors }))
}

/// Checks that the user has one of `verbs` for the driver.
///
/// # Errors
/// The refusal of the first one.
async fn check_driver(
    attributes: &Attributes<'_>,
    driver: &str,
    verbs: &[String],
    view: &View,
) -> Result<(), ApiError> {
    let mut outcome = Ok(());
    for verb in verbs {
        let asked = ResourceAttributes {
            verb,
            subresource: "driver",
            namespace: attributes.namespace,
            name: driver,
            ..synthetic(attributes)
        };
        match attributes.gate.check(attributes.user, asked, view.applied()).await {
            Ok(()) => return Ok(()),
            Err(refusal) => outcome = outcome.and(Err(refusal)),
        }
    }
    outcome
}

/// A question about claims of the whole cluster.
fn synthetic<'a>(attributes: &'a Attributes<'_>) -> ResourceAttributes<'a> {
    ResourceAttributes {
        group: &attributes.resource.group,
        version: &attributes.resource.version,
        resource: &attributes.resource.plural,
        ..ResourceAttributes::default()
    }
}

/// The verb of the request. Writes of the server itself have no method; they update.
fn verb_of(attributes: &Attributes<'_>) -> &'static str {
    if attributes.exchange.method() == Some(&http::Method::PATCH) { "patch" } else { "update" }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes, validate};
    use crate::authn::User;
    use crate::authz::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES};

    const DRIVER: &str = "gpu.example.com";

    /// The outcome of a write of `new` over `old` by a service account on the node `n1` with `rules`.
    fn written(rules: &Value, old: &Value, new: &Value) -> Result<(), ApiError> {
        let name = "system:serviceaccount:drivers:gpu";
        let user = User {
            name: name.to_owned(),
            extra: [("authentication.orch.io/node-name".to_owned(), vec!["n1".to_owned()])].into(),
            ..User::default()
        };
        let binding = json!({
            "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": name}],
        });
        let at = |storage: &str, object| ((storage.to_owned(), String::new(), "r".to_owned()), object);
        let objects =
            [at(CLUSTER_ROLES, json!({"rules": rules})), at(CLUSTER_ROLE_BINDINGS, binding)].into_iter();
        let gate = crate::testing::gate();
        let asked = Attributes {
            action: Action::Status,
            user: &user,
            gate: &gate,
            old: Some(old),
            ..attributes(CLAIMS, Operation::Update)
        };
        validate(&asked, new, &Objects(objects.collect()))
    }

    fn rule_on(resource: &str, verb: &str, names: &[&str]) -> Value {
        json!({"apiGroups": ["resource.orch.io"], "resources": [resource], "verbs": [verb], "resourceNames": names})
    }

    fn claim(node: &str, reports: Value) -> Value {
        let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
        let allocation = json!({"nodeSelector": {"nodeSelectorTerms": [term]}});
        json!({"metadata": {"name": "n", "namespace": "ns"}, "status": {"allocation": allocation, "devices": reports}})
    }

    #[test]
    fn each_part_of_the_status_needs_its_own_right() {
        let free = json!({"metadata": {"name": "n", "namespace": "ns"}, "status": {}});
        let report = json!([{"driver": DRIVER, "pool": "p", "device": "d"}]);
        let (here, there) = (claim("n1", json!([])), claim("n2", json!([])));
        let (here_reported, there_reported) = (claim("n1", report.clone()), claim("n2", report));
        let mut used = here.clone();
        used["status"]["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "1"}]);
        let (status, binding) =
            (rule_on("resourceclaims/status", "*", &[]), rule_on("resourceclaims/binding", "update", &[]));
        let driver = |verb: &str, name: &str| rule_on("resourceclaims/driver", verb, &[name]);
        for (rules, old, new, is_allowed) in [
            (json!([status]), &free, &free, true),
            (json!([status]), &free, &here, false),
            (json!([status]), &here, &free, false),
            (json!([status]), &here, &used, false),
            (json!([status]), &used, &here, false),
            (json!([binding]), &free, &here, true),
            (json!([binding]), &here, &used, true),
            (json!([rule_on("resourceclaims/binding", "patch", &[])]), &here, &used, false),
            (json!([rule_on("resourceclaims/binding", "update", &["n"])]), &here, &used, false),
            (json!([binding]), &here, &here_reported, false),
            (json!([driver("associated-node:update", DRIVER)]), &here, &here_reported, true),
            (json!([driver("associated-node:update", DRIVER)]), &here_reported, &here, true),
            (json!([driver("associated-node:update", DRIVER)]), &there, &there_reported, false),
            (json!([driver("associated-node:update", "nic.example.com")]), &here, &here_reported, false),
            (json!([driver("arbitrary-node:update", DRIVER)]), &there, &there_reported, true),
            (json!([driver("arbitrary-node:update", DRIVER)]), &here, &here_reported, true),
            (json!([driver("update", DRIVER)]), &here, &here_reported, false),
            (json!([driver("arbitrary-node:update", DRIVER)]), &free, &here_reported, false),
            (json!([driver("arbitrary-node:update", DRIVER), binding]), &free, &here_reported, true),
        ] {
            let outcome = written(&rules, old, new);
            assert_eq!(outcome.is_ok(), is_allowed, "{rules}: {old} to {new}: {outcome:?}");
        }
    }

    #[test]
    fn refusals_name_the_missing_rights() {
        let free = json!({"metadata": {"name": "n", "namespace": "ns"}, "status": {}});
        let reported = claim("n1", json!([{"driver": DRIVER, "pool": "p", "device": "d"}]));
        let told = written(&json!([]), &free, &reported).unwrap_err();
        let ApiError::Invalid { errors, .. } = &told else { panic!("{told}") };
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let user = "User \"system:serviceaccount:drivers:gpu\"";
        assert_eq!(
            texts,
            [
                format!(
                    "status: Forbidden: changing status.allocation or status.reservedFor requires \
                     resource=\"resourceclaims/binding\", verb=\"update\" permission: resourceclaims.resource.orch.io is \
                     forbidden: {user} cannot update resource \"resourceclaims/binding\" in API group \"resource.orch.io\" at \
                     the cluster scope"
                ),
                format!(
                    "status: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
                     verb=\"[associated-node:update arbitrary-node:update]\" permission: resourceclaims.resource.orch.io \
                     \"gpu.example.com\" is forbidden: {user} cannot associated-node:update resource \
                     \"resourceclaims/driver\" in API group \"resource.orch.io\" in the namespace \"ns\""
                ),
            ]
        );
    }
}
