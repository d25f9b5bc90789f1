//! `PodSecurity`: holds pods to the level that their namespace names.
//!
//! Owns whom the standards apply to, and what happens where a pod breaks them: by the namespace's labels it is refused
//! (`enforce`), marked in audit events (`audit`), or its client is warned (`warn`). Templates of workloads are never
//! refused. The rules themselves are in `orch_rules::pod_security`.
//!
//!     pods                create, and every change of the spec           enforce, audit, warn
//!     templates           create and change                              audit, warn
//!     namespaces          labels are checked; a stricter enforce is      warn
//!                         compared with the pods that are there
//!
//! Invariant: no rule of the pods' kind is relied on: an update is judged where the spec differs at all.
//! Invariant: a pod is judged by the labels of its namespace in the view of the write.

mod audit;
mod namespace;
mod settings;
#[cfg(test)]
mod tests;

use orch_raft::state::NAMESPACES;
use orch_rules::Action;
use orch_rules::pod_security::{LevelVersion, Mode, Policy, Violation, details, evaluate};
use orch_rules::validate::FieldErrors;
use orch_rules::validate::tree::{Tree, is_unchanged};
use orch_schema::excerpt::quoted;
use orch_schema::value::{Map, Value};

use self::audit::{Decision, count, exempt, note};
use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;

pub use settings::PodSecuritySettings;

/// Storage resource of pods.
const PODS: &str = "pods";

#[derive(Debug, Default)]
pub(super) struct PodSecurity {
    pub(super) settings: PodSecuritySettings,
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        if matches!(attributes.operation, Operation::Delete | Operation::Connect) {
            return false;
        }
        match &*attributes.resource.storage {
            // Sub-resources that write the pod itself may change its containers, but for its status. Others have documents
            // of their own kind, such as bindings.
            PODS => attributes.action != Action::Status && attributes.resource.kind == "Pod",
            NAMESPACES => attributes.action == Action::Object,
            other => attributes.action == Action::Object && has_template(other),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        rule(match &*attributes.resource.storage {
            NAMESPACES => self.check_namespace(attributes, object, view),
            PODS => self.check_pod(attributes, object, view),
            other => {
                if let Some(template) = template_of(other, object) {
                    self.check_template(attributes, template, view);
                }
                Ok(())
            }
        })
    }
}

impl PodSecurity {
    fn check_pod(&self, attributes: &Attributes<'_>, pod: &Value, view: &View) -> Result<(), Refusal> {
        if self.is_exempt(attributes) {
            return Ok(());
        }
        let Some((policy, errors)) = self.policy_of(attributes, view) else {
            let namespace = quoted(attributes.namespace);
            return Err(Refusal::Error(ApiError::Internal(format!(
                "failed to lookup namespace {namespace}"
            ))));
        };
        if errors.is_empty() && policy.is_privileged() {
            count(attributes, Decision::Allow, Mode::Enforce, policy.enforce);
            note(attributes, "enforce-policy", || LevelVersion::default().to_string());
            return Ok(());
        }
        if attributes.old.is_some_and(|old| !concerns_a_standard(old.at("spec"), pod.at("spec"))) {
            return Ok(());
        }
        let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
        if self.has_exempt_runtime(spec) {
            exempt(attributes, "runtimeClass");
            return Ok(());
        }
        note_errors(attributes, &errors);
        note(attributes, "enforce-policy", || policy.enforce.to_string());
        let evaluated = evaluate(policy.enforce, attributes.brand, metadata, spec);
        let decision = if evaluated.is_empty() { Decision::Allow } else { Decision::Deny };
        count(attributes, decision, Mode::Enforce, policy.enforce);
        let enforced = Evaluated { policy: policy.enforce, violations: evaluated };
        let audited = enforced.or(policy.audit, attributes, metadata, spec);
        audited.report_audit(attributes);
        if !enforced.violations.is_empty() {
            let reason = details(&enforced.violations);
            return Err(Refusal::Forbidden(format!("violates PodSecurity \"{}\": {reason}", policy.enforce)));
        }
        enforced.or(policy.warn, attributes, metadata, spec).report_warning(attributes);
        Ok(())
    }

