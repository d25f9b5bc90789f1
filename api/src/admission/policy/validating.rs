//! `ValidatingAdmissionPolicy`: refuses, warns of and records writes that break a policy.
//!
//! Owns what follows from each violation. A write is judged by all
//! policies, also behind one that refuses it: their warnings count. The first refusal is given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::Either;
use orch_proto::Brand;
use orch_rules::expression::policy::{Annotation, FailurePolicy, Input, Said, ValidatingPrograms, Verdict};
use orch_rules::validate::Distinct;
use orch_schema::value::Value;

use super::checks::{Enforcement, count_validation, observe_unmet_conditions};
use super::is_judged;
use super::met::{Invocation, Misconfigured, Stored, invocations};
use super::prepared::{Action, Binding, Bound, Policy, PolicyKind};
use super::refusal::{Denial, annotate_violation};
use super::witness::{Outcome, Witness};
use crate::admission::matching::{Converted, Names, Objects, Param, Requests, Version, Write, converted};
use crate::admission::{Additions, Attributes, Plugin, Ruling, View, rule};

/// Bytes of an audit annotation. The reference's.
const ANNOTATION_BYTES_MAX: usize = 10 << 10;

impl PolicyKind for ValidatingPrograms {
    const SOURCES: [&'static str; 2] = [
        "validatingadmissionpolicies.admissionregistration",
        "validatingadmissionpolicybindings.admissionregistration",
    ];
    const KIND: &'static str = "ValidatingAdmissionPolicy";
    const CONVERTS_FIRST: bool = false;

    fn compile(spec: &Value, brand: &'static Brand) -> Self {
        ValidatingPrograms::compile(spec, brand)
    }
}

#[derive(Debug, Default)]
pub(in crate::admission) struct ValidatingAdmissionPolicy {
    stored: Stored<ValidatingPrograms>,
}

impl ValidatingAdmissionPolicy {
    /// The plugin whose evaluations are shown to `witness`.
    pub(in crate::admission) fn witnessed(witness: Arc<dyn Witness>) -> Self {
        ValidatingAdmissionPolicy { stored: Stored::witnessed(witness) }
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_judged(attributes)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(looked) = self.stored.look_up(attributes, view) else { return rule(Ok(())) };
        Either::Right(Box::pin(async move {
            let mut judging = Judging {
                stored: &self.stored,
                write: Write::new(attributes, view),
                object,
                versions: Vec::new(),
                denial: None,
            };
            for bound in self.stored.found(looked, attributes, view).await {
                judging.policy(&bound).await;
            }
            judging.denial.map_or(Ok(()), |denial| Err(denial.refusal(attributes)))
        }))
    }
}

/// A write on its way through the policies.
struct Judging<'a> {
    stored: &'a Stored<ValidatingPrograms>,
    write: Write<'a>,
    object: Option<&'a Value>,
    /// The objects in the versions that were needed, with the document of the request.
    versions: Vec<(Converted<'a>, Requests)>,
    denial: Option<Denial>,
}

type Own = Policy<ValidatingPrograms>;
type Evaluation<'a> = Invocation<'a, ValidatingPrograms>;

impl<'a> Judging<'a> {
    async fn policy(&mut self, bound: &Bound<ValidatingPrograms>) {
        let policy = &bound.policy;
        let mut annotations = Annotations::default();
        for invocation in invocations(&self.write, bound, self.object).await {
            match invocation {
                Ok(invocation) => self.invoke(&invocation, &mut annotations).await,
                Err(Misconfigured { binding, reason }) => {
                    self.misconfigured(policy, binding.as_deref(), &reason);
                }
            }
        }
        annotations.publish(&policy.name, self.write.attributes());
    }

    /// Judges the write by a policy with a binding and a parameter.
    async fn invoke(&mut self, invocation: &Evaluation<'a>, annotations: &mut Annotations) {
        let Invocation { policy, binding, param, version } = invocation;
        let at = match self.version(version).await {
            Ok(at) => at,
            Err(reason) => {
                let reason = format!("failed to convert object version: {reason}");
                return self.misconfigured(policy, Some(binding), &reason);
            }
        };
        let programs = policy.programs(self.write.attributes().brand);
        let (Converted { version, object, old }, request) = &self.versions[at];
        let objects = Objects { version, object: object.as_deref(), old: old.as_deref(), request };
        let param = Param { object: param.as_ref(), kind: policy.param_kind() };
        let run = |input: &Input<'_>| programs.validate(input, policy.failure);
        let judged = self.write.evaluate_policy(policy, objects, param, run).await;
        let (verdict, taken) = &judged;
        if !verdict.applies {
            let (name, _) = self.stored.series_names(policy, binding);
            let operation = self.write.attributes().operation;
            observe_unmet_conditions(name, operation, verdict.condition_errors, *taken);
        }
        self.stored.show(policy, Some(binding), param.object, || outcome(verdict));
        self.carry_out(policy, binding, judged, annotations);
    }

    /// The place of the objects in `version` among those that were converted.
    async fn version(&mut self, version: &Version<'a>) -> Result<usize, String> {
        let asked = &self.write.asked;
        let names = Names::of(asked, version);
        // few: the versions of one resource.
        if let Some(at) = self.versions.iter().position(|(of, _)| of.version == names) {
            return Ok(at);
        }
        let converted = converted(asked, self.object, version).await?;
        let request = asked.requests(&converted.version);
        self.versions.push((converted, request));
        Ok(self.versions.len() - 1)
    }

    fn carry_out(
        &mut self,
        policy: &Own,
        binding: &Binding,
        (verdict, taken): (Verdict, Duration),
        annotations: &mut Annotations,
    ) {
        let stored = self.stored;
        let count = |enforcement, message: &str| {
            count_validation(stored.series_names(policy, binding), enforcement, message, taken);
        };
        for (at, said) in verdict.said.into_iter().enumerate() {
            let (message, reason) = match said {
                Said::Holds => continue,
                Said::Ignored(error) => {
                    count(Enforcement::Allowed, &error);
                    continue;
                }
                Said::Failed(message) => (message, String::new()),
                Said::Denied { message, reason } => (message, reason),
            };
            for action in &binding.actions {
                count(Enforcement::Carried(*action), &message);
                match action {
                    Action::Deny => self.deny(policy, Some(binding), message.clone(), reason.clone()),
                    Action::Warn => self.write.attributes().warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    )),
                    Action::Audit => {
                        annotate_violation(self.write.attributes(), &policy.name, binding, at, &message);
                    }
                }
            }
        }
        for annotation in verdict.annotations {
            match annotation {
                Annotation::Published(key, text) => annotations.add(key, text),
                // Whatever the actions of the binding are, as in the reference.
                Annotation::Failed(reason) => {
                    count(Enforcement::Carried(Action::Deny), &reason);
                    self.deny(policy, Some(binding), reason, String::new());
                }
            }
        }
    }

    fn misconfigured(&mut self, policy: &Own, binding: Option<&Binding>, reason: &str) {
        self.stored.show(policy, binding, None, || Outcome::Misconfigured(reason.to_owned()));
        if policy.failure == FailurePolicy::Fail {
            let part = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {part}: {reason}");
            self.deny(policy, binding, message, String::new());
        }
    }

    fn deny(&mut self, policy: &Own, binding: Option<&Binding>, message: String, reason: String) {
        let binding = binding.map(|binding| binding.name.to_string()).unwrap_or_default();
        let policy = policy.name.to_string();
        self.denial.get_or_insert(Denial { policy, binding, message, reason });
    }
}

/// `verdict` as witnesses are shown it.
fn outcome(verdict: &Verdict) -> Outcome {
    match (verdict.applies, &verdict.said[..]) {
        (false, []) => Outcome::LeftOut,
        (false, [Said::Failed(reason) | Said::Ignored(reason), ..]) => Outcome::NoConditions(reason.clone()),
        _ => Outcome::Validated(verdict.clone()),
    }
}

/// Audit annotations of one policy, over all its bindings and parameters.
#[derive(Default)]
struct Annotations(BTreeMap<String, (Vec<String>, Distinct<String>)>);

impl Annotations {
    fn add(&mut self, key: String, mut text: String) {
        text.truncate(text.floor_char_boundary(ANNOTATION_BYTES_MAX));
        let (texts, seen) = self.0.entry(key).or_default();
        if !seen.is_repeated(text.clone()) {
            texts.push(text);
        }
    }

    fn publish(self, policy: &str, attributes: &Attributes<'_>) {
        for (key, (texts, _)) in self.0 {
            attributes.annotate(|| format!("{policy}/{key}"), || texts.join(", "));
        }
    }
}