    /// Marks and warns of a template whose pods would be refused.
    fn check_template(&self, attributes: &Attributes<'_>, template: &Value, view: &View) {
        if self.is_exempt(attributes) {
            return;
        }
        let Some((policy, errors)) = self.policy_of(attributes, view) else {
            let text = || format!("failed to lookup namespace {}", quoted(attributes.namespace));
            note(attributes, "error", text);
            return;
        };
        let has_no_rule = Policy { enforce: LevelVersion::default(), ..policy }.is_privileged();
        if errors.is_empty() && has_no_rule {
            return;
        }
        let (metadata, spec) = (template.at("metadata"), template.at("spec"));
        if self.has_exempt_runtime(spec) {
            exempt(attributes, "runtimeClass");
            return;
        }
        note_errors(attributes, &errors);
        let of =
            |policy| Evaluated { policy, violations: evaluate(policy, attributes.brand, metadata, spec) };
        let audited = of(policy.audit);
        audited.report_audit(attributes);
        audited.or(policy.warn, attributes, metadata, spec).report_warning(attributes);
    }

    /// Whether the namespace or the user is exempt.
    fn is_exempt(&self, attributes: &Attributes<'_>) -> bool {
        let reason = if self.settings.exempt_namespaces.contains(attributes.namespace) {
            "namespace"
        } else if self.settings.exempt_users.contains(&attributes.user.name) {
            // set: the operator's.
            "user"
        } else {
            return false;
        };
        exempt(attributes, reason);
        true
    }

    fn has_exempt_runtime(&self, spec: &Value) -> bool {
        let class = spec.text("runtimeClassName");
        !class.is_empty() && self.settings.exempt_runtime_classes.contains(class)
    }

    /// The policy of the write's namespace, and what is wrong with its labels. `None`: there is no such namespace.
    fn policy_of(&self, attributes: &Attributes<'_>, view: &View) -> Option<(Policy, FieldErrors)> {
        let labels = view.labels_of(attributes.namespace)?;
        Some(Policy::of(attributes.brand, |key| labels.value(key), self.settings.defaults))
    }
}

/// Members of a pod's spec that no standard reads: a change of these alone is judged by none, so that the gates of a pod that
/// is older than its namespace's policy can be lifted.
const UNJUDGED: [&str; 6] = [
    "activeDeadlineSeconds",
    "affinity",
    "nodeSelector",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
];

/// Whether an update changes a member of a pod's spec that a standard may read.
fn concerns_a_standard(old: &Value, new: &Value) -> bool {
    let members = [old, new].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
    let mut judged = members.filter(|member| !UNJUDGED.contains(&member.as_str()));
    // once: a spec has some forty members by its schema.
    judged.any(|member| !is_unchanged(old.at(member), new.at(member)))
}

/// The violations of one policy.
#[derive(Clone)]
struct Evaluated {
    policy: LevelVersion,
    violations: Vec<Violation>,
}

impl Evaluated {
    /// The violations of `policy`: these, if it is the same one.
    fn or(
        &self,
        policy: LevelVersion,
        attributes: &Attributes<'_>,
        metadata: &Value,
        spec: &Value,
    ) -> Evaluated {
        if policy == self.policy {
            return self.clone();
        }
        Evaluated { policy, violations: evaluate(policy, attributes.brand, metadata, spec) }
    }

    fn text(&self) -> String {
        format!("would violate PodSecurity \"{}\": {}", self.policy, details(&self.violations))
    }

    fn report_audit(&self, attributes: &Attributes<'_>) {
        if !self.violations.is_empty() {
            note(attributes, "audit-violations", || self.text());
            count(attributes, Decision::Deny, Mode::Audit, self.policy);
        }
    }

    fn report_warning(&self, attributes: &Attributes<'_>) {
        if !self.violations.is_empty() {
            attributes.warn(self.text());
            count(attributes, Decision::Deny, Mode::Warn, self.policy);
        }
    }
}

fn note_errors(attributes: &Attributes<'_>, errors: &FieldErrors) {
    if errors.is_empty() {
        return;
    }
    note(attributes, "error", || {
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        match &told[..] {
            [one] => format!("Failed to parse policy: {one}"),
            many => format!("Failed to parse policy: [{}]", many.join(", ")),
        }
    });
}

/// Whether objects of this resource hold templates of pods.
fn has_template(storage: &str) -> bool {
    matches!(
        storage,
        "cronjobs.batch"
            | "daemonsets.apps"
            | "deployments.apps"
            | "jobs.batch"
            | "podtemplates"
            | "replicasets.apps"
            | "replicationcontrollers"
            | "statefulsets.apps"
    )
}

/// The template of an object that holds one.
fn template_of<'o>(storage: &str, object: &'o Value) -> Option<&'o Value> {
    let template = match storage {
        "podtemplates" => object.at("template"),
        "cronjobs.batch" => object.at("spec").at("jobTemplate").at("spec").at("template"),
        _ => object.at("spec").at("template"),
    };
    Some(template).filter(|template| template.is_object())
}
